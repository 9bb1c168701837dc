"""A complete run with a model on this machine: the same command starts no server and prints what it found."""

import contextlib
import re

import pytest

from engine.errors import BudgetExceededError
from grpo_training import critic, generator1, generator2
from grpo_training.cli.settings import POCKET_MODEL
from grpo_training.gate import __main__ as gate
from grpo_training.improve import __main__ as improve
from grpo_training.improve import run as improve_run
from grpo_training.runs import folder as run_folders
from grpo_training.serve.local_server import LocalServer, served_name
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.quickstart_model import learner_reply


@pytest.fixture
def local(tmp_path, monkeypatch):
    """Runs a command with the flags that all share; how many servers it started, and how many requests it sent."""
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    app, started = chat_app(learner_reply), []

    with serve_in_thread(app) as url:

        def serve(model, temperature):
            started.append(model)
            return contextlib.nullcontext(LocalServer(url, served_name(model), (), lambda: False))

        monkeypatch.setattr("grpo_training.serve.local_server.local_server", serve)

        def run(command, *flags):
            started.clear()
            app["seen"].clear()
            assert command.main(["--endpoint", "local", "--prompts", "pocket", "--run", "r", *map(str, flags)]) == 0
            return len(started), len(app["seen"])

        yield run


PROBLEMS = ("--dataset", "quickstart", "--max-problems", 12)


def table_of(output):
    """The lines of the final table that tell of the whole run, and those after it."""
    lines = [line.strip() for line in output.splitlines()]
    lines = lines[max(index for index, line in enumerate(lines) if line.startswith("right answers")) :]
    return [line for line in lines if not line.startswith(("groups", "cost"))]


def test_generators_and_critic_start_no_server_for_a_complete_run(local, capsys):
    calls = [(generator1, PROBLEMS), (generator2, (*PROBLEMS, "--seed", 1)), (critic, ("--generators", "1,2"))]
    for command, flags in calls:
        started, asked = local(command, *flags)
        assert started == 1
        assert asked > 5 or command is critic
        first = capsys.readouterr().out
        assert local(command, *flags) == (0, 0)
        again = capsys.readouterr().out
        assert "all 12 groups are there; nothing is asked" in again
        assert "server" not in again
        assert table_of(again) == table_of(first)
    assert local(generator1, *PROBLEMS, "--fresh")[0] == 1
    assert local(generator1, "--dataset", "quickstart", "--max-problems", 14)[0] == 1  # two are left


def test_a_critic_of_complete_generators_that_go_on_starts_a_server_again(local, capsys):
    for command, seed in ((generator1, 0), (generator2, 1)):
        local(command, *PROBLEMS, "--seed", seed)
    flags = ("--generators", "1,2")
    assert local(critic, *flags)[0] == 1
    assert local(critic, *flags) == (0, 0)
    local(generator2, "--dataset", "quickstart", "--max-problems", 13, "--seed", 1)
    assert local(critic, *flags)[0] == 1  # its inputs have changed


def test_the_verdict_of_a_gate_is_printed_again_without_a_server(local, capsys):
    flags = (*PROBLEMS, "--gate")
    assert local(generator1, *flags)[0] == 1
    first = table_of(capsys.readouterr().out)
    assert local(generator1, *flags) == (0, 0)
    again = table_of(capsys.readouterr().out)
    verdicts = [[line for line in lines if "points (interval" in line and "of 12" in line] for lines in (first, again)]
    assert verdicts[0] == verdicts[1] != []
    flags = ("--dataset", "quickstart:test", "--max-problems", 10, "--samples", 1)
    assert local(gate, *flags)[0] == 1
    capsys.readouterr()
    assert local(gate, *flags) == (0, 0)
    assert "tested on these problems before; nothing is asked" in capsys.readouterr().out


def test_a_finished_improve_prints_its_stored_result_without_a_server(local, capsys, tmp_path):
    flags = (*PROBLEMS, "--epochs", 1, "--samples", 1, "--seed", 1)  # with 0 the test rejects the library
    started, asked = local(improve, *flags)
    assert (started, asked > 12) == (1, True)
    first = capsys.readouterr().out
    assert local(improve, *flags) == (0, 0)
    again = capsys.readouterr().out
    assert "All was answered and tested before; nothing is asked." in again
    ends = [re.search(r"\n\n(.*)\Z", output, re.DOTALL)[1] for output in (first, again)]
    assert ends[0] == ends[1]
    assert "improvement could be shown" in ends[0] or "points" in ends[0]
    (tmp_path / "runs/r/improved/result.json").unlink()
    assert local(improve, *flags) == (0, 0)
    assert (tmp_path / "runs/r/improved/result.json").exists()
    assert local(improve, *flags, "--samples", 2)[0] > 0  # another test


def test_learning_that_a_budget_has_stopped_is_not_called_finished(local, capsys, monkeypatch):
    flags, learn = (*PROBLEMS, "--epochs", 1, "--samples", 1), improve_run.learn

    async def stopped(*arguments, **options):
        await learn(*arguments, **options)
        raise BudgetExceededError("Budget exhausted", why="spent: 100 tokens")

    with monkeypatch.context() as patch:
        patch.setattr(improve_run, "learn", stopped)
        local(improve, *flags)
        output = capsys.readouterr().out
        assert "Learning has used its part of the budget (spent: 100 tokens)" in output
        assert "Learning is not finished: the same command continues it." in output
    assert local(improve, *flags) == (0, 0)  # it had come to its end
    assert "Learning is not finished" not in capsys.readouterr().out


def test_the_name_of_a_served_model_is_known_without_its_server(local, monkeypatch):
    models = []
    monkeypatch.setattr(
        "grpo_training.serve.local_server.served_name", lambda model: models.append(model) or served_name(model)
    )
    local(generator1, *PROBLEMS)
    assert models == []  # nothing has begun
    local(generator1, *PROBLEMS)
    assert models == [POCKET_MODEL]
