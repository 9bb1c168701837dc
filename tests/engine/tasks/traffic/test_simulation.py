"""Generation, live outcomes and closed loop in SUMO itself, on small scenarios and on a real network."""

import dataclasses
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from itertools import pairwise

import pytest

from engine.errors import InputError
from engine.tasks.traffic.rewards import OutcomeSettings, observation_of
from engine.tasks.traffic.rows import read_rows, state_text
from engine.tasks.traffic.scenarios import find_config
from engine.tasks.traffic.simulation.closed_loop import run_closed_loop
from engine.tasks.traffic.simulation.generation import GenerationSettings, generate_scenario
from engine.tasks.traffic.simulation.live import LiveOutcomes, TooManyFailuresError, live_scenarios
from engine.tasks.traffic.simulation.process import SimulationFailedError
from tests.conftest import ROOT, shared_file
from tests.support.sumo_scenarios import write_scenario

pytestmark = [
    pytest.mark.sumo,
    pytest.mark.skipif(importlib.util.find_spec("libsumo") is None, reason="SUMO is not installed (make traffic)"),
    pytest.mark.timeout(300),
]
SHORT = GenerationSettings(max_decisions=12, keep_states=True, horizon=20)


def rows_of(path):
    return read_rows(path)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_dataset_agrees_with_itself_and_is_of_several_junctions(dataset):
    rows = rows_of(dataset)
    for row in rows:
        assert row.can_extend == (row.current_green_elapsed + row.extend_seconds <= row.max_green)
        assert row.prompt == state_text(observation_of(row), row.extend_seconds)
    assert len(rows) >= 10
    assert len({row.junction_id for row in rows}) > 1


def test_no_more_decisions_are_stored_than_wanted_where_several_lights_decide_in_one_second(grid, tmp_path):
    generate_scenario(grid, tmp_path / "long", GenerationSettings(max_decisions=40))
    times = [row.simulation_time for row in rows_of(tmp_path / "long" / grid.name / "grpo_dataset.json")]
    most = next(number for number, (before, after) in enumerate(pairwise(times), 1) if before == after)
    assert generate_scenario(grid, tmp_path / "short", GenerationSettings(max_decisions=most)).rows == most


def test_queues_and_outcomes_are_those_of_the_junction_of_the_row(dataset):
    for row in rows_of(dataset):
        assert (row.queue > 0) == any(row.phase_metrics.values())
        for outcome in (row.branches.extend, row.branches.switch):
            assert (outcome.queue > 0) == any(outcome.phase_queues.values())
    assert any(row.branches.extend != row.branches.switch for row in rows_of(dataset))


def test_the_same_settings_give_the_same_bytes(grid, dataset, tmp_path):
    generate_scenario(grid, tmp_path, SHORT)
    assert (tmp_path / grid.name / "grpo_dataset.json").read_bytes() == dataset.read_bytes()


def test_live_outcomes_equal_the_stored_ones(grid, dataset):
    rows = rows_of(dataset)
    with closing(LiveOutcomes(live_scenarios(dataset, grid.parent), OutcomeSettings())) as live:
        for row in reversed(rows):
            assert live.branches(row) == row.branches


def test_a_state_of_another_network_is_an_error_and_no_zero(grid, dataset, tmp_path):
    other = find_config(write_scenario(tmp_path, "single"))
    rows = rows_of(dataset)
    scenarios = {
        name: dataclasses.replace(scenario, config=other)
        for name, scenario in live_scenarios(dataset, grid.parent).items()
    }
    settings = OutcomeSettings(live_workers=1, live_max_failures=2)
    with closing(LiveOutcomes(scenarios, settings)) as live:
        assert live.branches(rows[0]) is None
        with pytest.raises(TooManyFailuresError, match="3 simulated decisions failed"):
            live.branches(rows[1])


def test_a_kill_leaves_nothing_and_the_next_run_gives_the_same_files(grid, dataset, tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from engine.tasks.traffic.simulation.generation import GenerationSettings, generate_scenario\n"
        "short = GenerationSettings(max_decisions=12, keep_states=True, horizon=20)\n"
        "generate_scenario(Path(sys.argv[1]), Path(sys.argv[2]), short)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(grid), str(tmp_path)], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    until = time.monotonic() + 60
    while not list(tmp_path.rglob("state_*.json")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(tmp_path.rglob("state_*.json"))  # it was killed in the middle
    assert not (tmp_path / grid.name).exists()
    generate_scenario(grid, tmp_path, SHORT)
    assert contents(tmp_path / grid.name) == contents(dataset.parent)
    assert len(contents(dataset.parent)) > len(rows_of(dataset))  # with the state of each row


def test_a_dataset_with_other_settings_is_refused_and_left_alone(grid, dataset):
    before = dataset.read_bytes()
    with pytest.raises(InputError, match="other settings"):
        generate_scenario(
            grid, dataset.parent.parent, GenerationSettings(max_decisions=12, keep_states=True, horizon=5)
        )
    assert dataset.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<configuration><input>", "cannot load"),
        ('<configuration><input><net-file value="none.xml"/></input></configuration>', ""),
    ],
)
def test_a_broken_configuration_is_one_clear_error(tmp_path, content, said):
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "broken.sumocfg").write_text(content)
    with pytest.raises(SimulationFailedError) as caught:
        generate_scenario(folder, tmp_path / "out", SHORT)
    assert said in str(caught.value.why)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_network_without_traffic_lights_is_refused(grid, tmp_path):
    folder = tmp_path / "plain"
    folder.mkdir()
    for path in grid.iterdir():
        text = path.read_text()
        if path.name.endswith(".net.xml"):
            text = re.sub(r"<tlLogic.*?</tlLogic>", "", text, flags=re.DOTALL)
            text = re.sub(r' tl="[^"]*" linkIndex="[^"]*"', "", text).replace('type="traffic_light"', 'type="priority"')
        (folder / path.name).write_text(text)
    with pytest.raises(SimulationFailedError) as caught:
        generate_scenario(folder, tmp_path / "out", SHORT)
    assert "no traffic light" in caught.value.why


def test_closed_loop_on_the_same_seed_is_the_same_and_policies_differ(grid):
    runs = [run_closed_loop(grid, policy, 1, seconds=600) for policy in ("max-pressure", "max-pressure")]
    runs.append(run_closed_loop(grid, "extend", 1, seconds=600, decide=lambda states: [True] * len(states)))
    assert runs[0] == runs[1]
    assert runs[2].figures["mean_waiting_s"] > runs[0].figures["mean_waiting_s"]
    assert runs[2].figures["switches"] < runs[0].figures["switches"]


def test_a_model_that_answers_like_a_baseline_has_its_figures(grid):
    """Decisions asked from outside by the prompt's state text are applied at the right junctions."""

    def decide(states):
        answers = []
        for text in states:
            state = json.loads(text)["state"]
            queues = {index: metrics["avg_queue_veh"] for index, metrics in state["phase_metrics_by_id"].items()}
            current = queues.pop(str(state["current_phase_id"]))
            may = state["current_green_elapsed_s"] + state["extend_s"] <= state["max_green_s"]
            answers.append(may and current >= max(queues.values()))
        return answers

    asked = run_closed_loop(grid, "model", 1, decide=decide, seconds=600)
    baseline = run_closed_loop(grid, "max-pressure", 1, seconds=600)
    assert asked.figures == baseline.figures
    assert asked.decisions > 50
    assert asked.unreadable == 0


def test_unreadable_decisions_are_counted_and_switch(grid):
    unread = run_closed_loop(grid, "model", 1, decide=lambda states: [None] * len(states), seconds=300)
    assert unread.unreadable == unread.decisions > 0
    switched = run_closed_loop(grid, "switch", 1, decide=lambda states: [False] * len(states), seconds=300)
    assert unread.figures == switched.figures


def test_a_real_network(tmp_path):
    config = shared_file("sumo/cologne3/cologne3.sumocfg")
    done = generate_scenario(config.parent, tmp_path, GenerationSettings(max_decisions=15))
    assert done.rows >= 12
    rows = rows_of(tmp_path / "cologne3/grpo_dataset.json")
    assert len({row.junction_id for row in rows}) == 3
    assert all(row.min_green >= 5 for row in rows)


def test_the_process_of_a_simulation_does_not_run_the_script_of_its_user(grid, tmp_path):
    """A script without a guard for ``__main__`` starts simulations too."""
    script = tmp_path / "own.py"
    script.write_text(
        "import sys; from pathlib import Path\n"
        "from engine.tasks.traffic.simulation.closed_loop import run_closed_loop\n"
        "print('started', run_closed_loop(Path(sys.argv[1]), 'fixed', 1, seconds=60).figures['seconds'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script, grid], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "started 60.0\n", done.stderr
