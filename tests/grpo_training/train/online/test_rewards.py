import json
import random
import threading

import pytest

from engine.datasets import load_problems
from engine.errors import InputError
from engine.records import Candidate, Outcome, Problem
from engine.task import Measurement
from engine.tasks import registry
from engine.tasks.math.task import MathTask
from engine.tasks.registry import task_named
from grpo_training.agents.generator import generator_messages
from grpo_training.train.online.reward_settings import check_rewards, reward_functions
from grpo_training.train.online.rewards import NothingScoredError, TrlReward, dataset_rows
from tests.engine.tasks.traffic.support import row as traffic_row


def solved(answer: str) -> str:
    """A whole scaffold whose graph gives ``answer``."""
    return json.dumps(
        {
            "target_variable": "x",
            "knowns": {"a": int(answer) - 1},
            "causal_graph": [{"cause": ["a"], "effect": "x", "rule": "a + 1"}],
            "computation_plan": [{"id": "s1", "target": "x", "inputs": ["a"], "description": "one more"}],
            "final_answer": answer,
        }
    )


def problem(number: int, **changes) -> Problem:
    return Problem(id=f"p{number}", text=f"Say what follows {number - 1}, not {number}.", answer=str(number), **changes)


def columns_of(rows):
    return {name: [row[name] for row in rows] for name in rows[0] if name != "prompt"}


def score(reward, problems, texts, **extra):
    completions = [[{"role": "assistant", "content": text}] for text in texts]
    return reward(
        prompts=[None] * len(texts),
        completions=completions,
        completion_ids=[[number] for number in range(len(texts))],
        trainer_state=None,
        **columns_of(dataset_rows(problems, "compact")),
        **extra,
    )


class FakeTask(MathTask):
    """A task whose completion says how checking it ends: ``fault``, or the value of ``r_ans``."""

    def parse(self, completion, problem):
        return Candidate(outcome=Outcome.OK, stated_answer=completion.text)

    def evaluate(self, candidate, problem):
        if candidate.stated_answer == "fault":
            return Measurement({}, None, outcome=Outcome.INFRA_FAULT)
        right = candidate.stated_answer == problem.answer
        return Measurement({"r_ans": float(right), "r_graph": problem.meta.get("graph")}, right)


@pytest.fixture
def reward():
    with TrlReward(workers=4) as trl_reward:
        yield trl_reward


@pytest.fixture
def fake(monkeypatch, reward):
    monkeypatch.setitem(registry._registered, "math", FakeTask())
    return reward


def test_a_right_scaffold_is_paid_its_structure_and_a_wrong_one_is_not(reward):
    right, wrong, none = score(reward, [problem(7)] * 3, [solved("7"), solved("8"), "I do not know."])
    assert right == pytest.approx(1.0)
    assert (wrong, none) == (0.0, 0.0)


def test_shuffled_batches_score_each_completion_against_its_own_problem(reward):
    numbers = list(range(2, 34))
    random.Random(3).shuffle(numbers)
    texts = [solved(str(number if number % 3 else number + 1)) for number in numbers]
    score(reward, [problem(number) for number in numbers], texts)
    assert [completion.problem.id for completion in reward.latest] == [f"p{number}" for number in numbers]
    assert [completion.is_correct for completion in reward.latest] == [bool(number % 3) for number in numbers]
    assert [completion.text for completion in reward.latest] == texts


def test_identical_completions_of_different_problems_get_their_own_scores(reward):
    rewards = score(reward, [problem(7), problem(8), problem(7)], [solved("7")] * 3)
    assert rewards[0] == rewards[2] > rewards[1]


def test_a_fault_of_the_machinery_is_none_and_never_zero(fake):
    metrics = {}
    rewards = score(fake, [problem(7)] * 4, ["7", "8", "fault", "7"], log_metric=metrics.__setitem__)
    assert rewards == [1.0, 0.0, None, 1.0]
    del metrics["scoring_time"]
    assert metrics == {
        "rewards/r_ans/mean": pytest.approx(2 / 3),
        "pass_rate": pytest.approx(2 / 3),
        "faults/infra": 0.25,
        "faults/model": 0.0,
        "faults/verifier_timeout": 0.0,
    }


def test_the_time_of_scoring_is_a_metric():
    metrics, times = {}, iter([10.0, 12.5])
    with TrlReward(clock=lambda: next(times)) as reward:
        score(reward, [problem(7)], ["7"], log_metric=metrics.__setitem__)
    assert metrics["scoring_time"] == 2.5


def test_a_run_where_nothing_can_be_scored_stops_and_one_score_in_between_saves_it(fake):
    unscored, scored = ["fault", "fault"], ["fault", "7"]
    for texts in (unscored, unscored, scored, unscored, unscored):
        score(fake, [problem(7)] * 2, texts)
    with pytest.raises(NothingScoredError, match="last 3 batches") as stopped:
        score(fake, [problem(7)] * 2, unscored)
    assert stopped.value.exit_code == 3
    assert "infra_fault 11" in stopped.value.why


def test_a_training_in_which_nothing_was_scored_is_an_error_at_its_end(fake):
    fake.check_any_scored()  # no completion is none too few
    score(fake, [problem(7)] * 2, ["fault", "fault"])
    with pytest.raises(NothingScoredError, match="None of 2 completions"):
        fake.check_any_scored()
    score(fake, [problem(7)] * 2, ["fault", "7"])
    fake.check_any_scored()


def test_meta_travels_as_text_whatever_its_keys_are(fake):
    problems = [problem(7, meta={"graph": 0.5, "tests": [[1, "é"]]}), problem(7), problem(7, meta={"other": None})]
    rewards = score(fake, problems, ["7"] * 3)
    assert rewards == [pytest.approx((0.5 * 1 + 0.25 * 0.5) / 0.75), 1.0, 1.0]
    assert fake.latest[0].problem == problems[0]


def test_separate_reasoning_reaches_the_task(fake, monkeypatch):
    heard = []
    monkeypatch.setattr(
        FakeTask,
        "parse",
        lambda self, completion, problem: (
            heard.append((completion.text, completion.reasoning)) or Candidate(outcome=Outcome.OK)
        ),
    )
    rows = columns_of(dataset_rows([problem(1)] * 3, "compact"))
    fake(
        completions=[
            [{"role": "assistant", "content": "c", "thinking": "t"}],
            "plain",
            [{"role": "assistant", "content": None}],
        ],
        completion_ids=[[1], [2], [3]],
        **rows,
    )
    assert sorted(heard, key=str) == [("", None), ("c", "t"), ("plain", None)]


def test_several_are_scored_at_a_time(fake, monkeypatch):
    meeting = threading.Barrier(4, timeout=60)  # passes only if four threads are inside at once
    monkeypatch.setattr(
        FakeTask, "parse", lambda *_, **__: meeting.wait() is None or Candidate(outcome=Outcome.OK, stated_answer="7")
    )
    assert score(fake, [problem(7)] * 4, ["7"] * 4) == [1.0] * 4


def test_a_completion_that_is_not_scored_by_the_deadline_has_no_reward(monkeypatch):
    released = threading.Event()

    class Slow(FakeTask):
        def evaluate(self, candidate, problem):
            if candidate.stated_answer == "slow":
                released.wait(30)
            return super().evaluate(candidate, problem)

    monkeypatch.setitem(registry._registered, "math", Slow())
    with TrlReward(workers=2, deadline_s=0.3) as reward:
        metrics: dict[str, float] = {}
        rewards = score(reward, [problem(7)] * 4, ["7", "slow", "8", "7"], log_metric=metrics.__setitem__)
        assert rewards == [1.0, None, 0.0, 1.0]
        assert metrics["faults/infra"] == 0.25
        assert reward.first_error == "not scored within 0.3 s"
        released.set()
        assert score(reward, [problem(7)] * 2, ["slow", "7"]) == [0.0, 1.0]


def test_batches_that_were_begun_are_scored_in_their_order_and_their_deadline_runs_from_there(monkeypatch):
    reached, released, now = threading.Event(), threading.Event(), [0.0]

    class Slow(FakeTask):
        def evaluate(self, candidate, problem):
            if candidate.stated_answer == "slow":
                reached.set()
                released.wait(30)
            return super().evaluate(candidate, problem)

    monkeypatch.setitem(registry._registered, "math", Slow())
    batches = [(["7", "slow"], [1.0, None]), (["8", "7"], [0.0, 1.0])]
    with TrlReward(workers=1, deadline_s=100, clock=lambda: now[0]) as reward:
        for texts, _ in batches:
            reward.begin(completions=texts, completion_ids=[[0], [1]], problem=[problem(7).model_dump_json()] * 2)
        reached.wait(30)  # the first completion is scored, and the second holds up the only thread
        now[0] = 101.0
        assert score(reward, [problem(7)] * 2, batches[0][0]) == batches[0][1]
        now[0] = 99.0
        released.set()
        assert score(reward, [problem(7)] * 2, batches[1][0]) == batches[1][1]
        now[0] = 1000.0
        assert score(reward, [problem(7)], ["7"]) == [1.0]  # begins in the call
        reward.begin(completions=["7"], completion_ids=[[5]], problem=[problem(7).model_dump_json()])
        with pytest.raises(AssertionError, match="another batch"):
            score(reward, [problem(7)], ["7"])


def test_the_prompt_is_the_generators_own_without_experiences():
    (problem,) = load_problems("quickstart", max_problems=1)
    (row,) = dataset_rows([problem], "compact")
    expected = generator_messages(task_named("math"), problem, (), "compact")
    assert row["prompt"] == [{"role": message.role, "content": message.content} for message in expected]
    assert problem.text in row["prompt"][-1]["content"]


def test_trl_names_the_metric_after_the_reward(reward):
    pytest.importorskip("trl")
    from trl.trainer.utils import get_callable_name, is_async_callable

    assert get_callable_name(reward) == "r_total"
    assert not is_async_callable(reward)


def decisions(*rows):
    """Problems of the traffic task, one per row."""
    return [
        task_named("traffic").problem_from_row(row.model_dump(mode="json") | {"id": f"d{number}"}, "here")
        for number, row in enumerate(rows)
    ]


YES, NO = '{"extend": "yes"}', '{"extend": "no"}'
BETTER_TO_EXTEND, BETTER_TO_SWITCH = (
    traffic_row(before=7, extend=4, switch=8),
    traffic_row(before=7, extend=9, switch=7),
)


def pay(problems, texts, settings, metrics=None):
    with reward_functions(problems, settings) as paid_by, TrlReward(reward_functions=paid_by) as reward:
        log = {} if metrics is None else {"log_metric": metrics.__setitem__}
        return score(reward, problems, texts, **log)


def test_the_training_reward_is_the_weighted_sum_of_its_settings():
    problems = decisions(*[BETTER_TO_EXTEND] * 4)
    metrics = {}
    texts = [YES, NO, "so {extend: yes}", "perhaps"]
    settings = {"format_weight": 0.5, "tsc_weight": 10.0, "reward_scale": 3.0, "invalid": -10.0}
    # tanh(3 / 3) = 0.7616, tanh(-1 / 3) = -0.3215
    assert pay(problems, texts, settings, metrics) == pytest.approx([8.116, -2.715, 7.366, -5.0], abs=1e-3)
    assert metrics["rewards/format/mean"] == pytest.approx((1 + 1 - 0.5 - 10) / 4)
    assert metrics["rewards/tsc/mean"] == pytest.approx((2 * 0.7616 - 0.3215) / 3, abs=1e-4)
    assert (metrics["format/strict"], metrics["format/partial"], metrics["format/invalid"]) == (0.5, 0.25, 0.25)
    assert metrics["agreement/better_branch"] == pytest.approx(2 / 3)
    assert metrics["regret"] == pytest.approx(4 / 3)
    assert metrics["pass_rate"] == 0.5


def test_the_relative_reward_is_zero_for_the_decision_of_max_pressure_and_only_for_it():
    problems = decisions(BETTER_TO_EXTEND, BETTER_TO_EXTEND)  # Max-Pressure extends
    settings = {"format_weight": 0.0, "use_relative_baseline": True, "reward_scale": 4.0}
    assert pay(problems, [YES, NO], settings) == pytest.approx([0.0, -0.7616], abs=1e-4)  # tanh(-4 / 4)


def test_a_shuffled_batch_of_decisions_is_paid_by_each_ones_own_row():
    rows = [BETTER_TO_EXTEND if number % 2 else BETTER_TO_SWITCH for number in range(32)]
    problems = decisions(*rows)
    order = list(range(32))
    random.Random(5).shuffle(order)
    settings = {"format_weight": 0.0, "reward_scale": 1.0}
    paid = pay([problems[number] for number in order], [YES] * 32, settings)
    right, wrong = 0.9951, -0.9640  # tanh(3), tanh(-2)
    assert paid == pytest.approx([right if number % 2 else wrong for number in order], abs=1e-4)


def test_settings_that_do_not_fit_the_problems_are_refused_before_the_training():
    with pytest.raises(InputError, match="Row .* extensions of 5 s, the configuration has extend_seconds 10"):
        check_rewards(decisions(BETTER_TO_EXTEND), {"extend_seconds": 10})
    with pytest.raises(InputError, match="task 'math' has no training reward with the settings tsc_weight"):
        check_rewards([problem(7)], {"tsc_weight": 1.0})
