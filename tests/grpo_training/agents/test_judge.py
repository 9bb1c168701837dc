import pytest

from engine.records import Candidate, Outcome, Problem, Scaffold
from engine.tasks.registry import task_named
from grpo_training.agents.judge import Judge
from tests.support.scripted_client import ScriptedClient

PROBLEM = Problem(id="p1", text="How many apples?", answer="12")
CANDIDATE = Candidate(outcome=Outcome.OK, content=Scaffold(target_variable="apples"))


async def opinion(*replies):
    return await Judge(ScriptedClient(*replies)).opinion(task_named("math"), PROBLEM, CANDIDATE)


async def test_a_score_is_read():
    assert (await opinion('Well: {"score": 0.75, "reason": "fine"}')).score == 0.75


@pytest.mark.parametrize(
    "reply", ["no idea", '{"score": "high"}', '{"score": 7}', '{"score": true}', '{"score": 1' + "0" * 400 + "}"]
)
async def test_an_unreadable_opinion_is_absent_and_never_zero(reply):
    verdict = await opinion(reply, reply)
    assert (verdict.score, verdict.outcome) == (None, Outcome.JUDGE_FAULT)


async def test_a_failed_call_is_no_opinion_either():
    verdict = await opinion(None)
    assert (verdict.score, verdict.outcome) == (None, Outcome.INFRA_FAULT)
