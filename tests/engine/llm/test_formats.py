"""Endpoints of OpenAI's Responses API and Anthropic's Messages API, against stand-ins that keep to their documents."""

import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from engine.api_manager import ApiManager, Endpoint
from engine.errors import ConfigurationError, FatalEndpointError
from engine.llm import notices
from engine.llm.client import LLMClient
from engine.llm.formats import FORMATS
from engine.llm.journal import request_keys
from engine.llm.quirks import ADAPTIVE, parts_of
from engine.llm.replies import read_reply
from engine.llm.requests import format_of, request_body
from engine.llm.retry import RetryAction
from engine.records import IMAGE_MARK, ChatRequest, Message, Outcome, Sampling
from engine.tasks.program import program
from engine.tasks.program.client import ProgramClient
from tests.support.fault_server import chat_app, serve
from tests.support.llm_client import SECRET, SHORT_WAITS, VirtualClock, answer, ask, manager, texts
from tests.support.other_apis import RETRY_AFTER_S, THOUGHT, anthropic_app, responses_app

APPS = {"responses": responses_app, "anthropic": anthropic_app}
SYSTEM = "You add whole numbers. Reply with the sum and with nothing else. "
MESSAGES = (Message(role="system", content=SYSTEM), Message(role="user", content="2+2"))
SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer"}}}
WEATHER = {"name": "weather", "description": "of a city", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture(autouse=True)
def _nothing_was_told(monkeypatch):
    monkeypatch.setattr(notices, "_told", set())


@asynccontextmanager
async def client_of(api, app=None, journal=None, options=None, **fields):
    app = app or APPS[api](answer)
    async with serve(app) as url:
        options = {"retry": SHORT_WAITS, **(options or {})}
        async with LLMClient(manager(url, api=api, **fields), journal=journal, **options) as client:
            yield client, app["seen"]


def body_of(api, request, *, count=1, left_out=(), **fields):
    endpoint = Endpoint(role="g", api_key="EMPTY", base_url="http://x/v1", model="m", api=api, **fields)
    names = parts_of(request, count, endpoint.extra_body) - format_of(endpoint).lacks - set(left_out)
    return request_body(request, endpoint, names, 0, count)


def test_a_request_in_each_api():
    request = ChatRequest(
        role="g", messages=MESSAGES, sampling=Sampling(temperature=0.3, max_tokens=100, seed=1), json_schema=SCHEMA
    )
    assert body_of("responses", request, count=3, extra_body={"reasoning_effort": "low"}) == {
        "model": "m",
        "instructions": SYSTEM,
        "input": [{"role": "user", "content": "2+2"}],
        "max_output_tokens": 100,
        "temperature": 0.3,
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "reply", "schema": SCHEMA}},
        "store": False,
    }
    assert body_of("anthropic", request, count=3) == {
        "model": "m",
        "system": [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "2+2"}]}],
        "max_tokens": 100,
        "temperature": 0.3,
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    }


def test_thinking_is_adaptive_or_has_a_budget_and_goes_with_no_temperature():
    def sent(limit, effort, left_out=(), **extra):
        request = ChatRequest(
            role="g", messages=MESSAGES, sampling=Sampling(temperature=0.3, top_p=0.9, max_tokens=limit)
        )
        fields = {"extra_body": {"reasoning_effort": effort, "top_k": 5, **extra}}
        body = body_of("anthropic", request, left_out=left_out, **fields)
        return {name: body.get(name) for name in ("thinking", "output_config", "temperature", "top_p", "top_k")}

    off = {"thinking": None, "output_config": None, "temperature": 0.3, "top_p": 0.9, "top_k": 5}
    on = dict.fromkeys(off)
    assert sent(4000, "low") == {**on, "thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
    assert sent(4000, "minimal")["output_config"] == {"effort": "low"}
    assert sent(4000, "none") == off
    thinking = {"type": "adaptive", "display": "summarized"}
    assert sent(4000, "low", thinking=thinking)["thinking"] == thinking
    for limit, effort, budget in (
        (10_000, "low", 2000),
        (2000, "low", 1024),
        (None, "medium", 4096),
        (1025, "x", 1024),
    ):
        expected = {**on, "thinking": {"type": "enabled", "budget_tokens": budget}}
        assert sent(limit, effort, {ADAPTIVE}) == expected
    assert sent(1024, "low", {ADAPTIVE}) == off  # no room for the least budget


def test_images_and_turns_of_one_role():
    url = "data:image/png;base64,aGk="
    messages = (*MESSAGES, Message(role="user", content=f"What is this? {IMAGE_MARK}"))
    request = ChatRequest(role="g", messages=messages, images=(url,))
    assert body_of("responses", request)["input"][-1]["content"] == [
        {"type": "input_text", "text": "What is this? "},
        {"type": "input_image", "image_url": url, "detail": "auto"},
    ]
    [turn] = body_of("anthropic", request)["messages"]
    assert [block.get("text") for block in turn["content"]] == ["2+2", "What is this? ", None]
    assert turn["content"][-1]["source"] == {"type": "base64", "media_type": "image/png", "data": "aGk="}


@pytest.mark.parametrize("api", APPS)
async def test_samples_are_single_requests_and_are_replayed_from_the_journal(api, journal):
    request = ask("2+2", sampling=Sampling(temperature=0.7, max_tokens=50, seed=3))
    async with client_of(api, journal=journal) as (client, seen):
        replies = await client.sample(request, [0, 1, 2])
        assert texts(replies) == ["2+2/0", "2+2/1", "2+2/2"]
        assert len(seen) == 3
        assert not {"n", "seed", "max_completion_tokens"} & set().union(*(call.body for call in seen))
    async with client_of(api, journal=journal) as (client, seen):
        assert texts(await client.sample(request, [2, 0, 1])) == ["2+2/2", "2+2/0", "2+2/1"]
        assert seen == []
    async with client_of("chat", chat_app(answer), journal) as (client, seen):  # another API is another request
        await client.sample(request, [0, 1])
        assert [call.body["n"] for call in seen] == [2]  # what one API lacks, another one may have


def test_keys_of_chat_requests_are_those_of_earlier_versions():
    request = ChatRequest(role="g", messages=MESSAGES)
    [chat] = request_keys(request, "m", {}, [0])
    assert chat == request_keys(request, "m", {}, [0], "chat")[0]
    assert chat == "21d1fd1164cebc60cbcefa4745280f9c2da02b00a6ee7cb104b77fba0dbd83fc"
    assert len({chat, *(request_keys(request, "m", {}, [0], api)[0] for api in APPS)}) == 3


@pytest.mark.parametrize("api", APPS)
async def test_each_way_in_which_a_reply_ends(api):
    async with client_of(api, extra_body={"reasoning_effort": "low"}) as (client, _):
        [cut] = await client.sample(ask("[cut off] 2+2"), [0])
        assert (cut.completion.text, cut.completion.finish_reason) == ("[cu", "length")
        [withheld] = await client.sample(ask("[filter]"), [0])
        assert (withheld.outcome, withheld.fault.kind) == (Outcome.MODEL_FAULT, "content_filter")
        [failed] = await client.sample(ask("[failed]"), [0])
        assert (failed.outcome, failed.completion) == (Outcome.INFRA_FAULT, None)
        [refused] = await client.sample(ask("[refusal]"), [0])
        if api == "responses":
            assert refused.completion.text == "I'm sorry, I cannot help with that."
        else:
            assert refused.fault.kind == "content_filter"
        [thought] = await client.sample(ask("[reasoning] 2+2"), [0])
        assert (thought.completion.text, thought.completion.reasoning) == ("[reasoning] 2+2/0", THOUGHT)
        assert thought.completion.usage.completion_tokens == len("[reasoning] 2+2/0") + 30
        assert thought.completion.usage.reasoning_tokens == 30


@pytest.mark.parametrize("api", APPS)
async def test_an_overloaded_server_is_asked_again_after_the_time_that_it_names(api):
    time = VirtualClock()
    async with client_of(api, options={"clock": time.clock, "sleep": time.sleep}) as (client, seen):
        [reply] = await client.sample(ask("[overloaded]"), [0])
    assert reply.outcome is Outcome.OK
    assert len(seen) == 2
    assert len(time.slept) == 1
    assert RETRY_AFTER_S <= time.slept[0] <= 1.1 * RETRY_AFTER_S
    assert reply.completion.usage.attempts == 2


@pytest.mark.parametrize("api", APPS)
async def test_prompt_tokens_of_the_cache_have_their_own_price(api):
    request = ChatRequest(role="g", messages=MESSAGES)
    prices = {"price_in": 1.0, "price_out": 10.0, "price_cached": 0.1}
    async with client_of(api, **prices) as (client, _):
        usages = [(await client.sample(request, [index]))[0].completion.usage for index in (0, 1)]
    cached = len(SYSTEM) // 4
    assert [usage.prompt_tokens for usage in usages] == [11 + cached] * 2
    assert usages[1].cached_tokens == cached
    assert usages[0].cached_tokens == (0 if api == "anthropic" else cached)  # the first one writes the cache
    assert usages[1].cost_usd == pytest.approx((11 + 0.1 * cached + 10 * len("2+2/1")) / 1e6)


async def test_what_a_model_refuses_is_left_out(journal):
    request = ask("2+2", sampling=Sampling(temperature=0.7, logprobs=True), json_schema=SCHEMA)
    app = responses_app(answer, reasoning_model=True, refuses_schemas=True)
    async with client_of("responses", app, journal) as (client, seen):
        lines = []
        client.report_notices_to(lines.append)
        assert texts(await client.sample(request, [0])) == ["2+2/0"]
        assert not {"temperature", "include", "text"} & seen[-1].body.keys()
        assert [line.partition(":")[0].split()[-1] for line in lines] == ["temperature", "logprobs", "response_format"]
    async with client_of("anthropic", anthropic_app(answer), journal) as (client, seen):
        assert texts(await client.sample(request, [0])) == ["2+2/0"]
        assert ["output_config" in call.body for call in seen] == [True, False]  # as this schema is open


async def test_a_model_without_adaptive_thinking_gets_a_budget_and_is_remembered(journal):
    fields = {"extra_body": {"reasoning_effort": "high"}}
    request = ask("2+2", sampling=Sampling(temperature=0.7, max_tokens=4000))
    async with client_of("anthropic", anthropic_app(answer, thinks_by_budget=True), journal, **fields) as (
        client,
        seen,
    ):
        [reply] = await client.sample(request, [0])
        assert reply.completion.reasoning == THOUGHT
        await client.sample(request, [1])
    budget = {"type": "enabled", "budget_tokens": 3200}
    assert [call.body["thinking"] for call in seen] == [{"type": "adaptive"}, budget, budget]


async def test_errors_about_effort_change_nothing_in_other_apis():
    def refuse(body):
        return (
            (400, {"error": {"message": "reasoning effort is not supported"}}) if "reasoning_effort" in body else None
        )

    app, extra = chat_app(answer, refuse=refuse), {"reasoning_effort": "low"}
    async with client_of("chat", app, extra_body=extra) as (client, seen):
        with pytest.raises(FatalEndpointError, match="refused the request"):
            await client.sample(ask("2+2"), [0])
    assert len(seen) <= 2  # it, and a neutral request


async def test_log_probs_of_the_responses_api():
    request = ask("2+2", sampling=Sampling(logprobs=True))
    async with client_of("responses") as (client, _):
        [reply] = await client.sample(request, [0])
    assert reply.completion.logprobs == [-0.5]


@pytest.mark.parametrize("api", APPS)
async def test_log_probs_of_a_given_answer_are_refused_with_their_error(api):
    request = ChatRequest(role="g", messages=(*MESSAGES, Message(role="assistant", content="4")))
    async with client_of(api) as (client, _):
        with pytest.raises(FatalEndpointError, match="no log-probs of a given answer"):
            await client.sample(request, [0])


@program(prompts=["answer"])
async def asks_a_tool(row, client, prompts):
    """Two requests: the model calls a tool, and gets its result."""
    tools, system = [{"type": "function", "function": WEATHER}], {"role": "system", "content": "Be brief."}
    messages = [system, {"role": "user", "content": "[tool] weather?"}]
    first = await client.chat.completions.create(
        model="-", messages=messages, tools=tools, tool_choice="required", stop="END"
    )
    assert first.choices[0].finish_reason == "tool_calls"
    [call] = first.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Bern"}
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
        {"role": "tool", "tool_call_id": call.id, "content": f"sunny in {json.loads(call.function.arguments)['city']}"},
    ]
    last = await client.chat.completions.create(model="-", messages=messages, tools=tools, max_tokens=64)
    return last.choices[0].message.content


@pytest.mark.parametrize("api", APPS)
async def test_a_program_that_calls_a_tool_is_translated(api):
    content = json.dumps({"row": {}, "prompts": {"answer": ""}})
    async with client_of(api) as (client, seen):
        [reply] = await ProgramClient(client, asks_a_tool).sample(ask(content), [0])
    assert json.loads(reply.completion.text)["answer"] == "sunny in Bern/0"
    first, last = seen[-2].body, seen[-1].body
    if api == "responses":
        assert first["tools"] == [{"type": "function", "strict": False, **WEATHER}]
        assert first["tool_choice"] == "required"
        assert [item.get("type") for item in last["input"]] == [None, "function_call", "function_call_output"]
        assert last["max_output_tokens"] == 64
    else:
        schema = {"input_schema": WEATHER["parameters"]}
        assert first["tools"] == [{"name": "weather", "description": "of a city", **schema}]
        assert (first["tool_choice"], first["stop_sequences"]) == ({"type": "any"}, ["END"])
        blocks = [block["type"] for turn in last["messages"] for block in turn["content"]]
        assert blocks == ["text", "tool_use", "tool_result"]


@pytest.mark.parametrize("api", APPS)
def test_replies_of_another_shape_are_no_replies(api):
    as_chat = FORMATS[api].as_chat
    name = "output" if api == "responses" else "content"
    for payload in ({}, {name: None}, {name: "text"}, {"choices": [{"message": {"content": "x"}}]}, {"usage": 3}):
        decision = read_reply(json.dumps(payload).encode(), 1, as_chat=as_chat)
        assert (decision.action, decision.code) == (RetryAction.RETRY, "wrong_schema"), payload
    for items in ([3, None, {"type": "message"}], [{"type": "message", "content": [3, {"text": 5}]}]):
        payload = {name: items, "usage": {}, "stop_reason": "end_turn"}
        decision = read_reply(json.dumps(payload).encode(), 1, as_chat=as_chat)
        assert decision.code == "empty_reply", items
    unfinished = {name: [{"type": "message", "text": "4", "content": [{"type": "output_text", "text": "4"}]}]}
    unfinished |= {"status": "in_progress", "stop_reason": None}
    assert read_reply(json.dumps(unfinished).encode(), 1, as_chat=as_chat).code == "unfinished"


@pytest.mark.parametrize("api", APPS)
async def test_a_refused_key_and_a_server_without_the_api_are_named(api):
    async with client_of(api, APPS[api](answer, api_key="another")) as (client, _):
        with pytest.raises(FatalEndpointError, match="refused the API key") as caught:
            await client.sample(ask("2+2"), [0])
    assert SECRET not in str(caught.value)
    async with client_of(api, chat_app(answer)) as (client, _):
        with pytest.raises(FatalEndpointError) as caught:
            await client.sample(ask("2+2"), [0])
    assert f'{FORMATS[api].path}, as "api" is "{api}"' in caught.value.fix


@pytest.mark.parametrize("api", APPS)
async def test_a_redirect_to_another_server_does_not_get_the_key(api):
    other = APPS[api](answer)

    async with serve(other) as url:

        async def redirect(request):
            return web.Response(status=307, headers={"Location": url.replace("127.0.0.1", "localhost") + path})

        path, app = FORMATS[api].path, web.Application()
        app.router.add_post(f"/v1{path}", redirect)
        async with serve(app) as first, LLMClient(manager(first, api=api), retry=SHORT_WAITS) as client:
            if api == "anthropic":
                with pytest.raises(FatalEndpointError, match="give that address as base_url"):
                    await client.sample(ask("2+2"), [0])
            else:
                assert texts(await client.sample(ask("2+2"), [0])) == ["2+2/0"]
    assert SECRET not in str([request.headers for request in other["seen"]])


def test_an_unknown_api_and_a_whole_address_are_refused():
    entry = {"api_key": "EMPTY", "model": "m"}
    with pytest.raises(ConfigurationError) as caught:
        ApiManager("f.json", {"g": {**entry, "base_url": "http://x/v1", "api": "messages"}}).endpoint("g")
    assert "'chat', 'responses' or 'anthropic'" in caught.value.why
    with pytest.raises(ConfigurationError) as caught:
        ApiManager("f.json", {"g": {**entry, "base_url": "http://x/v1/messages", "api": "anthropic"}}).endpoint("g")
    assert "leave that out" in caught.value.why
