"""Rows of other programs, which name a state file and have no outcomes."""

import importlib.util
import json
import shutil
from contextlib import closing

import pytest

from engine.datasets import load_problems
from engine.errors import InputError
from engine.tasks.registry import task_named
from engine.tasks.traffic.rewards import OutcomeSettings
from engine.tasks.traffic.simulation.live import LiveOutcomes
from engine.tasks.traffic.simulation.live_scenarios import live_scenarios
from engine.tasks.traffic.simulation.process import SimulationFailedError
from engine.tasks.traffic.validation import errors_of, read_rows
from grpo_training.traffic.__main__ import main

pytestmark = [
    pytest.mark.sumo,
    pytest.mark.skipif(importlib.util.find_spec("libsumo") is None, reason="SUMO is not installed (make traffic)"),
]
KEYS = (
    "id scenario junction_id simulation_time current_phase_id current_phase_order_idx current_green_elapsed min_green "
    "max_green extend_seconds can_extend phase_order phase_metrics prompt state_file expert_decision"
).split()


@pytest.fixture(scope="module")
def plain(scenarios, tmp_path_factory):
    """A dataset with the limits of the network: no offsets, which a row tells of its current phase only."""
    output = tmp_path_factory.mktemp("plain")
    words = [
        "--scenarios-dir",
        str(scenarios),
        "--output-dir",
        str(output),
        "--scenario",
        min(scenarios.iterdir()).name,
    ]
    words += ["--min-green-offset", "0", "--max-green-offset", "0", "--max-decisions", "12", "--keep-states"]
    assert main(["generate", *words]) == 0
    return output


@pytest.fixture
def foreign(plain, tmp_path):
    """The dataset as another program would have written it: its keys, and SUMO's states alone."""
    for folder in plain.glob("*/grpo_dataset.json"):
        target = tmp_path / "foreign" / folder.parent.name
        (target / "states").mkdir(parents=True)
        for state in (folder.parent / "states").glob("*.xml"):
            shutil.copy(state, target / "states")
        rows = [{key: row[key] for key in KEYS} for row in json.loads(folder.read_text())]
        (target / "grpo_dataset.json").write_text(json.dumps(rows))
    return tmp_path / "foreign"


def simulate(foreign, scenarios, output):
    words = ["--dataset", str(foreign), "--scenarios-dir", str(scenarios), "--output-dir", str(output)]
    return main(["simulate", *words])


def test_the_outcomes_are_those_of_the_same_states_with_all_that_was_known(foreign, plain, scenarios, tmp_path):
    out = tmp_path / "out"
    assert simulate(foreign, scenarios, out) == 0
    for made in out.glob("*/grpo_dataset.json"):
        before, now = read_rows(plain / made.parent.name / made.name), read_rows(made)
        assert [row.id for row in now] == [row.id for row in before]
        assert [(row.queue, row.moving, row.branches) for row in now] == [
            (row.queue, row.moving, row.branches) for row in before
        ]
        assert not [error for error in errors_of(made) if "scenario needs" not in error]
        with closing(LiveOutcomes(live_scenarios(made, scenarios), OutcomeSettings())) as live:
            assert [live.branches(row) for row in now] == [row.branches for row in now]
    with pytest.raises(InputError, match="is there already"):
        simulate(foreign, scenarios, out)


def test_a_state_of_another_moment_is_not_simulated(foreign, scenarios, tmp_path, capsys):
    path = min(foreign.glob("*/grpo_dataset.json"))
    first, second, third, *_ = json.loads(path.read_text())
    second |= {"phase_metrics": dict.fromkeys(second["phase_metrics"], 99.0)}
    third |= {"simulation_time": third["simulation_time"] + 60}
    path.write_text(json.dumps([first, second, third, first | {"id": "none", "state_file": "states/none.xml"}]))
    assert simulate(path, scenarios, tmp_path / "out") == 0
    said = capsys.readouterr().out
    for part in ("1 decisions", "1 the state has other queues than the row", "1 a branch failed", "1 no state file"):
        assert part in said
    path.write_text(json.dumps([first | {"id": "none", "state_file": "../states/none.xml"}]))
    with pytest.raises(SimulationFailedError, match=r"No row of .* could be simulated"):
        simulate(path, scenarios, tmp_path / "other")


def test_a_row_without_outcomes_is_refused_with_the_command_that_makes_them(foreign):
    path = min(foreign.glob("*/grpo_dataset.json"))
    row = json.loads(path.read_text())[0]
    with pytest.raises(InputError, match="has no outcomes") as raised:
        task_named("traffic").problem_from_row(row, "here")
    assert "traffic simulate --dataset" in raised.value.fix
    assert "task" not in row  # it is known by its fields
    with pytest.raises(InputError, match="has no outcomes") as raised:
        load_problems(str(path))
    assert "traffic simulate --dataset" in raised.value.fix


def test_a_row_that_is_there_twice_is_refused_before_anything_is_simulated(foreign, scenarios, tmp_path):
    [path] = foreign.glob("*/grpo_dataset.json")
    rows = json.loads(path.read_text())
    path.write_text(json.dumps([*rows, rows[0]]))
    with pytest.raises(InputError, match="is there twice"):
        simulate(foreign, scenarios, tmp_path / "out")
    assert not (tmp_path / "out").exists()
