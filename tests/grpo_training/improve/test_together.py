"""Three generators and the critic are tasks of one process: one budget, and nothing is lost or paid for twice."""

import json
import signal
import sqlite3
import time
from contextlib import closing

import pytest

from engine.errors import BudgetExceededError
from grpo_training.improve import __main__ as improve
from grpo_training.runs import folder as run_folders
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.forked_command import ForkedCommand
from tests.support.planted_answers import PlantedServer

PROGRAM = """
from pathlib import Path
from grpo_training.runs import folder as run_folders
run_folders.WORKING_DIR = Path.cwd()
from grpo_training.cli.entry import run_command
from grpo_training.improve.__main__ import main
run_command(main)
"""
LEARNERS = ("generator_1", "generator_2", "generator_3", "critic")
SLOTS = 8


class Run:
    """A run of three generators and the critic on 8 problems, and the server that it asks."""

    def __init__(self, folder, url, app):
        self.folder, self.app = folder, app
        rows = PlantedServer("label", 0.5).rows(range(8))
        (folder / "mails.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m", "max_concurrency": SLOTS}
        roles = {"default": entry, "analyst": entry | {"model": "analyst"}}
        (folder / "api.json").write_text(json.dumps(roles))
        self.flags = ["--dataset", str(folder / "mails.jsonl"), "--api-config", str(folder / "api.json"), "--run", "r"]
        self.flags += ["--generators", "3", "--critic", "--epochs", "1", "--samples", "2", "--max-tokens", "20"]

    @property
    def asked(self):
        """The replies that the server was asked for."""
        return sum(request.body.get("n", 1) for request in self.app["seen"])

    @property
    def stored(self):
        """The replies in the journal."""
        journal = self.folder / "runs/r/cache/requests.sqlite"
        if not journal.exists():
            return 0
        with closing(sqlite3.connect(journal)) as connection:
            if not connection.execute("SELECT name FROM sqlite_master WHERE name = 'replies'").fetchall():
                return 0
            return connection.execute("SELECT COUNT(*) FROM replies").fetchone()[0]

    @property
    def tokens(self):
        result = json.loads((self.folder / "runs/r/improved/result.json").read_text())
        return result["tokens"]

    def finished(self):
        """The learners that are complete, and the number of their results."""
        cache = self.folder / "runs/r/cache"
        manifests = [json.loads((cache / f"{name}_run.json").read_text()) for name in LEARNERS]
        files = [*(f"{name}_rollouts.jsonl" for name in LEARNERS[:3]), "critic_results.jsonl"]
        return [run["finished"] for run in manifests], [len((cache / name).read_text().splitlines()) for name in files]


@pytest.fixture
def run(tmp_path):
    app = chat_app(PlantedServer("label", 0.5).reply, latency_s=0.1)
    with serve_in_thread(app) as url:
        yield Run(tmp_path, url, app)


COMPLETE = ([True] * 4, [8, 8, 8, 24])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_signal_loses_no_stored_reply_and_repeats_none(run, number):
    for wanted in (4, 40, 90):
        asked, stored = run.asked, run.stored
        process = ForkedCommand(PROGRAM, run.flags, run.folder)
        until = time.monotonic() + 60
        while run.stored < stored + wanted and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        assert process.poll() is None, process.stdout.read()
        process.send_signal(number)
        output, code = process.communicate(60)
        assert code == (130 if number == signal.SIGINT else -signal.SIGKILL), output
        time.sleep(0.5)  # the server reads what was sent before the signal
        lost = (run.asked - asked) - (run.stored - stored)
        assert 0 <= lost <= (0 if number == signal.SIGINT else 4 * SLOTS)  # those in flight, of at most four replies
    asked, stored = run.asked, run.stored
    process = ForkedCommand(PROGRAM, run.flags, run.folder)
    output, code = process.communicate(120)
    assert code == 0, output
    assert run.asked - asked == run.stored - stored > 0
    assert run.finished() == COMPLETE
    for name in LEARNERS:  # lines and tables of each have its name
        assert f"\n{name}: " in output
        assert f"\n{name}\n" in output


def test_all_learners_spend_from_one_budget(run, monkeypatch, capsys):
    monkeypatch.setattr(run_folders, "WORKING_DIR", run.folder)
    budget, tokens = 5000, [0]
    for _ in range(20):
        try:
            assert improve.main([*run.flags, "--budget-tokens", str(budget)]) == 0
        except BudgetExceededError:
            capsys.readouterr()
        else:
            if "Learning has used its part of the budget" not in capsys.readouterr().out:
                break
        assert tokens[-1] < run.tokens <= tokens[-1] + budget  # of all four together
        tokens.append(run.tokens)
    assert len(tokens) > 2
    assert run.asked == run.stored
    assert run.finished() == COMPLETE
