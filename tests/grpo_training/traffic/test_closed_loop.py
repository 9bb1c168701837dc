"""``evaluate`` in SUMO: the table, models at an endpoint, starting again, failures, bad input."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from engine.errors import BudgetExceededError, FatalEndpointError, IncompleteRunError, InputError, MissingInputError
from engine.llm.retry import RetryPolicy
from engine.tasks.traffic.simulation import process as process_module
from engine.tasks.traffic.simulation.closed_loop import run_closed_loop
from grpo_training.evaluate import models
from grpo_training.traffic.__main__ import main
from tests.conftest import ROOT
from tests.grpo_training.traffic.conftest import SECONDS, SEEDS
from tests.grpo_training.traffic.support import endpoint, like_max_pressure, marked_processes

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


def results(output):
    return {**json.loads(output.read_text()), "timestamp": None, "usage": None}


def runs_of(output, policy):
    return {(run["scenario"], run["seed"]): run for run in results(output)["runs"] if run["policy"] == policy}


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
        report = results(output)
        decisions = sum(run["decisions"] for run in runs_of(output, url).values())
        assert len(seen) == len({str(request.body) for request in seen}) <= decisions  # equal states are asked once
        assert most[0] == 2  # two simulations with one light each
        asked = len(seen)
        assert main(call) == 0
        assert len(seen) == asked  # a reply that is in the journal is not asked again
        assert results(output) == report
    for key, run in runs_of(output, url).items():
        assert run["figures"] == max_pressure_runs[key]["figures"]
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if line.startswith(("  ", "Closed"))) <= 100
    assert "Closed loop, scenarios: 1, seeds: 2 (95 % intervals over the seeds)" in lines


def test_a_failed_call_ends_its_simulation_and_is_no_decision(scenarios, max_pressure_runs, tmp_path, monkeypatch):
    """The server fails once, for one of two simulations, after 60 s."""
    monkeypatch.setattr(models, "RetryPolicy", lambda **_: RetryPolicy(attempts=1, total_s=5))
    output = tmp_path / "out.json"
    broken = [True]

    def answer(body, index):
        if broken[0] and "00:01:" in str(body["messages"]):
            broken[0] = False
            raise RuntimeError("the server fails")
        return like_max_pressure(body, index)

    with endpoint(answer) as (url, seen):
        call = words(scenarios, output, "--model", "m", policy=url)
        with pytest.raises(IncompleteRunError, match="1 of 2 simulations failed; the figures are of the others"):
            main(call)
        (failed,) = results(output)["failed"]
        (done,) = runs_of(output, url)
        assert done != (failed["scenario"], failed["seed"])
        assert "HTTP 500" in failed["reason"]
        asked = len(seen)
        assert main(call) == 0
        # The failed one is run again; its decisions before the failure come from the journal.
        missing = runs_of(output, url)[failed["scenario"], failed["seed"]]
        assert 0 < len(seen) - asked < missing["decisions"]
    assert results(output)["failed"] == []
    for key, run in runs_of(output, url).items():
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
        decisions = sum(run["decisions"] for run in runs_of(output, url).values())
        # At most the requests in flight at the stop are sent again: two simulations with one light each.
        assert len(seen) - decisions <= 2
        assert asked < len(seen)
    assert {key: run["figures"] for key, run in runs_of(output, url).items()} == {
        key: run["figures"] for key, run in max_pressure_runs.items()
    }


def test_a_hanging_simulation_is_reported_and_the_others_are_kept(scenarios, tmp_path):
    """One of two simulation processes is stopped by a signal at its first decision."""
    output = tmp_path / "out.json"
    stopped = []

    def answer(body, index):
        if not stopped:
            stopped.extend(process_module._running)
            os.kill(stopped[0], signal.SIGSTOP)
        return like_max_pressure(body, index)

    with endpoint(answer) as (url, _):
        call = words(scenarios, output, "--model", "m", "--time-limit", "5", "--parallel", "1", policy=url)
        with pytest.raises(IncompleteRunError, match="1 of 2 simulations failed") as caught:
            main(call)
    assert "gave no sign of life for 5 s and was stopped" in caught.value.why
    assert len(results(output)["runs"]) == 1
    end = time.monotonic() + 10
    while Path(f"/proc/{stopped[0]}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not Path(f"/proc/{stopped[0]}").exists()


def test_a_library_is_in_the_prompts_and_an_unreadable_reply_is_counted_and_switches(scenarios, tmp_path):
    library, advice = tmp_path / "generator_1_experiences.json", "Compare the queues of all phases."
    experience = {"id": "G1-001", "content": advice, "category": "c", "source_problem": "p", "created_at": "t"}
    library.write_text(json.dumps([experience]))
    with endpoint(lambda body, index: "I would extend.") as (url, seen):
        call = words(scenarios, tmp_path / "out.json", "--model", "m", policy=url, seeds=1)
        assert main([*call, "--experiences", str(library)]) == 0
        assert all(advice in str(request.body["messages"]) for request in seen)
        assert all(request.body["temperature"] == 0 for request in seen)
    [run] = runs_of(tmp_path / "out.json", url).values()
    assert run["unreadable"] == run["decisions"] > 0
    folder = min(scenarios.iterdir())
    switched = run_closed_loop(folder, "switch", 1, decide=lambda states: [False] * len(states), seconds=SECONDS)
    assert run["figures"] == switched.figures


def test_a_refused_key_and_an_exhausted_budget_stop_the_evaluation(scenarios, tmp_path):
    output = tmp_path / "out.json"
    with endpoint(api_key="right") as (url, _), pytest.raises(FatalEndpointError):
        main(words(scenarios, output, "--model", "m", policy=url))
    with endpoint() as (url, seen):
        with pytest.raises(BudgetExceededError):
            main(words(scenarios, output, "--model", "m", "--budget-tokens", "10", policy=url))
        assert seen == []
    assert not output.exists()


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        (["--policy", "max-presure"], InputError, "Unknown policy 'max-presure'"),
        (["--policy", ","], InputError, "No policy is named"),
        (["--policy", "http://127.0.0.1:1/v1"], InputError, "--model NAME"),
        (["--policy", "role:generator_1", "--api-config", "none.json"], MissingInputError, "none.json"),
        (["--policy", "."], MissingInputError, "No model in"),
        (["--experiences", "none.json"], MissingInputError, "No library at none.json"),
        (["--output", "."], InputError, "is a folder"),
        (["--scenarios-dir", "."], MissingInputError, "No .sumocfg in"),
        (["--all"], InputError, "exactly one of --scenario and --all"),
    ],
)
def test_bad_input_is_one_clear_error_and_writes_nothing(scenarios, tmp_path, monkeypatch, more, error, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=re.escape(said)):
        main([*words(scenarios, tmp_path / "out.json"), *more])
    assert list(tmp_path.iterdir()) == []
