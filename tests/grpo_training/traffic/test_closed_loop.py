"""``evaluate`` in SUMO: demand seeds, models at an endpoint, resuming, failures, the picture."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
import xml.etree.ElementTree as ElementTree

import pytest

from engine.errors import IncompleteRunError, LockHeldError
from engine.llm.retry import RetryPolicy
from engine.storage.append_log import AppendLog
from engine.tasks.traffic.simulation.closed_loop import write_demand_of
from grpo_training.evaluate import models
from grpo_training.traffic.__main__ import main
from tests.conftest import ROOT, shared_file
from tests.grpo_training.traffic.conftest import SECONDS, SEEDS
from tests.grpo_training.traffic.support import endpoint, like_max_pressure, marked_processes, state_of

pytestmark = [
    pytest.mark.sumo,
    pytest.mark.skipif(importlib.util.find_spec("libsumo") is None, reason="SUMO is not installed (make traffic)"),
    pytest.mark.timeout(300),
]


def words(scenarios, output, *more, policy="max-pressure", seeds=SEEDS, seconds=SECONDS):
    return [
        *("evaluate", "--scenario", min(path.name for path in scenarios.iterdir())),
        *("--scenarios-dir", str(scenarios), "--output", str(output)),
        *("--policy", policy, "--seeds", str(seeds), "--seconds", str(seconds), *more),
    ]


def closed_loop(output):
    return json.loads(output.read_text())["closed_loop"]


def runs_of(output, policy):
    return {(run["scenario"], run["seed"]): run for run in closed_loop(output)["runs"] if run["policy"] == policy}


def departures(routes):
    return [(each.get("depart"), each.find("route").get("edges")) for each in ElementTree.parse(routes).iter("vehicle")]


def test_a_demand_seed_gives_other_vehicles_of_an_own_scenario_and_the_same_ones_again(scenarios, tmp_path):
    folder = min(scenarios.iterdir())
    for name in "abc":
        (tmp_path / name).mkdir()
    one, again, other = (
        departures(write_demand_of(folder, seed, tmp_path / name)) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    own = departures(next(folder.glob("*.rou.xml")))
    assert one == again
    assert len({tuple(one), tuple(other), tuple(own)}) == 3
    assert all(0.8 * len(own) < len(each) < 1.25 * len(own) for each in (one, other))  # of the same profile and mean
    assert all(path.name.endswith(".rou.xml") for name in "abc" for path in (tmp_path / name).iterdir())


def test_the_vehicles_of_a_scenario_of_others_stay_and_the_seed_changes_their_driving(tmp_path):
    shutil.copytree(shared_file("sumo/cologne1/cologne1.sumocfg").parent, tmp_path / "data" / "cologne1")
    assert write_demand_of(tmp_path / "data" / "cologne1", 1, tmp_path) is None
    assert main(words(tmp_path / "data", tmp_path / "out.json", policy="fixed", seconds=120)) == 0
    one, other = runs_of(tmp_path / "out.json", "fixed").values()
    assert one["figures"] != other["figures"]


def test_a_model_that_decides_like_max_pressure_has_its_figures_and_is_asked_concurrently(
    scenarios, max_pressure_runs, tmp_path, capsys
):
    """Each decision is applied at its own light of its own simulation; nothing is asked twice."""
    output = tmp_path / "out.json"
    together, most, guard = [0], [0], threading.Lock()

    async def answer(request, handler):
        with guard:
            together[0] += 1
            most[0] = max(most[0], together[0])
        response = await handler(request)
        with guard:
            together[0] -= 1
        return response

    with endpoint(watch=answer, latency_s=0.1) as (url, seen):
        call = words(scenarios, output, "--model", "m", policy=url)
        assert main(call) == 0
        found = closed_loop(output)
        assert len(seen) == sum(run["decisions"] for run in runs_of(output, "m").values())
        assert most[0] == 2  # two simulations with one light each
        asked = len(seen)
        assert main(call) == 0
        assert len(seen) == asked  # finished simulations are not repeated
        assert closed_loop(output) == found
        (tmp_path / "out.runs.jsonl").unlink()
        assert main(call) == 0
        assert len(seen) == asked  # nor is a reply that is in the journal asked again
        assert closed_loop(output) == found
    for key, run in runs_of(output, "m").items():
        assert (run["figures"], run["curve"]) == (max_pressure_runs[key]["figures"], max_pressure_runs[key]["curve"])
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(("Results: ", "Queues over"))]
    assert max(map(len, lines)) <= 100
    assert any("Closed loop, 2 demand seeds (95 % intervals over the seeds)" in line for line in lines)
    assert "<title>Queues over time" in (tmp_path / "out.html").read_text()


def test_a_failed_call_ends_its_simulation_and_is_no_decision(scenarios, max_pressure_runs, tmp_path, monkeypatch):
    """The server fails for one of two simulations, which differ in the limits of their greens, after 60 s."""
    monkeypatch.setattr(models, "RetryPolicy", lambda **_: RetryPolicy(attempts=1, total_s=5))
    output = tmp_path / "out.json"
    broken = [True, None]

    def answer(body, index):
        state = state_of(body)
        limits = (state["min_green_s"], state["max_green_s"], state["current_phase_id"])
        if broken[0] and "00:01:" in str(body["messages"]) and broken[1] in (None, limits):
            broken[1] = limits
            raise RuntimeError("the server fails")
        return like_max_pressure(body, index)

    with endpoint(answer) as (url, seen):
        call = words(scenarios, output, "--model", "m", policy=url)
        with pytest.raises(IncompleteRunError, match="1 of 2 simulations failed; the figures are of the others"):
            main(call)
        (failed,) = closed_loop(output)["failed"]
        (done,) = runs_of(output, "m")
        assert done != (failed["scenario"], failed["seed"])
        assert "HTTP 500" in failed["reason"]
        broken[0] = False
        asked = len(seen)
        assert main(call) == 0
        # The failed one is run again; its decisions before the failure come from the journal.
        missing = runs_of(output, "m")[failed["scenario"], failed["seed"]]
        assert 0 < len(seen) - asked < missing["decisions"]
    assert closed_loop(output)["failed"] == []
    for key, run in runs_of(output, "m").items():
        assert run["figures"] == max_pressure_runs[key]["figures"]


def test_where_every_simulation_fails_the_endpoint_counts_as_unavailable(scenarios, tmp_path, monkeypatch):
    monkeypatch.setattr(models, "RetryPolicy", lambda **_: RetryPolicy(attempts=1, total_s=5))
    call = words(scenarios, tmp_path / "out.json", "--model", "m", policy="http://127.0.0.1:9/v1", seeds=4)
    with pytest.raises(IncompleteRunError, match="A decision could not be asked"):
        main(call)
    assert not (tmp_path / "out.json").exists()


@pytest.fixture
def start():
    started = []

    def run(call, mark):
        process = subprocess.Popen(
            [sys.executable, "-m", "grpo_training.traffic", *call],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TEST_MARK": mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_evaluation_pays_for_nothing_twice_and_leaves_no_process(
    scenarios, max_pressure_runs, tmp_path, start, number
):
    output, mark = tmp_path / "out.json", uuid.uuid4().hex
    with endpoint(latency_s=0.05) as (url, seen):
        call = words(scenarios, output, "--model", "m", policy=url)
        process = start(call, mark)
        until(lambda: len(seen) >= 15)
        process.send_signal(number)
        text, _ = process.communicate(timeout=60)
        until(lambda: not marked_processes(mark), 60)  # a simulation whose parent was killed ends at its next message
        if number == signal.SIGINT:
            assert process.returncode == 130
            assert "Interrupted" in text
            assert "Traceback" not in text
        assert not output.exists()
        asked = len(seen)
        assert main(call) == 0
        decisions = sum(run["decisions"] for run in runs_of(output, "m").values())
        # At most the requests in flight at the stop are sent again: two simulations with one light each.
        assert len(seen) - decisions <= 2
        assert asked < len(seen)
    assert {key: run["figures"] for key, run in runs_of(output, "m").items()} == {
        key: run["figures"] for key, run in max_pressure_runs.items()
    }


def test_two_evaluations_do_not_write_the_same_results(scenarios, tmp_path):
    with AppendLog(tmp_path / "out.runs.jsonl").hold(), pytest.raises(LockHeldError, match="locked by another process"):
        main(words(scenarios, tmp_path / "out.json"))
    assert not (tmp_path / "out.json").exists()


def test_a_hanging_simulation_is_reported_and_the_others_are_kept(scenarios, tmp_path, monkeypatch):
    """One of two simulation processes is stopped by a signal at its first decision."""
    output, mark = tmp_path / "out.json", uuid.uuid4().hex
    monkeypatch.setenv("TEST_MARK", mark)
    stopped = []

    def answer(body, index):
        if not stopped:
            stopped.append(min(marked_processes(mark)))
            os.kill(stopped[0], signal.SIGSTOP)
        return like_max_pressure(body, index)

    with endpoint(answer) as (url, _):
        call = words(scenarios, output, "--model", "m", "--time-limit", "10", "--parallel", "1", policy=url)
        with pytest.raises(IncompleteRunError, match="1 of 2 simulations failed") as caught:
            main(call)
    assert "gave no sign of life for 10 s and was stopped" in caught.value.why
    assert len(closed_loop(output)["runs"]) == 1
    assert marked_processes(mark) == []
