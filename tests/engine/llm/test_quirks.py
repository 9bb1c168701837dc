"""What servers refuse, in their words, and what is sent instead."""

import asyncio
import json
import time
from contextlib import closing

import pytest

from engine.api_manager import Endpoint
from engine.errors import FatalEndpointError
from engine.llm import notices
from engine.llm.client import LLMClient
from engine.llm.connection import EndpointConnection
from engine.llm.journal import ResponseJournal
from engine.llm.limits import ConcurrencyRule
from engine.llm.quirks import OPTIONAL, SYSTEM, ZERO, refused_part
from engine.records import ChatRequest, Message, Outcome, Sampling
from tests.support.fault_server import chat_app, serve
from tests.support.llm_client import SHORT_WAITS, answer, ask, client_of, manager, texts
from tests.support.table import table

ALL = frozenset(OPTIONAL) - {ZERO}
EXTRA = {"presence_penalty": 0.5, "frequency_penalty": 0.5, "stop": ["END"]}
REFUSED = ("temperature", "top_p", "seed", "max_tokens", "n", "response_format", "logprobs", "return_token_ids", *EXTRA)
REQUEST = ChatRequest(
    role="g",
    messages=(Message(role="system", content="be brief"), Message(role="user", content="q")),
    sampling=Sampling(temperature=0.7, top_p=0.9, max_tokens=50, seed=3, logprobs=True),
    json_schema={"type": "object"},
)


@table(
    ("part", "text"),
    [
        (
            "temperature",
            "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value",
        ),
        ("temperature", "temperature参数不支持"),
        ("temperature", "`temperature` is deprecated for this model."),
        ("top_p", "top_p is not supported with this model"),
        ("top_p", "Argument not supported on this model: top p"),
        ("presence_penalty", "This model does not support parameter presencePenalty: presence_penalty"),
        ("stop", "Unsupported parameter: 'stop' is not supported with this model."),
        ("stop", "stop sequences are not available"),
        ("seed", "Extra inputs are not permitted: seed"),
        ("max_tokens", "Unsupported parameter: 'max_tokens' is not supported with this model."),
        ("response_format", "Grammar compilation failed"),
        (SYSTEM, "System role not supported"),
        (SYSTEM, "This model does not support system messages"),
        (SYSTEM, "Developer instruction is not enabled for models/m"),
        ("temperature", "Sampling parameters cannot be set for this model"),
        ("temperature", "Only the default value is supported."),
        (None, "max_tokens is too large: 100000"),
        (None, "Please stop, the queue is full"),
        (None, "out of memory"),
    ],
)
def test_the_refused_part_is_the_one_that_an_error_names(part, text):
    assert refused_part(text, None, ALL) == part


def test_a_refused_temperature_of_zero_does_not_take_the_temperature_of_others():
    text = "`temperature` has to be a strictly positive float"
    assert refused_part(text, "temperature", {ZERO, "temperature"}) == ZERO
    assert refused_part("'temperature' is not supported", "temperature", {ZERO, "temperature"}) == "temperature"


@pytest.mark.parametrize("names", [REFUSED, *[(name,) for name in REFUSED]], ids=lambda names: "+".join(names[:2]))
async def test_each_part_can_be_refused_and_all_of_them(names, journal):
    app, lines = chat_app(answer, rejects=names), []
    async with client_of(app, journal, {"extra_body": EXTRA}) as client:
        client.report_notices_to(lines.append)
        assert texts(await client.sample(REQUEST, [0, 1, 2])) == ["q/0", "q/1", "q/2"]
        await client.sample(REQUEST.model_copy(update={"role": "twin"}), [3])
        first = len(app["seen"])
        assert texts(await client.sample(REQUEST, [4])) == ["q/4"]
    assert len(app["seen"]) == first + 1  # what was refused once is not sent again
    assert not set(names) & app["seen"][-1].body.keys()
    assert len(lines) == len([name for name in names if OPTIONAL[name].instead])


@pytest.mark.parametrize("status", [400, 422, 500])
@pytest.mark.parametrize(
    ("words", "is_refused"),
    [
        ("'temperature' does not support 0.7. Only the default (1) value is supported", lambda b: "temperature" in b),
        ("System role not supported", lambda b: any(m["role"] == "system" for m in b["messages"])),
        ("Grammar compilation failed", lambda b: "response_format" in b),
    ],
)
async def test_a_refused_part_is_left_out_in_the_next_start_too(status, words, is_refused, tmp_path):
    app = chat_app(answer, refuse=lambda body: (status, {"error": {"message": words}}) if is_refused(body) else None)
    async with serve(app) as url:
        for start in range(2):
            journal = ResponseJournal(tmp_path / "journal.sqlite")
            async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS) as client:
                [reply] = await client.sample(REQUEST, [start])
                assert reply.outcome is Outcome.OK
                assert client.counters.requests_sent == 2 - start
            journal.close()


async def test_the_text_of_a_refused_system_message_is_put_before_that_of_the_user(journal):
    def refuse(body):
        has_system = any(message["role"] == "system" for message in body["messages"])
        return (400, {"error": "System role not supported"}) if has_system else None

    app = chat_app(answer, refuse=refuse)
    async with client_of(app, journal) as client:
        await client.sample(REQUEST, [0])
    assert app["seen"][-1].body["messages"] == [{"role": "user", "content": "be brief\n\nq"}]


async def test_a_500_without_a_reason_for_each_json_schema_ends_the_schemas(journal):
    app = chat_app(
        answer, refuse=lambda body: (500, {"error": "Internal Server Error"}) if "response_format" in body else None
    )
    async with client_of(app, journal) as client:
        await client.sample(ask("plain"), [0])
        assert texts(await client.sample(REQUEST, [0])) == ["q/0"]
        assert client.counters.requests_sent == 4


WORDINGS = [
    (400, {"error": {"message": "Invalid prompt: your prompt was flagged", "code": "invalid_prompt"}}),
    (400, {"error": {"message": "We would rather not say anything about this."}}),
    (400, {"error": {"message": "内容不安全", "code": "1301"}}),
    (403, {"error": {"message": "Your input does not comply with our terms"}}),
    (403, "Sorry, you have been blocked"),
    (422, {"detail": "not acceptable"}),
    (500, {"error": "the input length exceeds the context length"}),
    (500, {"error": "Internal Server Error"}),
    (200, {"choices": [{"index": 0, "finish_reason": "content_filter: PROHIBITED_CONTENT"}], "usage": {}}),
    (200, {"choices": [], "usage": {"prompt_tokens": 9}}),
    (200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
    (200, {"error": {"code": 403, "message": "flagged"}}),
]


@pytest.mark.parametrize(("status", "body"), WORDINGS)
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_request_that_alone_is_refused_stays_open_whatever_the_words(status, body, is_first, journal):
    def refuse(asked):
        return (status, body) if "forbidden" in json.dumps(asked) else None

    async with client_of(chat_app(answer, refuse=refuse), journal) as client:
        if not is_first or status in (200, 500):  # the first request of all needs a refusal to be about its content
            assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
        [reply] = await client.sample(ask("forbidden"), [0])
        assert (reply.outcome, reply.fault.is_alone) == (Outcome.INFRA_FAULT, True)
        assert texts(await client.sample(ask("p"), [0])) == ["p/0"]


@pytest.mark.parametrize(("status", "body"), [wording for wording in WORDINGS if wording[0] not in (200, 500)])
@pytest.mark.parametrize("answered", [True, False])
async def test_what_hits_every_request_stops_the_run_with_the_words_of_the_server(status, body, answered, journal):
    refuses = [not answered]
    app = chat_app(answer, refuse=lambda asked: (status, body) if refuses[0] else None)
    async with client_of(app, journal) as client:
        if answered:
            await client.sample(ask("q"), [0])
            refuses[0] = True
        words = body if isinstance(body, str) else str(body.get("detail") or body["error"]["message"])
        with pytest.raises(FatalEndpointError, match=words[:12]):
            await client.sample(ask("p"), [0])


@pytest.mark.parametrize(
    ("status", "message", "blames_key"),
    [
        (401, "Incorrect API key provided: sk-ab***yz", True),
        (401, "Unauthorized", True),
        (403, "Invalid token", True),
        (401, "This account is suspended until tomorrow", False),
        (403, "Country, region, or territory not supported", False),
        (403, "Your organization must be verified to use this model", False),
        (403, "Project p does not have access to model m", False),
    ],
)
async def test_the_key_is_blamed_only_where_the_server_does(status, message, blames_key):
    app = chat_app(answer, refuse=lambda body: (status, {"error": {"message": message}}))
    async with client_of(app) as client:
        with pytest.raises(FatalEndpointError) as caught:
            await client.sample(ask("q"), [0])
    assert ("refused the API key" in caught.value.what) == blames_key
    assert message.split(":")[0] in caught.value.why
    assert "sk-ab" not in str(caught.value)


@pytest.mark.parametrize(("read", "words", "lines"), [(2050, 9000, 1), (9000, 9000, 0), (11, 9000, 0), (100, 120, 0)])
async def test_a_prompt_that_a_server_cuts_is_told_once(read, words, lines, journal, monkeypatch):
    monkeypatch.setattr(notices, "_told", set())
    reports = []
    async with client_of(chat_app(lambda body, index: "a", prompt_tokens=lambda body: read), journal) as client:
        client.report_notices_to(reports.append)
        for number in range(3):
            await client.sample(ask(f"{number}" + " letters" * words), [0])
    assert len(reports) == lines
    assert all("num_ctx" in line for line in reports)


async def test_blank_replies_are_told_with_what_came_in_place_of_a_text(journal):
    lines = []

    def fields(body, index):
        return {"message": {"role": "assistant", "content": None, "reasoning_content": "The answer is 4."}}

    async with client_of(chat_app(lambda body, index: "x" * 20, reply_fields=fields), journal) as client:
        client.report_notices_to(lines.append)
        for number in range(6):
            await client.sample(ask(f"q{number}"), [0])
    assert "finish_reason stop, 20 tokens, its 16 characters are in the reasoning field" in lines[0]


@pytest.mark.parametrize("stored", [None, 3, "n", {"n": 1}, [["n"], None], ["n", "flying"]])
async def test_what_a_journal_stores_of_an_endpoint_is_read_without_other_names(tmp_path, stored):
    with closing(ResponseJournal(tmp_path / "j.sqlite")) as journal:
        journal.remember_capabilities("http://a/v1", "m", {"dropped": stored})
        endpoint = Endpoint(role="g", api_key="EMPTY", base_url="http://a/v1", model="m", never_send=("seed",))
        connection = EndpointConnection(endpoint, ConcurrencyRule(), journal, time.monotonic, asyncio.sleep)
        assert connection.dropped == ({"n", "seed"} if stored == ["n", "flying"] else {"seed"})
        await connection.transport.close()
