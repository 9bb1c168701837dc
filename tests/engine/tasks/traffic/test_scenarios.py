"""Which own scenarios there are, and what happens if a tool of SUMO writes an incomplete one."""

import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from engine.errors import InputError
from engine.tasks.traffic import scenarios
from engine.tasks.traffic.scenarios import specs_of, unused_step_length, write_scenario


@pytest.mark.parametrize("kind", ["grid2x2", "arterial1x4", "single"])
def test_no_network_and_no_demand_is_in_two_splits(kind):
    networks, demand = defaultdict(set), defaultdict(set)
    for spec in specs_of(kind, 200, 3407):
        networks[spec.split].add((spec.length_m, spec.lanes))  # a grid is regular: nothing else shapes it
        demand[spec.split].add(spec.seed)
    for first, second in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not networks[first] & networks[second]
        assert not demand[first] & demand[second]


def test_of_each_eight_five_train_one_validates_and_two_test_with_all_profiles():
    specs = specs_of("grid2x2", 24, 1)
    assert Counter(spec.split for spec in specs) == {"train": 15, "validation": 3, "test": 6}
    assert {spec.profile for spec in specs if spec.split == "test"} == {"uniform", "peak", "tidal"}
    assert specs_of("grid2x2", 8, 1) == specs[:8]  # more scenarios leave the others as they are


@pytest.mark.parametrize("broken", ["netgenerate", "duarouter"])
def test_a_tool_that_wrote_half_a_file_without_an_error_leaves_no_scenario(tmp_path, monkeypatch, broken):
    pytest.importorskip("sumo")
    run = subprocess.run

    def full_disk(command, **more):
        done = run(command, **more)
        if Path(command[0]).name == broken:
            file = Path(command[command.index("--output-file") + 1])
            file.write_bytes(file.read_bytes()[:2000])
        return done

    monkeypatch.setattr(scenarios.subprocess, "run", full_disk)
    with pytest.raises(InputError, match=rf"{broken} wrote an incomplete file: \S+\n.*disk"):
        write_scenario(specs_of("single", 1, 1)[0], tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<c><time><step-length value="0.1"/></time></c>', "0.1"),
        ('<c><step-length v="5"/></c>', "5"),
        ('<c><processing><step-length value="10"/></processing></c>', "10"),
        ('<c><time><step-length value="1.0"/></time></c>', ""),
        ('<c><time><step-length value="1"/></time></c>', ""),
        ('<c><time><end value="900"/></time></c>', ""),
        ("<c>", ""),
    ],
)
def test_the_step_length_of_a_configuration_is_named_where_it_is_not_used(tmp_path, text, expected):
    (tmp_path / "a.sumocfg").write_text(text)
    assert unused_step_length(tmp_path / "a.sumocfg") == expected
