import json

from agents.analyst import Attempt, ExperienceAnalyst
from engine.records import Experience, Outcome, Problem
from tests.support.scripted_client import ScriptedClient

PROBLEM = Problem(id="p1", text="How many apples?", answer="12")
ATTEMPTS = [Attempt("{scaffold}", "12", True, 0.9), Attempt("no idea", None, False, 0.1, "no_json")]


def analyst(client):
    return ExperienceAnalyst(client, "analyst", "generator", seed=0)


async def test_operations_come_out_as_proposed():
    reply = {
        "operations": [
            {"op": "add", "content": "Check units.", "category": "units"},
            {"op": "delete", "id": "G1-002"},
        ]
    }
    client = ScriptedClient(json.dumps(reply))
    proposal = await analyst(client).propose(PROBLEM, ATTEMPTS, [Experience(id="G1-002", content="Old lesson.")])
    assert [(item.op, item.id, item.content) for item in proposal.operations] == [
        ("add", None, "Check units."),
        ("delete", "G1-002", None),
    ]
    [(request, _)] = client.asked
    text = request.messages[1].content
    for seen in (
        "How many apples?",
        "Right answer: 12",
        "- [G1-002] Old lesson.",
        "{scaffold}",
        "reward 0.900",
        "(no_json)",
    ):
        assert seen in text
    assert request.sampling.temperature == 0
    assert request.json_schema["title"] == "operations"


async def test_what_makes_no_sense_is_kept_for_the_library_to_refuse():
    client = ScriptedClient('{"operations": ["learn!", {"op": "merge"}, {"op": "add", "content": "Third."}]}')
    proposal = await analyst(client).propose(PROBLEM, ATTEMPTS, [])
    assert [item.op for item in proposal.operations] == ["malformed", "merge", "surplus"]


async def test_an_unreadable_reply_is_asked_for_once_more():
    client = ScriptedClient("I think units matter.", '{"operations": []}')
    proposal = await analyst(client).propose(PROBLEM, ATTEMPTS, [])
    assert proposal.outcome is Outcome.OK
    second, _ = client.asked[1]
    assert second.messages[-2].content == "I think units matter."
    assert len(client.asked) == 2


async def test_two_unreadable_replies_end_it_without_a_lesson():
    client = ScriptedClient("units!", "units, I said")
    proposal = await analyst(client).propose(PROBLEM, ATTEMPTS, [])
    assert (proposal.outcome, proposal.operations) == (Outcome.MODEL_FAULT, [])


async def test_a_failed_call_leaves_the_lesson_open():
    for replies in ([None], ["units!", None]):
        proposal = await analyst(ScriptedClient(*replies)).propose(PROBLEM, ATTEMPTS, [])
        assert proposal.outcome is Outcome.INFRA_FAULT
        assert proposal.fault.kind == "http_503"
