"""A run that is stopped keeps the replies that the server is working on. The server's count is the judge."""

import contextlib
import json
import os
import shutil
import signal
import threading
import time

import pytest

from engine.errors import BudgetExceededError, FatalEndpointError, ScaffoldError
from engine.storage.rollout_store import RolloutStore
from grpo_training import generator1
from tests.support.fault_server import serve_in_thread
from tests.support.forked_command import ForkedCommand
from tests.support.hostile_server import HostileServer

pytestmark = pytest.mark.timeout(60)

PROBLEMS, LATENCY_S = 12, 0.3


def answers(message, index):
    """Replies of 400 characters, which are billed as 400 tokens. None can be read, so each is asked for twice."""
    return f"{index} ".ljust(400, "x")


@pytest.fixture
def run(tmp_path):
    """Run generator 1 on a server, in this process."""

    def start(url, *more, **fields):
        config = tmp_path / "api_config.json"
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m", "timeout_s": 20, "max_concurrency": 8, **fields}
        config.write_text(json.dumps({"generator_1": entry}))
        return generator1.main(
            [
                *("--api-config", str(config), "--cache-dir", str(tmp_path / "cache"), "--dataset", "physics"),
                *("--experiences-dir", str(tmp_path / "experiences"), "--max-problems", str(PROBLEMS)),
                *("--window", "8", *map(str, more)),
            ]
        )

    return start


def when(condition, act):
    """Do something as soon as a condition holds, in another thread."""

    def watch():
        while not condition():
            time.sleep(0.005)
        act()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def check_nothing_was_bought_twice(server, run, url):
    """The same command on a fast server completes the run, and each request was worked on once."""
    assert server.billed
    server.latency_s, server.refuse_from = 0.0, None
    assert run(url) == 0
    again = {message: count for message, count in server.billed.items() if count > 1}
    assert not again
    assert len(server.billed) > PROBLEMS


@pytest.mark.parametrize("status", [401, 404])
def test_a_refusal_in_mid_run_keeps_the_replies_in_flight(status, run):
    server = HostileServer(LATENCY_S, answers=answers)
    server.refuse_from, server.refusal = 9, status  # 8 are in flight, some of which have been answered
    with serve_in_thread(server.app) as url:
        with pytest.raises(FatalEndpointError):
            run(url)
        check_nothing_was_bought_twice(server, run, url)


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_keeps_the_replies_in_flight(number, error, run, capfd):
    server = HostileServer(LATENCY_S, answers=answers)
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("the run did not take the signal"))
    try:
        with serve_in_thread(server.app) as url:
            when(lambda: server.in_flight >= 8, lambda: os.kill(os.getpid(), number))
            with pytest.raises(error):
                run(url)
            assert server.in_flight == 0
            assert "requests in flight" in capfd.readouterr().out
            check_nothing_was_bought_twice(server, run, url)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_ctrl_c_does_not_wait(run):
    server = HostileServer(30.0, answers=answers)
    with serve_in_thread(server.app) as url:
        interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
        first = when(lambda: server.in_flight >= 1, interrupt)
        when(lambda: not first.is_alive() and not time.sleep(0.3), interrupt)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            run(url, timeout_s=60)
        assert time.monotonic() - began < 25


def test_an_exhausted_budget_keeps_the_replies_in_flight(run):
    server = HostileServer(LATENCY_S, answers=answers)
    with serve_in_thread(server.app) as url:
        with pytest.raises(BudgetExceededError):
            run(url, "--budget-tokens", 24_000, "--max-tokens", 500)
        answered = sum(server.billed.values())
        assert answered > 1  # some were in flight when the budget refused the next one
        server.latency_s = 0.0
        assert run(url, "--resume") == 0
        assert set(server.billed.values()) == {1}
        assert sum(server.billed.values()) > answered


def test_a_full_disk_keeps_the_replies_in_flight(run, monkeypatch):
    server = HostileServer(LATENCY_S, answers=answers)

    def full(self, record):
        raise OSError(28, "No space left on device", str(self.path))

    with serve_in_thread(server.app) as url:
        with monkeypatch.context() as disk:
            disk.setattr(RolloutStore, "append", full)
            with pytest.raises(OSError, match="No space left on device"):
                run(url)
        check_nothing_was_bought_twice(server, run, url)


@pytest.mark.parametrize("lost", ["generator_1_rollouts.jsonl", "requests.sqlite", "."])
@pytest.mark.parametrize("moved", [False, True])
def test_files_that_vanish_in_mid_run_are_noticed(lost, moved, run, tmp_path, capfd):
    server = HostileServer(0.05, answers=answers)
    path = tmp_path / "cache" / lost

    def remove():
        if moved:
            path.rename(tmp_path / "moved")
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    rollouts = tmp_path / "cache/generator_1_rollouts.jsonl"
    with serve_in_thread(server.app) as url:
        when(lambda: rollouts.exists() and rollouts.stat().st_size > 0, remove)
        with pytest.raises(ScaffoldError, match="deleted or moved|was replaced") as caught:
            run(url, "--window", 2)
    assert "run the same command again" in caught.value.fix


def test_rollouts_that_are_truncated_in_mid_run_are_noticed(run, tmp_path):
    server = HostileServer(0.05, answers=answers)
    rollouts = tmp_path / "cache/generator_1_rollouts.jsonl"
    with serve_in_thread(server.app) as url:
        when(lambda: rollouts.exists() and rollouts.stat().st_size > 0, lambda: os.truncate(rollouts, 10))
        with pytest.raises(ScaffoldError, match="was truncated while it was in use"):
            run(url, "--window", 2)


def test_a_process_that_was_stopped_longer_than_its_timeout_reads_what_arrived(tmp_path):
    server = HostileServer(0.6, answers=answers)
    config = tmp_path / "api_config.json"
    with serve_in_thread(server.app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m", "timeout_s": 2, "max_concurrency": 8}
        config.write_text(json.dumps({"generator_1": entry}))
        arguments = ["--api-config", config, "--cache-dir", tmp_path / "cache", "--dataset", "physics"]
        arguments += ["--experiences-dir", tmp_path / "experiences", "--max-problems", PROBLEMS, "--window", 8]
        process = ForkedCommand("grpo_training.generator1", arguments)
        while server.in_flight < 8:
            time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        assert server.in_flight == 0
        process.send_signal(signal.SIGCONT)
        assert process.wait(timeout=40) == 0
    assert set(server.billed.values()) == {1}
    assert len(server.billed) > PROBLEMS


def test_three_sigterms_end_a_run_without_a_traceback(tmp_path):
    server = HostileServer(20.0, answers=answers)
    config = tmp_path / "api_config.json"
    with serve_in_thread(server.app) as url:
        config.write_text(json.dumps({"generator_1": {"api_key": "EMPTY", "base_url": url, "model": "m"}}))
        folders = ("--cache-dir", tmp_path / "cache", "--experiences-dir", tmp_path / "experiences")
        process = ForkedCommand("grpo_training.generator1", ["--api-config", config, *folders, "--dataset", "physics"])
        while not server.in_flight:
            time.sleep(0.01)
        for _ in range(3):
            with contextlib.suppress(ProcessLookupError):  # the second one may have ended it
                process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        output, code = process.communicate(timeout=30)
    assert code == 143
    assert "Traceback" not in output
