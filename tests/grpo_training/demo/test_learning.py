"""The learning demo from its command to its table, with a stand-in server that makes mistakes and uses experiences."""

import contextlib
import json
import re
import signal
import time

import pytest

from engine.api_manager import LEARNERS
from engine.errors import ConfigurationError, InputError, LockHeldError
from engine.storage.append_log import writer_of
from engine.storage.rollout_store import RolloutStore
from grpo_training.demo.learning import learn_and_evaluate, run_demo, set_aside
from grpo_training.demo.settings import DemoSettings
from grpo_training.runs.learner_files import results_file
from grpo_training.runs.supervisor import CommandFailedError
from tests.conftest import ROOT
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.forked_command import ForkedCommand, start_forked
from tests.support.quickstart_model import TEST, TRAIN, learner_reply, local_server_at


@pytest.fixture
def forked(monkeypatch):
    """The commands of the demo start fast."""
    monkeypatch.setattr("grpo_training.runs.supervisor.start_guarded", start_forked)


@pytest.fixture
def run(capfd, forked):
    """Runs the demo against an app; returns what it printed."""

    def run(app, output, **settings):
        @contextlib.contextmanager
        def serve(model, *, temperature, log):
            with serve_in_thread(app) as base_url:
                yield local_server_at(base_url)

        values = {"problems": TRAIN, "test_problems": TEST, "rollouts": 2, "output": output, **settings}
        assert run_demo(DemoSettings(**values), serve) == 0
        return capfd.readouterr().out

    return run


def test_the_whole_demo(run, tmp_path):
    run(chat_app(learner_reply), tmp_path, problems=3, test_problems=2)
    # A longer demo continues the shorter one; the critic must not take its results for all of them.
    printed = run(chat_app(learner_reply), tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    arms = {arm["name"]: arm for arm in results["arms"]}
    assert list(arms) == [
        *("base", "base again (A/A)", "library of generator_1", "library of generator_2", "library of generator_3"),
        *("the three libraries together", "fusion by the critic", "majority vote"),
    ]
    for arm in arms.values():
        assert (arm["problems"], arm["left_out"]) == (TEST, [])
    assert len(next(iter(arms["base"]["verdicts"].values()))) == 2
    assert arms["base"]["verdicts"] != arms["base again (A/A)"]["verdicts"]
    assert 0.1 < arms["base"]["accuracy"]["value"] < 0.4
    gain = arms["the three libraries together"]["difference_to_base"]
    assert 0 < gain["low"] < gain["value"] < gain["high"]
    assert results["verdict"].startswith("The libraries help: ")
    assert results["verdict"] in printed
    assert re.search(r"fusion by the critic +\d+\.\d% ", printed)

    # Each generator drew its own samples of the same problems in the same order, and learned.
    caches = [
        [json.loads(line) for line in (tmp_path / f"cache/generator_{n}_rollouts.jsonl").read_text().splitlines()]
        for n in (1, 2, 3)
    ]
    for groups in caches:
        groups.sort(key=lambda group: group["step"])
    orders = [[group["problem_id"] for group in groups] for groups in caches]
    assert orders[0] == orders[1] == orders[2]
    assert len(orders[0]) == TRAIN
    answers = [[[one["is_correct"] for one in group["rollouts"]] for group in groups] for groups in caches]
    assert answers[0] != answers[1] != answers[2]
    fusions = (tmp_path / "cache/critic_results.jsonl").read_text().splitlines()
    assert len(fusions) == 3 * TRAIN
    for name in ("generator_1", "generator_2", "generator_3"):
        families = {row["family"]: row["lessons"][name] for row in results["families"]}
        assert sum(families.values()) == len(results["libraries"][name]["lessons"]) > 0
        assert f"{name}: experiences for {sum(map(bool, families.values()))} of the {len(families)} families" in printed
    covered = sum(any(row["lessons"].values()) for row in results["families"])
    assert f"together: experiences for {covered} of the {len(results['families'])} families" in printed

    # The same command again sends no request, though its server has another address.
    app = chat_app(learner_reply)
    again = run(app, tmp_path)
    assert app["seen"] == []
    assert results["verdict"] in again


def test_a_failing_command_stops_the_demo(run, tmp_path):
    (tmp_path / "results.json").write_text("of an earlier demo")
    with pytest.raises(CommandFailedError) as failed:
        run(chat_app(learner_reply, models=("another",)), tmp_path, fresh=True)
    assert (tmp_path / "old1/results.json").read_text() == "of an earlier demo"
    assert failed.value.exit_code == 2
    assert "has no model 'm'" in failed.value.why
    assert "generator_" in failed.value.what
    assert not any(writer_of(results_file(tmp_path / "cache", name)) for name in LEARNERS)


def test_a_second_demo_in_the_same_folder_is_refused_before_it_starts_a_server(tmp_path):
    class StoppedError(Exception):
        pass

    settings, starts = DemoSettings(output=tmp_path), []

    @contextlib.contextmanager
    def serve(model, **options):
        starts.append(model)
        with pytest.raises(LockHeldError, match="is locked by another process"):
            run_demo(settings, serve)
        raise StoppedError
        yield

    with pytest.raises(StoppedError):
        run_demo(settings, serve)
    assert len(starts) == 1


_SCRIPT = """
import sys
from pathlib import Path
from grpo_training.cli.entry import run_command
from grpo_training.demo.learning import learn_and_evaluate
from grpo_training.demo.settings import DemoSettings
from tests.support.quickstart_model import local_server_at
settings = DemoSettings(output=Path(sys.argv[2]), problems=20, window=1, test_problems=2)
run_command(lambda: learn_and_evaluate(settings, local_server_at(sys.argv[1])))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_demo_and_its_commands(tmp_path, number, code):
    files = [results_file(tmp_path / "cache", name) for name in LEARNERS]
    with serve_in_thread(chat_app(learner_reply, latency_s=0.3)) as base_url:
        process = ForkedCommand(_SCRIPT, [base_url, tmp_path], PYTHONPATH=str(ROOT))
        until = time.monotonic() + 60
        while not all(map(writer_of, files)) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(number)
        until = time.monotonic() + 60
        output, _ = process.communicate(timeout=60)
        assert process.returncode == code, output
        while any(map(writer_of, files)):  # commands that did not end in time were killed, and may end a little later
            assert time.monotonic() < until
            time.sleep(0.02)


def test_a_server_that_exits_stops_the_demo(tmp_path, forked):
    lock = tmp_path / "cache/generator_1_rollouts.jsonl.lock"
    with serve_in_thread(chat_app(learner_reply, latency_s=0.3)) as base_url:
        settings = DemoSettings(output=tmp_path, problems=4, test_problems=2)
        with pytest.raises(ConfigurationError, match="local server of m at .* has exited"):
            learn_and_evaluate(settings, local_server_at(base_url, ended=lock.exists))


def test_output_is_set_aside_only_if_no_learner_is_running(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "mine.txt").write_text("a file of the user")
    store = RolloutStore(tmp_path / "cache/generator_2_rollouts.jsonl")
    with store.hold(), pytest.raises(InputError, match="A demo is still running"):
        set_aside(tmp_path)
    set_aside(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "old1"]
    set_aside(tmp_path)
    assert not (tmp_path / "old2").exists()
