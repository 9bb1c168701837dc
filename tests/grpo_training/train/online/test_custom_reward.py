import pytest

from engine.errors import InputError, MissingInputError
from engine.records import Message, Problem
from grpo_training.train.online.custom_reward import load_reward, reward_digest
from grpo_training.train.online.rewards import NothingScoredError, TrlReward, dataset_rows

SOURCE = """
def length(answer, row):
    return min(1.0, 0.1 * len(answer))

def picky(answer, row):
    return {"text": "much", "large": 7, "good": 1}[answer]

def needs_more(answer, row, tokenizer): ...
async def later(answer, row): ...
NUMBER = 1
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_rewards.py"
    path.write_text(SOURCE)
    return path


def score(reward, texts):
    rows = dataset_rows([Problem(id="p7", text="Say 7.", answer="7")] * len(texts), "compact")
    columns = {name: [row[name] for row in rows] for name in rows[0] if name != "prompt"}
    metrics = {}
    ids = [[number] for number in range(len(texts))]
    rewards = reward(completions=texts, completion_ids=ids, log_metric=metrics.__setitem__, **columns)
    return rewards, metrics


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("lenght", InputError, "has no 'lenght'"),
        ("NUMBER", InputError, "cannot be called with an answer and a row"),
        ("needs_more", InputError, r"cannot be called with an answer and a row\nmissing a required argument"),
        ("later", InputError, "is async"),
    ],
)
def test_what_is_not_a_reward_function_is_refused(file, name, error, message):
    with pytest.raises(error, match=message):
        load_reward(f"{file}:{name}")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(MissingInputError, match="File not found"):
        load_reward(f"{tmp_path}/none.py:f")


def test_another_source_has_another_digest(file, tmp_path):
    other = tmp_path / "other.py"
    other.write_text(SOURCE + "# changed")
    assert reward_digest(f"{file}:length") == reward_digest(f"{file}:picky") != reward_digest(f"{other}:length")


def test_it_replaces_the_reward_of_the_task(file):
    custom = load_reward(f"{file}:length")
    with TrlReward(custom=custom) as alone:
        rewards, _ = score(alone, ["<answer>7</answer>", "12345"])
    assert rewards == pytest.approx([0.1, 0.5])


def test_a_completion_that_it_cannot_score_has_no_reward(file):
    with TrlReward(custom=load_reward(f"{file}:picky")) as reward:
        rewards, metrics = score(reward, ["text", "large", "unknown", "good"])
        assert rewards == [None, None, None, 1.0]
        assert metrics["faults/infra"] == 0.75
        assert "the reward function returned 'much'; expected numbers" in reward.first_error
        for _ in range(2):
            score(reward, ["text"])
        with pytest.raises(NothingScoredError, match="First error: the reward function returned .much.") as stopped:
            score(reward, ["large"])
    assert stopped.value.exit_code == 3


OF_TRL = """
def by_columns(prompts, completions, queue, **columns):
    assert {"id", "completion_ids"} <= columns.keys() and "outputs" not in columns, columns
    return [len(text) - queue + 0.5 * (prompt == "go") for prompt, text, queue in zip(prompts, completions, queue)]

def placeholder(prompts, outputs, **kwargs):
    return [0.0 if output else None for output in outputs]

def of_chats(completions, **kwargs):
    return [-2.5 if chat[0]["role"] == "assistant" and chat[0]["content"] == "7" else 0.0 for chat in completions]

def too_few(completions, **kwargs):
    return [1.0]
"""


@pytest.fixture
def of_trl(tmp_path):
    path = tmp_path / "trl_rewards.py"
    path.write_text(OF_TRL)
    return path


def score_rows(reward, rows, texts, **trainer):
    """Score texts as TRL does, each for the row beside it."""
    problems = [Problem(id=row["id"], text="go", answer="", meta=row) for row in rows]
    columns = dataset_rows(
        problems, "compact", {problem.id: [Message(role="user", content="go")] for problem in problems}
    )
    batch = {f"{name}s" if name == "prompt" else name: [row[name] for row in columns] for name in columns[0]}
    chats = [[{"role": "assistant", "content": text}] for text in texts]
    return reward(completions=chats, completion_ids=[[1]] * len(texts), **batch, **trainer)


def test_a_reward_function_of_trl_is_known_by_its_parameters_and_gets_the_columns_of_the_rows(of_trl):
    rows = [{"id": "a", "prompt": "go", "queue": 1}, {"id": "b", "prompt": "stop", "queue": 2}]
    with TrlReward(custom=load_reward(f"{of_trl}:by_columns")) as reward:
        assert score_rows(reward, rows, ["four", ""]) == [3.5, -2.0]
    with TrlReward(custom=load_reward(f"{of_trl}:placeholder")) as reward:
        assert score_rows(reward, rows, ["x", ""]) == [0.0, None]


def test_prompts_that_are_chats_give_it_completions_that_are_chats(of_trl):
    rows = [{"id": "a", "prompt": [{"role": "user", "content": "go"}]}] * 2
    with TrlReward(custom=load_reward(f"{of_trl}:of_chats")) as reward:
        assert score_rows(reward, rows, ["7", "8"]) == [-2.5, 0.0]


def test_what_it_returns_must_be_one_reward_per_completion(of_trl):
    with TrlReward(custom=load_reward(f"{of_trl}:too_few")) as reward:
        assert score(reward, ["1", "2"])[0] == [None, None]
        assert reward.first_error == "the reward function returned 1 rewards for 2 completions"


def test_a_column_that_no_row_has_is_named_before_the_training(of_trl):
    load_reward(f"{of_trl}:by_columns").check([{"id": "a", "queue": 1}])
    with pytest.raises(InputError, match="by_columns needs queue, which no row has"):
        load_reward(f"{of_trl}:by_columns").check([{"id": "a"}])


ODD = """
import math
VALUES = {"nan": math.nan, "inf": math.inf, "minus": -math.inf, "text": "much", "none": None, "huge": 1e39,
          "list": [1.0], "true": True, "digit": "1", "half": " 0.5 ", "far": -7}

def odd(completions, **columns):
    return (VALUES[text] for text in completions)

def by_progress(completions, trainer_state, log_extra, log_metric, queue=None, **columns):
    log_extra("length", [len(text) for text in completions])
    log_metric("seen", 2.0)
    return [trainer_state["global_step"] + len(text) for text in completions]

def takes_all(completions, **everything):
    return [float(everything["trainer_state"]["global_step"]) for text in completions]

def of_other_trainers(completions, environments):
    return [1.0] * len(completions)
"""
ROWS = [{"id": "a", "prompt": "go"}]


@pytest.fixture
def odd(tmp_path):
    path = tmp_path / "odd_rewards.py"
    path.write_text(ODD)
    return path


@pytest.mark.parametrize("value", ["nan", "inf", "minus", "text", "huge", "list", "none"])
def test_a_value_that_is_no_number_leaves_out_that_completion_alone(odd, value):
    with TrlReward(custom=load_reward(f"{odd}:odd")) as reward:
        for _ in range(4):  # more than the batches after which a training without any reward stops
            assert score_rows(reward, ROWS * 4, [value, "far", "true", value]) == [None, -7.0, 1.0, None]
        assert (reward.scored, reward.without_reward) == (16, 8)
        assert reward.first_error.startswith("" if value == "none" else "the reward function returned '")
        assert bool(reward.first_error) is (value != "none")
        assert [reply.error != "" for reply in reward.latest] == [value != "none", False, False, value != "none"]


def test_numbers_as_text_and_truth_values_are_rewards(odd):
    with TrlReward(custom=load_reward(f"{odd}:odd")) as reward:
        assert score_rows(reward, ROWS * 3, ["digit", "half", "true"]) == [1.0, 0.5, 1.0]


def test_it_gets_what_the_trainer_passes(odd):
    logged = {}
    trainer = {"trainer_state": {"global_step": 5}, "log_extra": logged.__setitem__, "log_metric": logged.__setitem__}
    for name, expected in (("by_progress", [6.0, 7.0]), ("takes_all", [5.0, 5.0])):
        custom = load_reward(f"{odd}:{name}")
        custom.check(ROWS)
        with TrlReward(custom=custom) as reward:
            assert score_rows(reward, ROWS * 2, ["a", "bb"], **trainer) == expected
    assert (logged["length"], logged["seen"]) == ([1, 2], 2.0)
    with pytest.raises(InputError, match="needs environments, which no row has"):
        load_reward(f"{odd}:of_other_trainers").check(ROWS)
