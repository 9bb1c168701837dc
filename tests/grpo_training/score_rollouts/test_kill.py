"""A run that is killed at any moment continues to the same file, and verifies nothing twice that it had stored."""

import json
import os
import signal
import subprocess
import sys
import time

from grpo_training.score_rollouts.__main__ import main
from tests.conftest import ROOT
from tests.support.scoring import rollout

ROWS, SLEEP_S = 60, 0.02


def start(scoring, *more, out="scored.jsonl"):
    arguments = [*scoring.arguments(scoring.folder / "r.jsonl", *more, out=out), "--workers", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", "grpo_training.score_rollouts", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def entries(path):
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.endswith(b"}")] if path.exists() else []


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def process_group_exists(number):
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_killed_and_started_again(scoring, monkeypatch):
    scoring.prompts(5)
    rows = [rollout(f"p{n % 5}", str(n % 23), n // 5) for n in range(ROWS)]
    path = scoring.write("r.jsonl", rows)
    more = ("--cache", str(scoring.folder / "cache.jsonl"))
    monkeypatch.setenv("RECORDED_SLEEP", str(SLEEP_S))
    work = scoring.folder / "scored_work.jsonl"
    running = start(scoring, *more)
    wait_for(lambda: len(entries(work)) >= 12)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    running.stderr.close()
    assert not (scoring.folder / "scored.jsonl").exists()
    wait_for(lambda: not process_group_exists(running.pid), seconds=20)  # the workers end on their own
    stored = {entry["key"] for entry in entries(work)}
    before = len(scoring.verified())
    last = start(scoring, *more)
    assert last.wait(60) == 0, last.stderr.read()
    last.stderr.close()
    again = scoring.verified()[before:]
    assert len(set(again)) == len(again) == ROWS - len(stored)  # all replies differ
    assert not work.exists()

    scoring.log.unlink()
    monkeypatch.setenv("RECORDED_SLEEP", "0")
    assert main(scoring.arguments(path, out="whole.jsonl")) == 0
    assert (scoring.folder / "scored.jsonl").read_bytes() == (scoring.folder / "whole.jsonl").read_bytes()
