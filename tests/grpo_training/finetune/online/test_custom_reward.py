import pytest

from engine.errors import InputError
from engine.records import Outcome, Problem
from engine.reward_evaluator import RewardEvaluator
from grpo_training.finetune.online.custom_reward import load_reward
from grpo_training.finetune.online.rewards import NothingScoredError, TaskReward, dataset_rows

SOURCE = """
from dataclasses import dataclass

@dataclass
class Settings:
    scale: float = 0.1

def length(completion, row):
    return Settings().scale * len(completion) + (row["answer"] in completion)

def picky(completion, row):
    odd = {"none": None, "text": "0.5", "nan": float("nan"), "true": True}
    return odd[completion] if completion in odd else 1 / len(completion)

def needs_more(completion, row, tokenizer): ...
async def later(completion, row): ...
NUMBER = 1
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_rewards.py"
    path.write_text(SOURCE)
    return path


def problem(number):
    return Problem(id=f"p{number}", text=f"Say {number}.", answer=str(number), meta={"level": number})


def score(reward, texts):
    rows = dataset_rows([problem(7)] * len(texts), "compact")
    columns = {name: [row[name] for row in rows] for name in rows[0] if name != "prompt"}
    metrics = {}
    ids = [[number] for number in range(len(texts))]
    rewards = reward(completions=texts, completion_ids=ids, log_metric=metrics.__setitem__, **columns)
    return rewards, metrics


def test_a_function_of_a_file_or_of_a_module(file, monkeypatch):
    from_file = load_reward(f"{file}:length")
    assert from_file("a 7", problem(7)) == pytest.approx(1.3)
    monkeypatch.syspath_prepend(file.parent)
    assert load_reward("my_rewards:length")("a 7", problem(7)) == pytest.approx(1.3)
    assert load_reward("my_rewards:length").digest == from_file.digest
    file.write_text(SOURCE + "# changed")
    assert load_reward(f"{file}:length").digest != from_file.digest


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("{file}", "no function is named"),
        ("{file}x.py:length", "no such file"),
        ("{file}:lenght", r"has no function 'lenght'\nIts functions: later, length, needs_more, picky"),
        ("{file}:NUMBER", "has no function 'NUMBER'"),
        ("{file}:needs_more", r"cannot be called as needs_more\(completion, row\)"),
        ("{file}:later", "is async"),
        ("no_such_module_here:f", r"cannot be imported\nModuleNotFoundError"),
    ],
)
def test_what_is_not_a_reward_function_is_refused(file, place, message):
    with pytest.raises(InputError, match=message):
        load_reward(place.format(file=file))


def test_a_module_that_fails_on_import_is_refused_with_its_error(file):
    file.write_text("1 / 0")
    with pytest.raises(InputError, match="ZeroDivisionError: division by zero"):
        load_reward(f"{file}:length")


def test_it_replaces_the_reward_of_the_task_or_is_added_to_it(file):
    own = load_reward(f"{file}:length")
    with TaskReward(RewardEvaluator(), custom=own) as alone:
        rewards, metrics = score(alone, ["7", "12345"])
    assert rewards == pytest.approx([1.1, 0.5])
    assert metrics["rewards/length/mean"] == pytest.approx(0.8)
    assert "pass_rate" not in metrics  # the task was not evaluated
    with TaskReward(RewardEvaluator()) as plain:
        (of_task, _), _ = score(plain, ["7", "12345"])
    with TaskReward(RewardEvaluator(), custom=own, custom_weight=0.25) as both:
        (mixed, _), metrics = score(both, ["7", "12345"])
    assert mixed == pytest.approx(0.25 * 1.1 + 0.75 * of_task)
    assert {"pass_rate", "rewards/length/mean", "rewards/r_ans/mean"} <= metrics.keys()


def test_a_completion_that_it_cannot_score_has_no_reward(file):
    with TaskReward(RewardEvaluator(), custom=load_reward(f"{file}:picky")) as reward:
        rewards, metrics = score(reward, ["none", "text", "nan", "", "true", "ab"])
        assert rewards == [None, None, None, None, 1.0, 0.5]
        assert metrics["faults/infra"] == pytest.approx(4 / 6)
        assert "ValueError: picky returned '0.5', expected a finite number" in reward.first_error
        assert reward.latest[3].outcome is Outcome.INFRA_FAULT
        for _ in range(2):
            score(reward, ["text"])
        with pytest.raises(NothingScoredError, match="picky returned '0.5'") as stopped:
            score(reward, ["nan"])
    assert stopped.value.exit_code == 3
