"""The example whose checker is a package: every generator, with right answers and answers that attack the scorer."""

from importlib.util import find_spec

import pytest

from engine.datasets import load_problems
from engine.errors import InputError
from engine.records import Completion, Outcome
from engine.reward_evaluator import RewardEvaluator
from engine.tasks.registry import load_task
from tests.conftest import ROOT
from tests.support.table import table

# The package takes a second to import, in each process that collects tests.
pytestmark = pytest.mark.skipif(find_spec("reasoning_gym") is None, reason="reasoning_gym is not installed")

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

# Its scorer takes every text without "true" for "False".
LENIENT = {"game_of_life_halting"}


@pytest.fixture
def task():
    return load_task(f"{ROOT}/examples/reasoning_gym_task.py:TASK")


@pytest.mark.timeout(300)
def test_every_generator(task, tmp_path, monkeypatch):
    from reasoning_gym.factory import DATASETS

    def score(problem, text):
        return RewardEvaluator().score(task, problem, task.parse(Completion(text=text), problem))

    def check(generator):
        for problem in load_problems(f"reasoning_gym:{generator}?size=2&seed=1"):
            gold = task.gold_reply(problem)
            if gold is not None:
                assert score(problem, f"<think>So.</think>{gold}").rewards.r_total == 1.0
        for text in HOSTILE:
            scored = score(problem, text)
            assert scored.outcome is not Outcome.INFRA_FAULT
            assert scored.rewards.r_total < 1.0 or generator in LENIENT

    monkeypatch.chdir(tmp_path)
    # composite is a mix of other generators, which a dataset name cannot describe.
    table("generator", sorted(DATASETS.keys() - {"composite"}))(check)()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("reasoning_gym:chain_sums", "Did you mean reasoning_gym:chain_sum"),
        ("reasoning_gym", "Generators: "),
        ("reasoning_gym:chain_sum?terms=2", "Unknown option 'terms'"),
        ("reasoning_gym:chain_sum?min_terms=9&max_terms=2", "Cannot generate"),
    ],
)
def test_a_wrong_name_is_refused(task, name, message):
    with pytest.raises(InputError, match=message):
        load_problems(name)
