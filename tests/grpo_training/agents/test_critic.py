import json

from engine.records import Problem, Sampling
from engine.reward_evaluator import RewardEvaluator
from engine.tasks.registry import task_named
from grpo_training.agents.critic import CriticAgent, FusionInput
from tests.grpo_training.agents.test_generator import SCAFFOLD
from tests.support.scripted_client import ScriptedClient

PROBLEM = Problem(id="p1", text="Three crates hold four apples each. How many apples?", answer="12")


def scored(**changes):
    task = task_named("math")
    candidate = task.candidate_from_record(dict(SCAFFOLD, **changes), changes.get("final_answer", "12"), PROBLEM)
    scored = RewardEvaluator().score(task, PROBLEM, candidate)
    return FusionInput(candidate, scored.answer, scored.answer_source)


async def fuse(client, inputs):
    agent = CriticAgent(client, Sampling(temperature=0.0))
    return await agent.fuse(task_named("math"), PROBLEM, "generator_2", inputs, [])


async def test_candidates_that_agree_are_merged_without_a_model():
    client = ScriptedClient()
    fused = await fuse(client, [scored(), scored(), scored()])
    assert fused.merged == "structural"
    assert fused.candidate.stated_answer == "12"
    assert client.asked == []


async def test_a_conflict_goes_to_the_model_and_is_named():
    other = [{"cause": ["crates", "each"], "effect": "apples", "rule": "apples = crates + each"}]
    client = ScriptedClient(json.dumps(SCAFFOLD))
    fused = await fuse(client, [scored(), scored(causal_graph=other, final_answer="7")])
    assert fused.merged == "model"
    [(request, _)] = client.asked
    text = request.messages[1].content
    assert "Proposals from generator_2" in text
    assert "crates + each" in text
    assert "conflicts:\n[begin " in text
    assert "\n- apples: apples = crates * each | apples = crates + each\n[end " in text
