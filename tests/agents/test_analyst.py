import json
from dataclasses import replace

import pytest

from agents.analyst import Attempt, ExperienceAnalyst
from engine.experience.events import Refusal
from engine.records import Experience, Operation, Outcome, Problem
from tests.support.scripted_client import ScriptedClient

PROBLEM = Problem(id="p1", text="How many apples?", answer="12")
ATTEMPTS = [Attempt("{scaffold}", "12", True, 0.9), Attempt("no idea", None, False, 0.1, "no_json")]


def analyst(client):
    return ExperienceAnalyst(client, "analyst", "generator", seed=0)


async def test_what_a_reply_adds_is_read_also_where_it_calls_it_a_change():
    reply = {
        "operations": [
            {"op": "add", "content": "Check units.", "category": "units"},
            {"op": "modify", "id": "G1-002", "content": "Check all units."},
        ]
    }
    client = ScriptedClient(json.dumps(reply))
    proposal = await analyst(client).propose(PROBLEM, ATTEMPTS, [Experience(id="G1-002", content="Old lesson.")])
    assert [(item.op, item.content) for item in proposal.operations] == [
        ("add", "Check units."),
        ("add", "Check all units."),
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
    client = ScriptedClient(
        '{"operations": ["learn!", {"op": "delete", "id": "G1-001", "content": "Old."}, {"op": ""}]}'
    )
    proposal = await replace(analyst(client), max_operations=3, tasks=None).propose(PROBLEM, ATTEMPTS, [])
    assert [item.op for item in proposal.operations] == ["malformed", "delete", ""]
    client = ScriptedClient('{"operations": [{"op": "merge"}, {}, {"op": "add", "content": "Third."}]}')
    proposal = await analyst(client).propose(PROBLEM, ATTEMPTS, [])
    assert [item.op for item in proposal.operations] == ["merge", "missing", "surplus"]


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ('{"operations": [{"op": "add", "content": "one\ntwo"}]}', [("add", "one two")]),
        ('{"operations": [{"op": "add", "content": "one\\ntwo"}]}', [("add", "one two")]),
        ('[{"op": "add", "content": "x"}, {"op": "delete", "id": "G1-001"}]', [("add", "x"), ("delete", None)]),
        ('Here it is:\n```json\n{"type": "add", "content": "x"}\n```', [("add", "x")]),
    ],
)
async def test_a_line_break_a_bare_list_and_a_bare_operation_are_read(reply, found):
    client = ScriptedClient(reply)
    proposal = await analyst(client).propose(PROBLEM, ATTEMPTS, [])
    assert [(item.op, item.content) for item in proposal.operations] == found
    assert len(client.asked) == 1


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


LONG = "Read every word " * 20
TWO = {"operations": [{"op": "add", "content": "Check units."}, {"op": "add", "content": LONG, "category": "reading"}]}


def refusal(content=LONG):
    operation = Operation(op="add", content=content, category="reading")
    return Refusal(operation=operation, reason="too_many_words", message="60 words; at most 32 are allowed.")


async def amended(*replies):
    client = ScriptedClient(json.dumps(TWO), *replies)
    one = analyst(client)
    proposal = await one.propose(PROBLEM, ATTEMPTS, [])
    return await one.amend(proposal, [refusal()]), client


async def test_refused_operations_are_replaced_by_those_of_a_second_reply():
    proposal, client = await amended('{"operations": [{"op": "add", "content": "Read twice.", "category": "reading"}]}')
    assert [item.content for item in proposal.operations] == ["Check units.", "Read twice."]
    (first, _), (second, _) = client.asked
    assert second.messages[:-2] == first.messages
    assert json.loads(second.messages[-2].content) == TWO
    assert f'- add: "{LONG}": 60 words; at most 32 are allowed.' in second.messages[-1].content
    assert "Check units." not in second.messages[-1].content
    assert (second.purpose, second.json_schema, second.sampling) == (first.purpose, first.json_schema, first.sampling)


async def test_a_second_reply_without_operations_changes_nothing():
    for reply in ('{"operations": []}', "I would rather not."):
        proposal, _ = await amended(reply)
        assert [item.content for item in proposal.operations] == ["Check units.", LONG]


async def test_a_second_reply_replaces_no_more_than_was_refused():
    proposal, _ = await amended('{"operations": [{"op": "add", "content": "A b."}, {"op": "add", "content": "C d."}]}')
    assert [item.content for item in proposal.operations] == ["Check units.", "A b."]


async def test_a_second_request_that_fails_leaves_the_step_open():
    proposal, _ = await amended(None)
    assert proposal.outcome is Outcome.INFRA_FAULT


async def test_nothing_refused_is_not_asked_again():
    client = ScriptedClient(json.dumps(TWO))
    proposal = await analyst(client).propose(PROBLEM, ATTEMPTS, [])
    assert await analyst(client).amend(proposal, []) is proposal
    assert len(client.asked) == 1
