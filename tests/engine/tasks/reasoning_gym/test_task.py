"""Every generator of reasoning-gym as a dataset: prompts, right answers, and answers that attack the scorer."""

from importlib.util import find_spec

import pytest

from agents.generator import generator_messages
from engine.datasets import load_dataset, load_problems
from engine.errors import InputError
from engine.records import Completion, Outcome
from engine.reward_evaluator import RewardEvaluator
from engine.tasks.registry import task_named
from tests.support.table import table

# The package takes a second to import, in each process that collects tests.
pytestmark = pytest.mark.skipif(find_spec("reasoning_gym") is None, reason="reasoning_gym is not installed")
TASK = task_named("reasoning_gym")

HOSTILE = (
    "",
    "<answer></answer>",
    "I do not know",
    "<answer>__import__('os').system('touch owned')</answer>",
    "<answer>[().__class__.__bases__[0].__subclasses__()]</answer>",
    "<answer>exec(chr(112))</answer>",
    "<answer>" + "(" * 5000 + "</answer>",
    "<answer>\x00\ud800{{}}</answer>",
)


def score(problem, text):
    return RewardEvaluator().score(TASK, problem, TASK.parse(Completion(text=text), problem))


def test_a_name_gives_options_size_and_seed():
    problems = load_problems("reasoning_gym:chain_sum?min_terms=2&max_terms=2&size=5&seed=1")
    assert len({problem.id for problem in problems}) == 5
    assert all(problem.text.count("+") + problem.text.count("-") >= 1 for problem in problems)
    again = load_problems("reasoning_gym:chain_sum?min_terms=2&max_terms=2&size=5&seed=1", max_problems=2)
    assert again == problems[:2]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("reasoning_gym:chain_sums", "Did you mean reasoning_gym:chain_sum"),
        ("reasoning_gym", "Generators: "),
        ("reasoning_gym:chain_sum?terms=2", "Unknown option 'terms'"),
        ("reasoning_gym:chain_sum?min_terms=9&max_terms=2", "Cannot generate"),
    ],
)
def test_a_wrong_name_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        load_problems(name)


def test_a_row_of_a_file_is_read():
    [problem] = load_problems("reasoning_gym:chain_sum?size=1")
    row = {"task": "reasoning_gym", "generator": "chain_sum", "config": {"size": 1, "seed": 0}, "index": 0}
    assert TASK.problem_from_row(row, "rows.jsonl, line 1") == problem
    with pytest.raises(InputError, match=r"rows\.jsonl, line 1"):
        TASK.problem_from_row({"index": 0}, "rows.jsonl, line 1")


# Its scorer takes every text without "true" for "False".
LENIENT = {"game_of_life_halting"}


@pytest.mark.timeout(300)
def test_every_generator(tmp_path, monkeypatch):
    from reasoning_gym.factory import DATASETS

    monkeypatch.chdir(tmp_path)
    # composite is a mix of other generators, which a dataset name cannot describe.
    table("generator", sorted(DATASETS.keys() - {"composite"}))(_check)()
    assert list(tmp_path.iterdir()) == []


def _check(generator):
    for problem in load_problems(f"reasoning_gym:{generator}?size=2&seed=1"):
        assert problem.text in generator_messages(TASK, problem)[1].content
        truth = TASK.truth(problem)
        if truth != "(not given)":
            assert score(problem, f"<think>So.</think><answer>{truth}</answer>").rewards.r_total == 1.0
    for text in HOSTILE:
        scored = score(problem, text)
        assert scored.outcome is not Outcome.INFRA_FAULT
        assert scored.rewards.r_total < 1.0 or generator in LENIENT


def test_an_answer_that_is_paid_whatever_the_problem_is_told():
    loaded = load_dataset("reasoning_gym:letter_counting?size=20")
    paid = [
        RewardEvaluator().score(TASK, problem, TASK.parse(Completion(text="1"), problem))
        for problem in loaded.problems[:8]
    ]
    mean, right = sum(one.rewards.r_total for one in paid) / 8, sum(one.is_correct for one in paid)
    assert mean >= 0.25
    [text] = TASK.remarks(loaded.problems)
    assert f"The answer '1' to every problem of letter_counting is paid {mean:.2f} on average" in text
    assert f"is right in {right} of 8" in text
    assert TASK.remarks(load_dataset("reasoning_gym:products?size=20").problems) == []


def test_a_part_of_a_point_is_not_correct():
    [problem] = load_problems("reasoning_gym:rectangle_count?size=1")
    truth = int(TASK.truth(problem))
    near = score(problem, f"<answer>{truth + 1}</answer>")
    assert 0 < near.rewards.r_total < 1
    assert not near.is_correct
    assert score(problem, f"<answer>{truth}</answer>").is_correct


def test_the_compact_style_asks_for_the_result_alone_and_reads_it():
    [problem] = load_problems("reasoning_gym:products?size=1")
    system, user = generator_messages(TASK, problem, style="compact")
    assert system.content == "Answer with the result only."
    assert problem.text in user.content
    assert score(problem, TASK.truth(problem)).is_correct
