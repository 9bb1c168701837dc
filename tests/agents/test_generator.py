import json

from agents.generator import GeneratorAgent
from engine.records import Experience, Outcome, Problem, Sampling
from engine.tasks.task import task_named
from tests.agents.scripted_client import ScriptedClient

PROBLEM = Problem(id="p1", text="Three crates hold four apples each. How many apples?", answer="12")
SCAFFOLD = {
    "target_variable": "apples",
    "knowns": {"crates": 3, "each": 4},
    "causal_graph": [{"cause": ["crates", "each"], "effect": "apples", "rule": "apples = crates * each"}],
    "computation_plan": [{"id": "s1", "target": "apples", "inputs": ["crates", "each"], "description": "multiply"}],
    "final_answer": "12",
}


async def answers(client, count=1):
    agent = GeneratorAgent(client, "generator_1", Sampling(temperature=0.3, seed=0))
    return await agent.answer(
        task_named("math"), PROBLEM, [Experience(id="G1-001", content="Count twice.")], range(count)
    )


async def test_candidates_come_back_in_sample_order():
    wrong = dict(SCAFFOLD, knowns={"crates": 3, "each": 5}, final_answer="15")
    client = ScriptedClient(json.dumps(SCAFFOLD), json.dumps(wrong))
    first, second = await answers(client, 2)
    assert (first.read.answer, second.read.answer) == ("12", "15")
    assert first.read.answer_source == "executed"
    request, _ = client.asked[0]
    assert "Count twice." in request.messages[1].content
    assert request.role == "generator_1"


async def test_a_reply_without_json_is_re_asked_once():
    [answer] = await answers(ScriptedClient("twelve apples, I would say", json.dumps(SCAFFOLD)))
    assert answer.re_asked
    assert answer.read.outcome is Outcome.OK


async def test_an_unreadable_reply_twice_is_the_models_own_fault():
    [answer] = await answers(ScriptedClient("The final answer is 12.", "It is 12."))
    assert answer.read.outcome is Outcome.MODEL_FAULT
    assert answer.read.answer == "12"  # of the first reply, which stands


async def test_a_cut_off_reply_is_not_asked_for_again():
    client = ScriptedClient(json.dumps(SCAFFOLD)[:80])
    [answer] = await answers(client)
    assert answer.read.fault.kind == "cut_off"
    assert len(client.asked) == 1


async def test_a_failed_call_has_no_candidate():
    [answer] = await answers(ScriptedClient(None))
    assert answer.read is None
    assert answer.reply.outcome is Outcome.INFRA_FAULT
