"""The two APIs that a program can ask, whole and as a stream, by the SDK that programs use."""

import asyncio
import json

import aiohttp
import httpx
import openai
import pytest
from pydantic import BaseModel

from engine.errors import BudgetExceededError
from engine.records import ChatRequest, Completion, Message, Outcome, Reply, Sampling, Usage
from engine.tasks.program.client import ProgramClient

ADD = {"type": "function", "name": "add", "description": "a sum", "parameters": {"type": "object"}, "strict": True}
CALLED = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,eA=="}


class Said(BaseModel):
    """A reply with a schema."""

    answer: str


class Model:
    """Calls the first tool, answers ``5``, or with an object where a form is asked for; keeps the bodies."""

    def __init__(self, finish_reason=None):
        self.bodies, self._finish_reason = [], finish_reason

    async def sample(self, request, indices):
        body = request.body
        self.bodies.append(body)
        usage = Usage(prompt_tokens=7, completion_tokens=2, cached_tokens=4, reasoning_tokens=1)
        fields = {"text": "5", "model": "m", "finish_reason": self._finish_reason, "usage": usage}
        if body.get("tools") and body["messages"][-1]["role"] != "tool":
            fields |= {"text": "", "tool_calls": [CALLED]}
        elif body.get("response_format"):
            fields["text"] = '{"answer": "5"}'
        return [Reply(sample_index=index, outcome=Outcome.OK, completion=Completion(**fields)) for index in indices]


def run(function, model=None):
    """What a program returns, as its task reads it, or why its run has failed; and the bodies of its requests."""
    model = model or Model()
    [reply] = asyncio.run(ProgramClient(model, function).sample(request_of(), [0]))
    return json.loads(reply.completion.text) if reply.completion else reply.fault.message, model.bodies


def request_of():
    """The request for a run of a program."""
    given = json.dumps({"row": {"question": "2 + 3?"}, "prompts": {"answer": "Add."}})
    sampling = Sampling(temperature=0.5, max_tokens=50, seed=1)
    return ChatRequest(role="generator", messages=(Message(role="user", content=given),), sampling=sampling)


def test_a_request_for_a_response_is_one_of_the_chat_api():
    async def asks(row, client, prompts):
        reply = await client.responses.create(
            model="x",
            instructions=prompts["answer"],
            input=[
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "input_text", "text": row["question"]}, IMAGE]},
                {"type": "reasoning", "id": "r", "summary": []},
                {"role": "assistant", "content": [{"type": "output_text", "text": "I add.", "annotations": []}]},
                {"type": "function_call", "call_id": "a", "name": "add", "arguments": "{}"},
                {"type": "function_call", "call_id": "b", "name": "add", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "5"},
                {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "6"}]},
            ],
            tools=[ADD],
            tool_choice={"type": "function", "name": "add"},
            max_output_tokens=20,
            reasoning={"effort": "low"},
            text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
            store=True,
            metadata={"a": "b"},
        )
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 2)
        assert reply.usage.input_tokens_details.cached_tokens == 4
        assert reply.usage.output_tokens_details.reasoning_tokens == 1
        return reply.output_text

    returned, [body] = run(asks)
    assert returned["answer"] == '{"answer": "5"}'
    assert returned["calls"][0]["prompt"].startswith('[{"type": "input_text", "text": "6"}]{"tool_call_id": "b"}')
    function = {name: value for name, value in ADD.items() if name != "type"}
    calls = [{"id": call_id, "type": "function", "function": {"name": "add", "arguments": "{}"}} for call_id in "ab"]
    url = {"url": IMAGE["image_url"], "detail": "auto"}
    assert body == {
        "messages": [
            {"role": "system", "content": "Add."},
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "2 + 3?"}, {"type": "image_url", "image_url": url}]},
            {"role": "assistant", "content": "I add.", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "a", "content": "5"},
            {"role": "tool", "tool_call_id": "b", "content": '[{"type": "input_text", "text": "6"}]'},
        ],
        "temperature": 0.5,
        "max_tokens": 20,
        "reasoning_effort": "low",
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
        },
    }


def test_a_loop_with_a_function_goes_on_from_the_output_of_a_response():
    async def loops(row, client, prompts):
        items = [{"role": "user", "content": row["question"]}]
        while True:
            reply = await client.responses.create(model="x", input=items, tools=[ADD])
            calls = [item for item in reply.output if item.type == "function_call"]
            if not calls:
                return reply.output_text
            items += [item.model_dump() for item in reply.output]
            items += [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": str(sum(json.loads(call.arguments).values())),
                }
                for call in calls
            ]

    returned, bodies = run(loops)
    assert returned["answer"] == "5"
    assert [message["role"] for message in bodies[-1]["messages"]] == ["user", "assistant", "tool"]
    assert bodies[-1]["messages"][1]["tool_calls"] == [CALLED]
    assert [call["reply"] for call in returned["calls"]] == [json.dumps([CALLED]), "5"]


def test_a_form_is_parsed_by_both_apis():
    async def parses(row, client, prompts):
        chat = await client.chat.completions.parse(model="x", messages=[row_message(row)], response_format=Said)
        response = await client.responses.parse(model="x", input=row["question"], text_format=Said)
        assert chat.choices[0].message.parsed == response.output_parsed
        return response.output_parsed.answer

    returned, bodies = run(parses)
    assert returned["answer"] == "5"
    assert bodies[0]["response_format"] == bodies[1]["response_format"]


def row_message(row):
    return {"role": "user", "content": row["question"]}


def test_a_stream_has_the_whole_reply():
    async def streams(row, client, prompts):
        text, calls = "", []
        async for chunk in await client.chat.completions.create(
            model="x", messages=[row_message(row)], stream=True, stream_options={"include_usage": True}
        ):
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
        assert chunk.usage.total_tokens == 9
        async with client.chat.completions.stream(
            model="x", messages=[row_message(row)], tools=[{"type": "function", "function": {"name": "add"}}]
        ) as stream:
            calls = (await stream.get_final_completion()).choices[0].message.tool_calls
        assert [call.function.arguments for call in calls] == [CALLED["function"]["arguments"]]
        async with client.responses.stream(model="x", input=row["question"]) as stream:
            deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            assert (await stream.get_final_response()).output_text == "".join(deltas)
        return text + "".join(deltas)

    returned, bodies = run(streams)
    assert returned["answer"] == "55"
    assert not any("stream" in name for body in bodies for name in body)


def test_without_async_both_apis_and_streams_work():
    def asks(row, client, prompts):
        chunks = client.chat.completions.create(model="x", messages=[row_message(row)], stream=True)
        text = "".join(chunk.choices[0].delta.content for chunk in chunks if chunk.choices)
        return text + client.responses.create(model="x", input=row["question"]).output_text

    assert run(asks)[0]["answer"] == "55"


def test_a_response_that_was_cut_off_says_so():
    async def asks(row, client, prompts):
        reply = await client.responses.create(model="x", input=row["question"])
        return f"{reply.status} {reply.incomplete_details.reason}"

    assert run(asks, Model("length"))[0]["answer"] == "incomplete max_output_tokens"


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda client: client.embeddings.create(model="x", input="a"), "chat.completions and responses only"),
        (
            lambda client: client.responses.create(model="x", input="a", previous_response_id="r"),
            "pass the earlier items",
        ),
        (lambda client: client.responses.create(model="x", input="a", tools=[{"type": "web_search"}]), "web_search"),
        (lambda client: client.responses.create(model="x", input=[{"type": "mcp_call"}]), "type mcp_call"),
        (lambda client: client.responses.create(model="x", input=[{"role": "user"}]), "cannot be read"),
        (lambda client: client.responses.create(model="x", input=[]), "no messages"),
        (lambda client: client.chat.completions.create(model="x", messages=[]), "no messages"),
    ],
)
def test_what_cannot_be_answered_is_refused(ask, why):
    failed, bodies = run(lambda row, client, prompts: ask(client))
    assert why in failed
    assert not bodies


def test_other_clients_ask_at_the_address_of_the_run_and_only_while_it_lasts():
    urls = []

    async def asks(row, client, prompts):
        urls.append(str(client.base_url))
        async with openai.AsyncOpenAI(base_url=urls[0], api_key="-", max_retries=0) as other:
            text = (await other.responses.create(model="x", input=row["question"])).output_text
            chunks = await other.chat.completions.create(model="x", messages=[row_message(row)], stream=True)
            text += "".join([chunk.choices[0].delta.content async for chunk in chunks if chunk.choices])
        async with aiohttp.ClientSession() as session:
            for path, body, status in [
                ("chat/completions", b"no json", 400),
                ("embeddings", b"{}", 400),
                ("../../other/v1/chat/completions", b"{}", 404),
            ]:
                async with session.post(urls[0] + path, data=body) as response:
                    assert (response.status, "message" in (await response.json())["error"]) == (status, True)
        return text

    returned, bodies = run(asks)
    assert returned["answer"] == "55"
    assert [call["prompt"] for call in returned["calls"]] == ["2 + 3?"] * 2
    assert bodies[0] == bodies[1]
    with pytest.raises(httpx.ConnectError):
        httpx.post(urls[0] + "chat/completions", json={})


def test_a_program_without_async_asks_at_the_address_too():
    def asks(row, client, prompts):
        with openai.OpenAI(base_url=client.base_url, api_key="-") as other:
            return other.chat.completions.create(model="x", messages=[row_message(row)]).choices[0].message.content

    assert run(asks)[0]["answer"] == "5"


def test_a_budget_that_is_used_up_ends_the_run_whoever_asked(caplog):
    class Poor(Model):
        async def sample(self, request, indices):
            raise BudgetExceededError("no tokens are left")

    async def asks(row, client, prompts):
        async with openai.AsyncOpenAI(base_url=client.base_url, api_key="-", max_retries=0) as other:
            try:
                await other.chat.completions.create(model="x", messages=[row_message(row)])
            except openai.APIError:
                return "5"

    with pytest.raises(BudgetExceededError, match="no tokens"):
        run(asks, Poor())
    assert not caplog.records


def test_runs_at_once_have_addresses_of_their_own():
    urls, met = set(), asyncio.Barrier(3)

    async def asks(row, client, prompts):
        urls.add(str(client.base_url))
        await met.wait()
        async with openai.AsyncOpenAI(base_url=client.base_url, api_key="-") as other:
            return (await other.responses.create(model="x", input=row["question"])).output_text

    async def three():
        return await ProgramClient(Model(), asks).sample(request_of(), [0, 1, 2])

    replies = asyncio.run(asyncio.wait_for(three(), 60))
    assert [json.loads(reply.completion.text)["answer"] for reply in replies] == ["5"] * 3
    assert len(urls) == 3
    assert len({url.split("/")[2] for url in urls}) == 1  # one server
