"""``experience_extractor``: experiences from a cache that is there already."""

import json
import shutil

import pytest

from engine.errors import InputError, MissingInputError
from grpo_training import experience_extractor
from tests.support.main_loop import World, normalised


@pytest.fixture(scope="module")
def world(recorded, aime2024, tmp_path_factory):
    """Generators 1 and 2 and the critic on eight problems, without cases, which the analyst does not write."""
    with World(tmp_path_factory.mktemp("world"), list(recorded.values())) as world:
        for number in (1, 2):
            world.generate(number, aime2024, "--max-problems", 8, "--tau", 0.01, "--cases", 0)
        world.criticise("--generators", "1,2", "--tau", 0.01)
        yield world


def extract(world, directory, *more):
    """Extract into a directory; the library, and the number of requests that were sent."""
    before = len(world.traffic.requests)
    arguments = [
        "--api-config",
        world.config,
        "--cache-dir",
        world.cache,
        "--experiences-dir",
        directory,
        "--tau",
        0.01,
        *more,
    ]
    assert experience_extractor.main([str(argument) for argument in arguments]) == 0
    role = more[more.index("--role") + 1] if "--role" in more else "generator_1"
    return json.loads((directory / f"{role}_experiences.json").read_text()), len(world.traffic.requests) - before


def without_uses(library):
    return [(entry["id"], entry["content"], entry["category"], entry["source_problem"]) for entry in library]


@pytest.mark.parametrize(("role", "temperature"), [("generator_1", 0.3), ("critic", 0)])
def test_the_stored_groups_give_the_library_of_the_run_without_a_request(world, tmp_path, role, temperature, capsys):
    """The same analyst is asked the same in the same order, so the journal has its replies."""
    library, requests = extract(world, tmp_path, "--role", role, "--temperature", temperature)
    expected = json.loads((world.experiences / f"{role}_experiences.json").read_text())
    assert without_uses(library) == without_uses(expected)
    assert library
    assert requests == 0
    prefix = "C" if role == "critic" else "G1"
    assert f"✅ Saved: {prefix}-001 When a " in capsys.readouterr().out


def test_another_tau_asks_about_other_groups_and_nothing_else_is_written(world, tmp_path):
    before = normalised(world)
    assert extract(world, tmp_path / "none", "--tau", 10) == ([], 0)
    everything, requests = extract(world, tmp_path / "all", "--tau", 0, "--window", 1)
    assert requests > 0
    assert len(everything) > 0
    assert normalised(world) == before


def test_the_same_command_again_changes_nothing_and_fresh_extracts_once_more(world, tmp_path):
    first, _ = extract(world, tmp_path)
    assert extract(world, tmp_path) == (first, 0)
    events = (tmp_path / "generator_1_experiences.ops.jsonl").read_text()
    again, _ = extract(world, tmp_path, "--fresh")
    assert without_uses(again)[: len(first)] == without_uses(first)
    assert len((tmp_path / "generator_1_experiences.ops.jsonl").read_text()) > len(events)


@pytest.mark.parametrize(
    ("role", "name", "key"),
    [("generator_1", "generator_1_rollouts.jsonl", "reward_detail"), ("critic", "critic_results.jsonl", "repairs")],
)
def test_a_group_that_cannot_be_read_is_named_and_the_others_are_shown_to_the_analyst(
    world, tmp_path, capsys, role, name, key
):
    """Its fault is in a field that is read only with the whole group."""
    everything, _ = extract(world, tmp_path / "all", "--role", role, "--tau", 0)
    cache = shutil.copytree(world.cache, tmp_path / "cache")
    lines = (cache / name).read_text().splitlines()
    first = json.loads(lines[0])
    for record in first.get("rollouts", [first]):
        record[key] = 3
    lines[0] = json.dumps(first)
    (cache / name).write_text("\n".join(lines) + "\n")
    library, _ = extract(world, tmp_path / "rest", "--role", role, "--tau", 0, "--cache-dir", cache, "--window", 1)
    assert everything
    assert library
    assert f"{name}:1: " in capsys.readouterr().out


def test_a_cache_that_is_missing_or_empty(world, tmp_path):
    places = ["--api-config", str(world.config), "--experiences-dir", str(tmp_path), "--cache-dir", str(tmp_path)]
    with pytest.raises(MissingInputError, match="Run python -m grpo_training.generator2 first"):
        experience_extractor.main([*places, "--role", "generator_2"])
    (tmp_path / "generator_1_rollouts.jsonl").write_text("\n")
    with pytest.raises(InputError, match="No complete group"):
        experience_extractor.main(places)
