"""Stand-ins for servers of OpenAI's Responses API and of Anthropic's Messages API, as their providers document them.

What a request asks for stands in its last text: ``[reasoning]``, ``[cut off]``, ``[refusal]``, ``[filter]``,
``[failed]``, ``[overloaded]`` (the first attempt is refused, the next one is answered) and ``[tool]`` (a call of the
first tool, until its result is in the request). Each app lists the requests that it has answered or refused in
``app["seen"]``, as :class:`SeenRequest`.

Sources: https://developers.openai.com/api/reference/resources/responses/methods/create,
https://platform.claude.com/docs/en/api/messages, https://platform.claude.com/docs/en/api/errors.
"""

import functools
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter, ValidationError

RETRY_AFTER_S = 0.3
THOUGHT = "Two and two are four."
_ANTHROPIC_FIELDS = frozenset(
    "model messages max_tokens system metadata stop_sequences stream temperature top_k top_p thinking tools "
    "tool_choice service_tier output_config container cache_control inference_geo".split()
)
_TURN_BLOCKS = {"user": {"text", "image", "tool_result"}, "assistant": {"text", "tool_use", "thinking"}}
_LEAST_CACHED = 40
"""Characters of a system prompt from which it is cached; a token has four."""


@dataclass
class SeenRequest:
    """A received request."""

    body: dict
    headers: dict


class Refused(Exception):
    """A request that is refused, with a status, a message and the field that is wrong."""

    def __init__(self, status: int, message: str, param: str | None = None, kind: str = "invalid_request_error"):
        super().__init__(message)
        self.status, self.message, self.param, self.kind = status, message, param, kind


def _app(path, respond, error_body):
    overloaded: set[str] = set()
    seen: list[SeenRequest] = []

    async def handle(request: web.Request) -> web.Response:
        body = await request.json()
        seen.append(SeenRequest(body, {name.lower(): value for name, value in request.headers.items()}))
        text = json.dumps(body)
        try:
            if "[overloaded]" in text and text not in overloaded:
                overloaded.add(text)
                raise Refused(529 if path == "/v1/messages" else 503, "Overloaded", kind="overloaded_error")
            return web.json_response(respond(body, seen[-1].headers))
        except Refused as error:
            headers = {"Retry-After": str(RETRY_AFTER_S)} if error.status > 500 else {}
            return web.json_response(error_body(error), status=error.status, headers=headers)

    app = web.Application(client_max_size=1 << 26)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", web.NotAppKeyWarning)
        app["seen"] = seen
    app.router.add_post(path, handle)
    return app


@functools.cache  # it takes a fifth of a second to make
def _request_fields() -> TypeAdapter:
    return TypeAdapter(ResponseCreateParamsNonStreaming)


def responses_app(
    answer: Callable[[dict, int], str],
    *,
    reasoning_model: bool = False,
    refuses_schemas: bool = False,
    api_key: str | None = None,
) -> web.Application:
    """OpenAI's Responses API: ``/v1/responses``.

    Args:
        answer: the text, of the request as a chat body and the number of the sample.
        reasoning_model: refuses a temperature and log-probs.
        refuses_schemas: refuses JSON schemas.
        api_key: the only accepted key.
    """
    fields = _request_fields()
    names = ResponseCreateParamsNonStreaming.__annotations__.keys() | {
        name for base in ResponseCreateParamsNonStreaming.__orig_bases__ for name in base.__annotations__
    }

    def respond(body, headers):
        if api_key is not None and headers.get("authorization") != f"Bearer {api_key}":
            raise Refused(401, "Incorrect API key provided: sk-***")
        for name in body.keys() - names:
            raise Refused(400, f"Unknown parameter: '{name}'.", name)
        try:
            fields.validate_python(body)
        except ValidationError as error:
            raise Refused(400, f"Invalid input: {error.errors()[0]['loc']}", "input") from None
        if reasoning_model and "temperature" in body:
            message = "Unsupported parameter: 'temperature' is not supported with this model."
            raise Refused(400, message, "temperature")
        if reasoning_model and "include" in body:
            raise Refused(400, "logprobs are not supported with reasoning models.", "include")
        if refuses_schemas and "text" in body:
            raise Refused(400, "Invalid parameter: 'text.format' of type 'json_schema' is not supported.", "text")
        return _response(body, _chat_of_responses(body), int(headers.get("x-sample-index", 0)))

    def _response(body, chat, index):
        prompt, output, status = chat["messages"][-1]["content"], [], {"status": "completed"}
        cached = len(body.get("instructions") or "") // 4
        usage = {
            "input_tokens": 11 + cached,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        }
        text, thought = answer(chat, index), 0
        if "[reasoning]" in prompt:
            thought = 30
            summary = [{"type": "summary_text", "text": THOUGHT}]
            output.append({"id": "rs_1", "type": "reasoning", "summary": summary})
        if "[tool]" in prompt and chat["messages"][-1]["role"] != "tool":
            name = body["tools"][0]["name"]
            call = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": name, "status": "completed"}
            output.append({**call, "arguments": '{"city": "Bern"}'})
        elif "[filter]" in prompt:
            status = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
        elif "[failed]" in prompt:
            status = {"status": "failed", "error": {"code": "server_error", "message": "The model failed."}}
        else:
            content_part = {"type": "output_text", "text": text, "annotations": []}
            if "include" in body:
                content_part["logprobs"] = [{"token": text, "bytes": [], "logprob": -0.5, "top_logprobs": []}]
            if "[refusal]" in prompt:
                content_part = {"type": "refusal", "refusal": "I'm sorry, I cannot help with that."}
            if "[cut off]" in prompt:
                content_part["text"] = text[:3]
                status = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
            role = {"id": "msg_1", "type": "message", "role": "assistant", "status": status["status"]}
            output.append({**role, "content": [content_part]})
        usage |= {"output_tokens": len(text) + thought, "output_tokens_details": {"reasoning_tokens": thought}}
        usage["total_tokens"] = usage["input_tokens"] + usage["output_tokens"]
        common = {"id": "resp_1", "object": "response", "created_at": 1.0, "model": body["model"], "error": None}
        echoed = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "incomplete_details": None}
        reply = {**common, **echoed, "output": output, "usage": usage, **status}
        Response.model_validate(reply)
        return reply

    def error_body(error):
        return {"error": {"message": error.message, "type": error.kind, "param": error.param, "code": None}}

    return _app("/v1/responses", respond, error_body)


def _chat_of_responses(body):
    """The request as a chat body, with what an answer depends on."""
    messages = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    for item in body["input"]:
        if item.get("type") == "function_call_output":
            messages.append({"role": "tool", "content": item["output"]})
        elif item.get("type") != "function_call":
            content = item["content"]
            texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
            messages.append({"role": item["role"], "content": "".join(texts)})
    return {**body, "messages": messages}


def anthropic_app(
    answer: Callable[[dict, int], str],
    *,
    thinks_by_budget: bool = False,
    api_key: str | None = None,
) -> web.Application:
    """Anthropic's Messages API: ``/v1/messages``.

    Args:
        answer: the text, of the request as a chat body and the number of the sample.
        thinks_by_budget: whether it is a model before Claude 4.6, which takes no adaptive thinking.
        api_key: the only accepted key.
    """
    cache: set[str] = set()

    def respond(body, headers):
        if headers.get("anthropic-version") != "2023-06-01":
            raise Refused(400, "anthropic-version: header is required")
        if "authorization" in headers or "x-api-key" not in headers:
            raise Refused(401, "invalid bearer token", kind="authentication_error")
        if api_key is not None and headers["x-api-key"] != api_key:
            raise Refused(401, "invalid x-api-key", kind="authentication_error")
        _check(body)
        chat = _chat_of_anthropic(body)
        prompt, text = chat["messages"][-1]["content"], answer(chat, int(headers.get("x-sample-index", 0)))
        content, stop, thought = [], "end_turn", 0
        if "thinking" in body:
            content.append({"type": "thinking", "thinking": THOUGHT, "signature": "c2ln"})
            thought = 30
        if "[tool]" in prompt and chat["messages"][-1]["role"] != "tool":
            name, stop = body["tools"][0]["name"], "tool_use"
            content.append({"type": "tool_use", "id": "toolu_1", "name": name, "input": {"city": "Bern"}})
        elif "[refusal]" in prompt or "[filter]" in prompt:
            stop = "refusal"
        elif "[failed]" in prompt:
            return {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}}
        else:
            if "[cut off]" in prompt:
                text, stop = text[:3], "max_tokens"
            content.append({"type": "text", "text": text})
        system = body.get("system", [])
        prefix = json.dumps(system)
        is_cached = bool(system) and "cache_control" in system[-1] and len(system[-1]["text"]) >= _LEAST_CACHED
        tokens = len(system[-1]["text"]) // 4 if system else 0
        read, new = (tokens, 0) if is_cached and prefix in cache else (0, tokens)
        cache.add(prefix)
        usage = {"input_tokens": 11 + (0 if is_cached else tokens), "output_tokens": len(text) + thought}
        usage |= {"output_tokens_details": {"thinking_tokens": thought}}
        usage |= {"cache_read_input_tokens": read, "cache_creation_input_tokens": new if is_cached else 0}
        common = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"]}
        return {**common, "content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}

    def _check(body):
        for name in sorted(body.keys() - _ANTHROPIC_FIELDS):
            raise Refused(400, f"{name}: Extra inputs are not permitted")
        if type(body.get("max_tokens")) is not int:
            raise Refused(400, "max_tokens: Field required")
        roles = [turn["role"] for turn in body["messages"]]
        if roles != (["user", "assistant"] * len(roles))[: len(roles)]:
            raise Refused(400, "messages: roles must alternate between user and assistant, beginning with user")
        calls: set[str] = set()
        for turn in body["messages"]:
            results = {block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"}
            if results != calls:
                raise Refused(400, "messages: each tool_use block must have a tool_result block in the next message")
            calls = {block["id"] for block in turn["content"] if block["type"] == "tool_use"}
            for block in turn["content"]:
                if block["type"] not in _TURN_BLOCKS[turn["role"]] or block.get("text") == "":
                    raise Refused(400, f"messages: unexpected or empty block {block['type']}")
                if block["type"] == "tool_use" and not isinstance(block["input"], dict):
                    raise Refused(400, "messages: tool_use.input: Input should be a valid dictionary")
        thinking = body.get("thinking", {})
        if thinking and thinks_by_budget:
            if thinking["type"] == "adaptive" or "effort" in body.get("output_config", {}):
                raise Refused(400, "adaptive thinking is not supported on this model")
            if not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
                raise Refused(400, "max_tokens must be greater than thinking.budget_tokens")
        if thinking and not thinks_by_budget and thinking["type"] == "enabled":
            raise Refused(400, '"thinking.type.enabled" is not supported for this model.')
        if thinking and body.get("temperature", 1) != 1:
            raise Refused(400, "`temperature` may only be set to 1 when thinking is enabled.")
        form = body.get("output_config", {}).get("format")
        if form and form["schema"].get("additionalProperties") is not False:
            why = "For 'object' type, 'additionalProperties' must be explicitly set to false"
            raise Refused(400, f"output_config.format.schema: {why}")
        for tool in body.get("tools", []):
            if tool.keys() != {"name", "description", "input_schema"}:
                raise Refused(400, "tools.0: Extra inputs are not permitted")

    def error_body(error):
        return {"type": "error", "error": {"type": error.kind, "message": error.message}, "request_id": "req_1"}

    return _app("/v1/messages", respond, error_body)


def _chat_of_anthropic(body):
    """The request as a chat body, with what an answer depends on."""
    texts = [block["text"] for block in body.get("system", [])]
    messages = [{"role": "system", "content": "".join(texts)}] if texts else []
    for turn in body["messages"]:
        results = [block["content"] for block in turn["content"] if block["type"] == "tool_result"]
        texts = [block["text"] for block in turn["content"] if block["type"] == "text"]
        messages.append({"role": "tool" if results else turn["role"], "content": "".join(results or texts)})
    return {**body, "messages": messages}
