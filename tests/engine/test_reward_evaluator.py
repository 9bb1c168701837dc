import pytest

from engine.errors import ConfigurationError
from engine.records import Completion, Outcome, Problem, Rewards
from engine.reward_evaluator import (
    Baseline,
    RewardEvaluator,
    fusion_baseline,
    fusion_reward,
    policy_reward,
    task_total,
    with_opinion,
)
from engine.task import Measurement
from engine.tasks.registry import task_named
from engine.tasks.simple import PlainTask, SimpleTask
from tests.support.table import table


@table(
    ("total", "best", "majority", "expected"),
    [
        (0.6, 0.6, 0.6, 0.5),  # a copy adds nothing
        (1.0, 0.4, 0.4, 0.8),  # 0.6 above both: 0.5 + 0.6/2
        (0.4, 1.0, 1.0, 0.2),  # it lost what was there
        (0.8, 0.8, 0.2, 0.65),  # as good as the best, 0.6 above the majority: 0.5 + (0 + 0.6)/4
        (0.0, 1.0, 1.0, 0.0),
        (1.0, 0.0, 0.0, 1.0),
    ],
)
def test_fusion_reward(total, best, majority, expected):
    assert fusion_reward(total, Baseline(best, majority)) == pytest.approx(expected)


@table(
    ("task", "components", "total", "is_correct", "expected"),
    [
        ("math", {"r_ans": 1.0, "r_logic": 0.75, "r_graph": 0.8}, 0.8875, True, 0.8875),  # all of it
        ("math", {"r_ans": 0.0, "r_logic": 0.75, "r_graph": 0.8}, 0.3875, False, 0.0),  # 0.5 * 0
        ("math", {"r_ans": 0.0, "r_logic": None, "r_graph": None}, 0.0, False, 0.0),
        ("math", {"r_ans": 0.6, "r_logic": 1.0, "r_graph": None}, 0.7333, False, 0.4),  # 0.5 * 0.6 / 0.75
        ("math", {"r_ans": 0.6, "r_logic": 1.0, "r_graph": 1.0}, 0.8, None, 0.3),  # not checked: 0.5 * 0.6
        ("math", {"r_logic": 0.5, "r_graph": 0.7}, 0.6, False, 0.6),  # no component grades the answer
        ("math", {"r_ans": 0.0, "r_logic": 0.5, "style": 1.0}, 0.4, False, 0.4),  # of another program
        ("code", {"r_ans": 0.0, "r_logic": 0.5}, 0.1667, False, 0.25 * 0.5 / 0.75),  # tests that pass are no form
        ("answers", {"r_ans": 0.0, "r_fields": 0.5}, 0.2, False, 0.2),  # neither are right fields
        ("traffic", {"r_ans": 0.0, "r_tsc": 0.5, "r_format": 1.0}, 0.3, False, 0.4 * 0.5),  # the format is
        ("phaser", {"plan": 0.5, "code": 0.4}, 0.42, False, 0.42),
        ("math", {"r_ans": None}, None, None, None),
    ],
)
def test_structure_trains_only_where_the_answer_is_right(task, components, total, is_correct, expected):
    reward = policy_reward(task_named(task), Rewards.of(components, total), is_correct)
    assert reward == (expected if expected is None else pytest.approx(expected))


def test_the_baseline_knows_the_best_and_the_majority():
    assert fusion_baseline(["7", "8", "7 "], [0.25, 1.0, 0.35]) == Baseline(1.0, pytest.approx(0.3))
    assert fusion_baseline(["7", "8"], [0.2, 0.4]) == Baseline(0.4, pytest.approx(0.3))  # a tie is no majority
    assert fusion_baseline([None, None], [0.2, 0.4]) == Baseline(0.4, pytest.approx(0.3))
    assert fusion_baseline([], []) is None


def test_an_opinion_joins_with_its_own_weight():
    assert with_opinion(0.5, 1.0, 0.3) == pytest.approx(0.65)
    assert with_opinion(0.5, None, 0.3) == 0.5
    assert with_opinion(None, 0.8, 0.3) == pytest.approx(0.8)
    assert with_opinion(None, None, 0.3) is None


def test_a_component_without_a_weight_is_an_error_of_the_task():
    def reward(answer, row):
        return {"exact": 1.0, "extra": 0.0}

    task = SimpleTask(prompt="{question}", reward=reward, reward_weights={"exact": 1.0})
    with pytest.raises(ConfigurationError, match="measures 'extra' and gives it no weight"):
        task_total(task, reward("", {}))
    assert task_total(SimpleTask(prompt="{question}", reward=reward), reward("", {})) == 0.5


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan")])
def test_a_component_outside_its_bounds_is_a_fault_of_the_task_and_no_reward(value):
    class Wrong(PlainTask):
        name = "wrong"

        def problem_from_row(self, row, where):
            raise NotImplementedError

        def evaluate(self, candidate, problem):
            return Measurement({"r_ans": value}, True)

    task, problem = Wrong(), Problem(id="p", text="t", answer="a", task="wrong")
    scored = RewardEvaluator().score(task, problem, task.parse(Completion(text="a"), problem))
    assert (scored.outcome, scored.is_correct, scored.rewards.r_total) == (Outcome.INFRA_FAULT, None, None)
    assert scored.fault.message == f"r_ans is {value}"
