"""What a fusion adds to its inputs, with rewards worked out by hand."""

import json
from types import SimpleNamespace

import pytest

from engine.records import Completion, Outcome, Problem, Reply, RolloutGroup
from engine.reward_evaluator import RewardEvaluator, fusion_baseline, measured_total
from engine.storage.lines import Line, encode_line
from engine.storage.summaries import summarise_fusion
from engine.tasks.registry import task_named
from grpo_training.agents.chat import ReadReply
from grpo_training.learning.critic import Critic
from grpo_training.learning.experience_choice import DrawnExperiences
from grpo_training.learning.scored_groups import Step, rollout_from
from grpo_training.learning.settings import CriticSettings
from tests.support.scripted_client import ScriptedClient

MATH = task_named("math")
APPLES = Problem(id="p", text="Three crates hold four apples each. How many apples?", answer="12", task="math")
SILENT = {
    "target_variable": "apples",
    "knowns": {"crates": 3, "each": 4},
    "causal_graph": [{"cause": ["crates", "each"], "effect": "apples", "rule": "apples = crates * each"}],
    "computation_plan": [],
}
"""Executes to 12 and states no answer. r_logic: no plan 0, causes 1, no answer to agree with 0, do() 1, so 1/2."""
SUM = [{"cause": ["crates", "each"], "effect": "apples", "rule": "apples = crates + each"}]
STATED = SILENT | {"final_answer": "12"}  # r_logic 3/4


def stored_rollout(number, reply, opinion=None):
    """A rollout as the generator stores it."""
    completion = Completion(text=json.dumps(reply))
    candidate = MATH.parse(completion, APPLES)
    answer = ReadReply(Reply(sample_index=0, outcome=Outcome.OK, completion=completion), candidate)
    return rollout_from(MATH, number, answer, RewardEvaluator().score(MATH, APPLES, candidate, opinion=opinion), [])


def group_of(*rollouts):
    return RolloutGroup(
        problem_id="p",
        problem_text=APPLES.text,
        ground_truth="12",
        rollouts=list(rollouts),
        timestamp="2026-01-01T00:00:00+00:00",
        generator_id="generator_1",
        task="math",
        format=1,
    )


async def fuse(group, *replies, opinion=None):
    evaluator = RewardEvaluator(CriticSettings().reward_weights)

    async def score(task, problem, candidate, baseline=None):
        return evaluator.score(task, problem, candidate, opinion=opinion, baseline=baseline)

    manager = SimpleNamespace(endpoint=lambda role: SimpleNamespace(model="m"))
    critic = object.__new__(Critic)  # without files
    critic.settings = CriticSettings()
    scorer = SimpleNamespace(evaluator=evaluator, score=score)
    critic.open(ScriptedClient(*replies), manager, scorer, None)
    critic._fused = critic._merged = 0
    step = Step(0, APPLES, inputs={"generator_1": group})
    drawn = DrawnExperiences((), "v")
    [answer] = answers = await critic.ask(step, drawn)
    scored = await score(MATH, APPLES, answer.candidate, answer.baseline)
    [fusion] = critic.group(step, drawn, answers, [scored]).new_records
    return fusion


async def test_inputs_count_as_they_were_stored():
    """A copy of the best input adds nothing. The stated answer that the input lacks is not made up for it."""
    wrong = stored_rollout(2, SILENT | {"causal_graph": SUM})  # 7: r_ans 0, structure 0.4 * (1/2, 1)
    best = stored_rollout(1, SILENT)
    assert (best.answer, best.answer_source, best.stated_answer) == ("12", "executed", None)
    assert best.r_total == pytest.approx(0.5 + 0.25 * 0.5 + 0.25)  # 0.875
    assert wrong.r_total == pytest.approx(0.25 * 0.2 + 0.25 * 0.4)  # 0.15
    fusion = await fuse(group_of(best, wrong, stored_rollout(3, SILENT)), json.dumps(SILENT))
    assert fusion.merged == "model"
    assert fusion.rewards.r_fusion == pytest.approx(0.5)
    assert fusion.rewards.r_total == pytest.approx((1 + 0.5 + 1 + 0.5) / 4)


async def test_inputs_without_a_majority_count_by_their_mean():
    inputs = group_of(stored_rollout(1, SILENT), stored_rollout(2, SILENT | {"causal_graph": SUM}))
    fusion = await fuse(inputs, json.dumps(SILENT))
    # best 0.875, mean of 0.875 and 0.15
    assert fusion.rewards.r_fusion == pytest.approx(0.5 + (0 + 0.875 - (0.875 + 0.15) / 2) / 4)


async def test_an_answer_that_the_inputs_lack_is_worth_what_it_adds():
    fusion = await fuse(group_of(stored_rollout(1, SILENT), stored_rollout(2, SILENT)), json.dumps(STATED))
    assert fusion.merged == "structural"  # the merged scaffold has a plan and states 12: its total is 1
    assert fusion.rewards.r_fusion == pytest.approx(0.5 + (1 - 0.875) / 2)


@pytest.mark.parametrize("of_inputs", [None, 0.0, 1.0])
@pytest.mark.parametrize("of_fusion", [None, 1.0])
async def test_the_opinions_of_a_judge_are_left_out_on_both_sides(of_inputs, of_fusion):
    wrong = stored_rollout(3, SILENT | {"causal_graph": SUM})
    inputs = group_of(stored_rollout(1, SILENT, of_inputs), stored_rollout(2, SILENT, of_inputs), wrong)
    fusion = await fuse(inputs, json.dumps(SILENT), opinion=of_fusion)
    assert fusion.rewards.r_fusion == pytest.approx(0.5)
    fusion_total, totals = _totals(fusion, inputs)
    assert (fusion_total, max(totals)) == (pytest.approx(0.875), pytest.approx(0.875))


def _totals(fusion, inputs):
    """Of the fusion and of its inputs, by the weights of the task and without ``r_fusion``."""
    totals = [measured_total(MATH, rollout.rewards, rollout.reward_detail) for rollout in inputs.rollouts]
    return measured_total(MATH, fusion.rewards, fusion.reward_detail), totals


async def test_the_lead_in_the_list_of_fusions_is_that_over_the_best_input_and_the_majority():
    inputs = group_of(
        stored_rollout(1, SILENT), stored_rollout(2, SILENT | {"causal_graph": SUM}), stored_rollout(3, STATED)
    )
    fusion = await fuse(inputs, json.dumps(STATED))
    fusion_total, totals = _totals(fusion, inputs)
    assert totals == [pytest.approx(total) for total in (0.875, 0.15, 0.9375)]
    baseline = fusion_baseline([rollout.answer for rollout in inputs.rollouts], totals, MATH.same_answer)
    lead = ((fusion_total - baseline.best) + (fusion_total - baseline.majority)) / 2
    assert lead == pytest.approx((0 + 0.9375 - (0.875 + 0.9375) / 2) / 2)
    assert summarise_fusion(Line(1, encode_line(fusion))).added == pytest.approx(lead / 2)


async def test_rollouts_of_a_file_without_rewards_are_scored_when_they_are_fused():
    bare = stored_rollout(1, STATED).model_copy(
        update={"r_ans": None, "r_logic": None, "r_graph": None, "r_total": None, "answer_source": None}
    )
    other = bare.model_copy(update={"scaffold": json.dumps(SILENT | {"causal_graph": SUM}), "answer": "7"})
    fusion = await fuse(group_of(bare, other, bare), json.dumps(STATED))
    assert fusion.rewards.r_fusion == pytest.approx(0.5)
