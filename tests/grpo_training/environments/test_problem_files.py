"""The files of an environment, and the reward of a reply."""

import pytest

from engine.errors import InputError
from engine.tasks import registry
from grpo_training.environments.problem_files import NotMeasuredError, read_problems, score_reply
from grpo_training.export import __main__ as export


def test_an_environment_has_the_prompts_and_rewards_of_a_task_without_the_file_it_came_from(
    exported, tmp_path, task_file
):
    folder = exported("verifiers", tmp_path / "Add-Two") / "add_two"
    task_file.unlink()
    first, second = read_problems(folder)
    assert (first.problem.id, second.problem.id) == ("one", "two")
    assert first.user.strip().endswith("Add 1 and 2.")
    assert first.system.startswith("Solve the problem.")
    scored = score_reply(second.problem, "<think>3 + 4</think><answer>7</answer>")
    assert (scored.rewards.r_total, scored.is_correct) == (1.0, True)
    assert score_reply(second.problem, "<answer>8</answer>").rewards.r_total == 0.5
    assert score_reply(second.problem, "<answer>seven</answer>").rewards.r_total == 0.25


def test_a_reply_that_was_not_measured_has_no_reward(exported, tmp_path):
    first, _ = read_problems(exported("inspect-task", tmp_path / "add"))
    with pytest.raises(NotMeasuredError, match=r"one was not measured: .*no checker"):
        score_reply(first.problem, "<answer>crash</answer>")


def test_an_environment_replaces_an_environment_and_nothing_else(exported, tmp_path):
    for count in (2, 1):
        folder = exported("verifiers", tmp_path / "add", "--max-problems", str(count))
    assert len(read_problems(folder / "add")) == 1
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="exists and is no environment"):
        exported("verifiers", tmp_path / "mine")
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"add", "add_two.py", "mine"}


def test_wrong_names_and_damaged_files_are_one_error(exported, tmp_path):
    with pytest.raises(InputError, match="'2nd' cannot be the name of a Python package"):
        exported("verifiers", tmp_path / "2nd")
    with pytest.raises(InputError, match="--to verifiers needs --dataset"):
        export.main(["--to", "verifiers", "--output", str(tmp_path / "add")])
    with pytest.raises(InputError, match="There is no run 'none'"):
        export.main(["--to", "trl-sft", "--run", "none", "--output", str(tmp_path / "a.jsonl")])
    folder = exported("inspect-task", tmp_path / "add")
    (folder / "problems.jsonl").write_text('{"problem": {"id": 1}}\n')
    with pytest.raises(InputError, match=r"problems.jsonl, line 1: not a problem of an environment"):
        read_problems(folder)


def test_a_task_of_an_installed_module_is_loaded_from_there(tmp_path, task_file, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.syspath_prepend(task_file.parent)
    flags = [
        "--to",
        "inspect-task",
        "--dataset",
        "add_two",
        "--task",
        "add_two:TASK",
        "--output",
        str(tmp_path / "add"),
    ]
    assert export.main(flags) == 0
    registry._registered.clear()
    assert not (tmp_path / "add/task.py").exists()
    assert [one.problem.id for one in read_problems(tmp_path / "add")] == ["one", "two"]
