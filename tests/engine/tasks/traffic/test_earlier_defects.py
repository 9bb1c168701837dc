"""Defects of earlier programs of this kind, one test each; the letter or word says which. Further ones are elsewhere:

* two readers of replies, and the truth table: ``test_reply.py``
* limits that the model does not see: ``test_rows.py``
* states without random numbers, branches with other seeds: ``test_simulation.py`` (live outcomes equal stored ones)
* a validation that blocks the first run, data without rows: ``tests/grpo_training/traffic/test_steps.py``
"""

import importlib.util
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from engine.records import Completion
from engine.tasks.traffic.policies import max_pressure
from engine.tasks.traffic.rewards import observation_of
from engine.tasks.traffic.rows import read_rows
from engine.tasks.traffic.scenarios import SimulationOptions
from engine.tasks.traffic.simulation import generation
from engine.tasks.traffic.simulation import process as process_module
from engine.tasks.traffic.simulation.generation import GenerationSettings, generate_scenario
from engine.tasks.traffic.simulation.process import SimulationFailedError, simulate
from engine.tasks.traffic.task import TASK
from grpo_training.agents.generator import generator_messages
from grpo_training.train.online.rewards import TrlReward, dataset_rows
from tests.conftest import ROOT
from tests.engine.tasks.traffic.support import row

needs_sumo = [
    pytest.mark.sumo,
    pytest.mark.skipif(importlib.util.find_spec("libsumo") is None, reason="SUMO is not installed (make traffic)"),
    pytest.mark.timeout(300),
]


def sumo(test):
    for mark in needs_sumo:
        test = mark(test)
    return test


def problem(number, **figures):
    values = row(**figures).model_dump(mode="json")
    return TASK.problem_from_row({**values, "id": f"row_{number}"}, "here")


def run_python(code, *words, **environ):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if line.startswith("> ")]


# A, E: rewards of the rows that the completions belong to


def test_a_every_completion_of_a_shuffled_batch_is_scored_with_its_own_row():
    """All answers are the same and the rows differ, which earlier gave the rewards of the first rows of the file."""
    problems = [problem(number, before=7, extend=5 + number, switch=20) for number in range(8)]
    columns = dataset_rows(problems, "full")
    expected = {asked.id: reward for asked, reward in zip(problems, scores(columns), strict=True)}
    assert len(set(expected.values())) == 8
    random.Random(5).shuffle(columns)
    columns = [columns[0], *columns]  # a batch also repeats rows
    assert scores(columns) == [expected[json.loads(row["problem"])["id"]] for row in columns]


def scores(columns, text='{"extend": "yes"}'):
    with TrlReward() as reward:
        return reward(
            completions=[[{"role": "assistant", "content": text}] for _ in columns],
            completion_ids=[[1] for _ in columns],
            **{name: [row[name] for row in columns] for name in columns[0] if name != "prompt"},
        )


def test_the_prompt_of_a_chat_and_the_chat_completion_are_both_read():
    """Earlier a chat prompt failed to parse as JSON and every traffic reward was 0."""
    columns = dataset_rows([problem(1, extend=5, switch=9), problem(2, extend=9, switch=5)], "full")
    assert isinstance(columns[0]["prompt"], list)
    better, worse = scores(columns)
    assert (better > 0.5, worse) == (True, 0.0)


def test_e_the_decision_of_max_pressure_is_that_of_the_same_row():
    for queues, phase in (((3.5, 1.0, 0.0), 0), ((0.0, 1.0, 3.0), 0), ((0.0, 1.0, 3.0), 4)):
        entry = row(queues=queues, phase=phase)
        asked = TASK.problem_from_row(entry.model_dump(mode="json"), "here")
        decision = TASK.evaluate(TASK.parse(Completion(text='{"extend": "no"}'), asked), asked).detail["max_pressure"]
        assert decision == ("yes" if queues[phase // 2] == max(queues) else "no")


# B: the right light


STATES = """
import json, sys
import libsumo
libsumo.start(["sumo", "-c", sys.argv[1], "--no-warnings", "--no-step-log"])
for state in sys.argv[2:]:
    libsumo.simulation.loadState(state)
    halting = {}
    for light in libsumo.trafficlight.getIDList():
        lanes = {link[0][0] for link in libsumo.trafficlight.getControlledLinks(light) if link}
        on = [vehicle for lane in lanes for vehicle in libsumo.lane.getLastStepVehicleIDs(lane)]
        halting[light] = sum(libsumo.vehicle.getSpeed(vehicle) < 0.1 for vehicle in on)
    print("> " + json.dumps(halting))
"""


@sumo
def test_b_the_queue_of_a_row_is_that_of_its_own_light(grid, dataset):
    """Counted from the speeds of the vehicles in the stored states, by a program of its own."""
    rows = read_rows(dataset)
    states = [dataset.parent / row.state_file for row in rows]
    counted = [json.loads(line[2:]) for line in run_python(STATES, next(grid.glob("*.sumocfg")), *states)]
    assert [row.queue for row in rows] == [halting[row.junction_id] for row, halting in zip(rows, counted, strict=True)]
    assert len({row.junction_id for row in rows}) > 1
    first = [halting[min(halting)] for halting in counted]
    assert first != [row.queue for row in rows]  # what the first light of the network would have given


# C: a failure is never a reward of 0


def test_c_a_row_without_an_outcome_is_an_error_when_it_is_read():
    for change in ({"branches": {}}, {"branches": None}, {"queue": None}):
        with pytest.raises(Exception, match=r"row 3: (branches|queue)"):
            TASK.problem_from_row({**row().model_dump(mode="json"), **change}, "row 3")


@sumo
def test_c_a_failed_branch_drops_its_row_and_is_counted_and_the_other_rows_are_unchanged(
    grid, dataset, tmp_path, monkeypatch
):
    calls = itertools.count(1)

    def failing(run, *arguments, **options):
        if run == "branch" and next(calls) % 5 == 0:
            raise SimulationFailedError("a branch crashed")
        return simulate(run, *arguments, **options)

    monkeypatch.setattr(generation, "simulate", failing)
    settings = GenerationSettings(max_decisions=12, horizon=20)
    done = generate_scenario(grid, tmp_path, settings)
    rows = read_rows(tmp_path / grid.name / "grpo_dataset.json")
    branches = {row.id: row.branches for row in read_rows(dataset)}
    assert done.dropped["a branch failed"] >= 2
    assert len(rows) + done.dropped["a branch failed"] == len(branches)
    assert all(row.branches == branches[row.id] for row in rows)


# D: the baseline knows the real times


def test_d_max_pressure_extends_below_the_minimum_and_switches_at_the_maximum_of_the_row():
    busy_elsewhere = {"queues": (0.0, 9.0, 0.0), "limits": (11, 58)}
    assert max_pressure(observation_of(row(**busy_elsewhere, elapsed=6)))
    assert not max_pressure(observation_of(row(**busy_elsewhere, elapsed=16)))
    busy_here = {"queues": (9.0, 0.0, 0.0), "limits": (11, 58)}
    assert max_pressure(observation_of(row(**busy_here, elapsed=16)))
    assert not max_pressure(observation_of(row(**busy_here, elapsed=56, can_extend=False)))


@sumo
def test_d_on_real_rows_the_baseline_takes_both_decisions(dataset):
    rows = read_rows(dataset)
    decisions = [max_pressure(observation_of(row)) for row in rows]
    assert set(decisions) == {True, False}
    assert all(row.min_green <= row.current_green_elapsed <= row.max_green for row in rows)


# F: ids, phase start, amber, time limits


IDS = """
import json
from engine.tasks.traffic.policies import exploring, max_pressure
from engine.tasks.traffic.rows import crossing_id
from tests.engine.tasks.traffic.support import observation, row
print("> " + json.dumps([row(junction=name).id + row(junction=name).prompt for name in ("n7", "cluster_1#2", "路口")]))
print("> " + json.dumps([crossing_id("n7"), [exploring(max_pressure, 1.0, 3)(observation(time=t)) for t in range(50)]]))
"""


def test_f_ids_and_drawn_decisions_do_not_depend_on_the_hash_seed():
    first, second = (run_python(IDS, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert len(first) == 2
    assert first == second


AMBER = """
import contextlib, json, sys
from engine.tasks.traffic.scenarios import SimulationOptions
from engine.tasks.traffic.simulation.sumo import Simulation
import libsumo
with contextlib.closing(Simulation(SimulationOptions(sys.argv[1]))) as simulation:
    simulation.take_over()
    for second in range(200):
        for seen in simulation.due():
            simulation.decide(seen.junction, second % 3 == 0)
        shown = {light: libsumo.trafficlight.getRedYellowGreenState(light) for light in simulation.programs}
        print("> " + json.dumps([shown, {light: c.elapsed for light, c in simulation.controllers.items()}]))
        simulation.step()
"""


@sumo
def test_f_no_light_goes_from_green_to_red_without_its_amber(grid):
    """Each second of 200 is observed in SUMO, with three switches in four decisions."""
    seconds = [json.loads(line[2:])[0] for line in run_python(AMBER, next(grid.glob("*.sumocfg")))]
    switches = 0
    for light in seconds[0]:
        states = [shown[light] for shown in seconds]
        for link in range(len(states[0])):
            signs = "".join(state[link] for state in states).upper()
            assert "GR" not in signs
            ambers = [len(amber) for amber in signs.replace("R", " ").replace("G", " ").split()]
            assert all(length == 3 for length in ambers[:-1])  # the programme's 3 s; the last one may be cut off
            switches += len(ambers)
    assert switches > 40


@sumo
def test_f_the_elapsed_time_of_a_green_is_counted_from_its_first_second(grid):
    lines = [json.loads(line[2:]) for line in run_python(AMBER, next(grid.glob("*.sumocfg")))]
    for light in lines[0][0]:
        green_since = None
        for second, (shown, elapsed) in enumerate(lines):
            is_green = "y" not in shown[light] and "G" in shown[light]
            green_since = (second if green_since is None else green_since) if is_green else None
            if green_since is not None:
                assert elapsed[light] == second - green_since


@sumo
def test_f_a_stopped_simulation_is_killed_when_its_time_is_over(grid, tmp_path, monkeypatch):
    """The process is stopped by a signal, as by a machine that swaps: it neither ends nor writes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stopped = []

    def stop(message):
        assert list(tmp_path.rglob("trips.xml"))
        stopped.extend(process_module._running)
        os.kill(stopped[0], signal.SIGSTOP)

    options = SimulationOptions(str(next(grid.glob("*.sumocfg"))))
    began = time.monotonic()
    with pytest.raises(SimulationFailedError, match="no sign of life for 3 s"):
        simulate("control", options, "max-pressure", 2000, limit_s=3.0, answer=stop)
    assert time.monotonic() - began < 60
    end = time.monotonic() + 10
    while Path(f"/proc/{stopped[0]}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not Path(f"/proc/{stopped[0]}").exists()
    assert not list(tmp_path.iterdir())


def test_f_training_on_stored_outcomes_needs_no_ports_and_no_sumo():
    """Scoring a decision imports neither SUMO nor the module that runs it."""
    code = (
        "import sys\nfrom engine.tasks.traffic.task import TASK\n"
        "print('> ' + str(sorted(name for name in sys.modules if 'sumo' in name)))"
    )
    assert run_python(code) == ["> []"]


# G: the checks are not skipped where it matters; braces


@pytest.mark.parametrize("style", ["full", "compact", "zh"])
def test_braces_of_the_state_reach_the_prompt_as_they_are(style):
    asked = problem(1)
    text = "\n".join(message.content for message in generator_messages(TASK, asked, (), style))
    assert asked.text in text
    assert '{"extend": "yes"}' in text
