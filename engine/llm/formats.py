"""The APIs beside the chat API: path, headers, body of a request, and a reply as a chat completion.

Requests are made as bodies of the chat API, and replies are read as chat completions. Other APIs are translated in
these two places only. A field that the chat API does not have, such as one of ``extra_body``, is sent unchanged.

Sources: https://developers.openai.com/api/docs/guides/migrate-to-responses and
https://platform.claude.com/docs/en/api/messages.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from engine.llm.quirks import ADAPTIVE, Format
from engine.llm.replies import object_in

_MAX_TOKENS = 8192
"""Anthropic requires a limit of tokens. A request without one gets this one, which all models since Claude 3.5 take."""
_LEAST_BUDGET = 1024
_SHARES, _LARGEST_SHARE = {"low": 0.2, "medium": 0.5}, 0.8
"""The budget for thinking, as a part of the limit; a model that takes budgets takes at least 1024 tokens and less than
the limit. Source: https://openrouter.ai/docs/use-cases/reasoning-tokens."""
_OF_GIVEN_ANSWER = frozenset({"add_generation_prompt", "continue_final_message", "prompt_logprobs"})
"""Fields of vLLM's chat API. A reply without them is reported as one that has no log-probs of a given answer."""
_STOP_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "refusal": "content_filter"}
"""Source: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons. Others are synonyms of
:mod:`engine.llm.quirks`."""


def _responses_body(chat: dict[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    """A body of OpenAI's Responses API. The provider does not store the reply.

    Functions are strict there unless they say otherwise; in the chat API it is the other way round.

    Source: https://developers.openai.com/api/reference/resources/responses/methods/create.
    """
    sent = _without(chat, _OF_GIVEN_ANSWER)
    instructions, messages = _system_apart(sent)
    items: list[dict[str, Any]] = []
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            call_id = message.get("tool_call_id")
            items.append({"type": "function_call_output", "call_id": call_id, "output": _text(content)})
        elif role == "assistant":
            items += [{"role": role, "content": _text(content)}] if _text(content) else []
            items += [
                {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
                for call_id, name, arguments in _calls(message)
            ]
        else:
            parts = [_input_part(part) for part in _parts(content)]
            items.append({"role": role, "content": content if isinstance(content, str) else parts})
    form, choice = sent.pop("response_format", None), sent.pop("tool_choice", None)
    text = {"type": form.get("type"), **object_in(form, "json_schema")} if isinstance(form, Mapping) else None
    if named := object_in(choice, "function"):
        choice = {"type": "function", **named}
    return _filled(
        {
            "input": items,
            "instructions": instructions,
            "max_output_tokens": _limit(sent),
            "tools": [
                {"type": "function", "strict": False, **object_in(tool, "function")} if "function" in tool else tool
                for tool in _mappings(sent.pop("tools", None))
            ],
            "tool_choice": choice,
            "reasoning": _merged(sent, "reasoning", effort=sent.pop("reasoning_effort", None)),
            "text": _merged(sent, "text", format=text),
            "include": ["message.output_text.logprobs"] if sent.pop("logprobs", None) else None,
            "store": False,
        },
        sent,
    )


def _responses_reply(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply of OpenAI's Responses API as a chat completion.

    Source: https://developers.openai.com/api/reference/resources/responses/methods/create (the response object).
    """
    parts, thoughts, calls = list[Mapping[str, Any]](), list[Mapping[str, Any]](), list[dict[str, Any]]()
    for item in _mappings(reply.get("output")):
        content = _mappings(item.get("content"))
        if item.get("type") == "message":
            parts += content
        elif item.get("type") == "reasoning":  # OpenAI sends a summary, servers of open models the whole of it
            thoughts += [*_mappings(item.get("summary")), *content]
        elif item.get("type") == "function_call":
            calls.append(_call(item.get("call_id"), item.get("name"), item.get("arguments")))
    status = reply.get("status", "completed")
    finish = "tool_calls" if calls else "stop"
    if status == "incomplete":
        finish = object_in(reply, "incomplete_details").get("reason") or status
    elif status != "completed":
        finish = f"unfinished: {status}"
    logprobs = [token for part in parts for token in _mappings(part.get("logprobs"))]
    message = _message(_joined(parts, "text"), _joined(thoughts, "text", "\n\n"), calls)
    usage = object_in(reply, "usage")
    return _completion(
        reply,
        "output",
        {"message": message | {"refusal": _joined(parts, "refusal")}, "finish_reason": finish}
        | {"logprobs": {"content": logprobs} if logprobs else None},
        {
            "prompt_tokens": usage.get("input_tokens"),
            "completion_tokens": usage.get("output_tokens"),
            "prompt_tokens_details": usage.get("input_tokens_details"),
            "completion_tokens_details": usage.get("output_tokens_details"),
        },
    )


def _anthropic_body(chat: dict[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    """A body of Anthropic's Messages API.

    The prompt is cached to the end of the texts of the system. A reasoning effort turns thinking on, which goes with no
    sampling parameter. Models that refuse adaptive thinking get a budget instead, if the limit of tokens leaves room.

    Sources: https://platform.claude.com/docs/en/api/messages, and below
    https://platform.claude.com/docs/en/build-with-claude the pages adaptive-thinking, extended-thinking, prompt-caching
    and structured-outputs.
    """
    sent = _without(chat, _OF_GIVEN_ANSWER)
    system, messages = _system_apart(sent)
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.get("role") == "assistant" else "user"
        if message.get("role") == "tool":
            result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
            blocks: list[Any] = [result | {"content": _text(message.get("content"))}]
        else:
            blocks = [_block(part) for part in _parts(message.get("content"))]
            blocks += [
                {"type": "tool_use", "id": call_id, "name": name, "input": _arguments(arguments)}
                for call_id, name, arguments in _calls(message)
            ]
        if turns and turns[-1]["role"] == role:  # turns alternate
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    limit, form, stop = _limit(sent) or _MAX_TOKENS, sent.pop("response_format", None), sent.pop("stop", None)
    effort, thinking = sent.pop("reasoning_effort", None), dict[str, Any]()
    effort = {"none": None, "minimal": "low"}.get(str(effort), effort)
    if effort and ADAPTIVE not in left_out:
        thinking = {"type": "adaptive"}
    elif effort and isinstance(limit, int) and limit > _LEAST_BUDGET:
        budget = max(_LEAST_BUDGET, int(limit * _SHARES.get(str(effort), _LARGEST_SHARE)))
        thinking = {"type": "enabled", "budget_tokens": budget}
    thinking = _merged(sent, "thinking", **thinking)
    if thinking.get("type", "disabled") != "disabled":
        sent = _without(sent, ("temperature", "top_p", "top_k"))
    schema = object_in(form, "json_schema").get("schema") if isinstance(form, Mapping) else None
    tools = [_tool(tool) for tool in _mappings(sent.pop("tools", None))]
    return _filled(
        {
            "max_tokens": limit,
            "system": [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}] if system else None,
            "messages": turns,
            "stop_sequences": [stop] if isinstance(stop, str) else stop,
            "thinking": thinking,
            "output_config": _merged(
                sent,
                "output_config",
                effort=effort if ADAPTIVE not in left_out else None,
                format={"type": "json_schema", "schema": schema} if schema else None,
            ),
            "tools": tools,
            "tool_choice": _tool_choice(sent) if tools else None,
        },
        sent,
    )


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool as Anthropic defines it; one of another type is sent unchanged."""
    function = dict(object_in(tool, "function"))
    if not function:
        return tool
    return {"input_schema": function.pop("parameters", None) or {"type": "object"}, **function}


def _tool_choice(sent: dict[str, Any]) -> dict[str, Any]:
    """Takes the choice of tools out of a body and returns it as Anthropic defines it."""
    choice, is_parallel = sent.pop("tool_choice", None) or "auto", sent.pop("parallel_tool_calls", True)
    if not isinstance(choice, Mapping):
        choice = {"type": {"required": "any"}.get(str(choice), choice)}
    elif function := object_in(choice, "function"):
        choice = {"type": "tool", **function}
    is_free = is_parallel or choice.get("type") == "none"
    return dict(choice) if is_free else {**choice, "disable_parallel_tool_use": True}


def _anthropic_reply(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply of Anthropic's Messages API as a chat completion.

    ``input_tokens`` are those that were neither read from the cache nor written to it.

    Source: https://platform.claude.com/docs/en/api/messages.
    """
    blocks = _mappings(reply.get("content"))
    calls = [
        _call(block.get("id"), block.get("name"), json.dumps(block.get("input") or {}, ensure_ascii=False))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    usage, stop = object_in(reply, "usage"), reply.get("stop_reason")
    details = object_in(usage, "output_tokens_details")
    read, written, new = (
        count if type(count := usage.get(name)) is int else 0
        for name in ("cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens")
    )
    message = _message(_joined(blocks, "text"), _joined(blocks, "thinking"), calls)
    return _completion(
        reply,
        "content",
        {"message": message, "finish_reason": _STOP_REASONS.get(stop, stop) if isinstance(stop, str) else stop},
        {
            "prompt_tokens": read + written + new,
            "completion_tokens": usage.get("output_tokens"),
            "prompt_tokens_details": {"cached_tokens": read},
            "completion_tokens_details": {"reasoning_tokens": details.get("thinking_tokens")},
        },
    )


FORMATS = {
    "responses": Format(
        "/responses", _responses_body, _responses_reply, lacks=frozenset({"n", "seed", "return_token_ids"})
    ),
    "anthropic": Format(
        "/messages",
        _anthropic_body,
        _anthropic_reply,
        lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
        frozenset({"n", "seed", "logprobs", "return_token_ids"}),
    ),
}
"""By the value of ``api`` in the API configuration."""


def _completion(reply: Mapping[str, Any], name: str, choice: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    """A chat completion with one choice, or with none if the reply has no list of this name."""
    choices = [choice | {"index": 0}] if isinstance(reply.get(name), list) else []
    return {"model": reply.get("model"), "error": reply.get("error"), "choices": choices, "usage": usage}


def _message(text: str, reasoning: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    return {"content": text or None, "reasoning": reasoning or None, "tool_calls": calls or None}


def _call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """A call of a function in a chat completion."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """The id, the name and the arguments of each call in a message of a chat body."""
    for call in _mappings(message.get("tool_calls")):
        function = object_in(call, "function")
        yield call.get("id"), function.get("name"), function.get("arguments")


def _arguments(text: Any) -> dict[str, Any]:
    """The arguments of a call as an object. What a model wrote may be none."""
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        value = json.loads(text)
        if isinstance(value, dict):
            return value
    return {"arguments": text}


def _system_apart(sent: dict[str, Any]) -> tuple[str, list[Mapping[str, Any]]]:
    """Takes the messages out of a body: the texts of the system together, and the others in their order."""
    messages = _mappings(sent.pop("messages", None))
    is_system = [message.get("role") in ("system", "developer") for message in messages]
    texts = [_text(message.get("content")) for message, is_it in zip(messages, is_system, strict=True) if is_it]
    return "\n\n".join(texts), [message for message, is_it in zip(messages, is_system, strict=True) if not is_it]


def _parts(content: Any) -> list[Mapping[str, Any]]:
    """The parts of a message's content, without empty texts, which providers refuse."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else _mappings(content)
    return [part for part in parts if part.get("type") != "text" or part.get("text")]


def _text(content: Any) -> str:
    """The text of a message's content."""
    return _joined(_parts(content), "text")


def _image_url(part: Mapping[str, Any]) -> Any:
    return object_in(part, "image_url").get("url") or part.get("image_url")


def _input_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a user's message in the Responses API."""
    if part.get("type") == "image_url":
        detail = object_in(part, "image_url").get("detail", "auto")  # the specification requires it
        return {"type": "input_image", "image_url": _image_url(part), "detail": detail}
    return {"type": "input_text", "text": part.get("text")} if part.get("type") == "text" else part


def _block(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a message as Anthropic's content block."""
    if part.get("type") != "image_url":
        return part
    url = str(_image_url(part))
    head, _, data = url.partition(";base64,")
    if not url.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {"type": "image", "source": {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}}


def _limit(sent: dict[str, Any]) -> Any:
    """Takes the limit of tokens, which has two names, out of a body."""
    named = [sent.pop(name, None) for name in ("max_tokens", "max_completion_tokens")]
    return next((limit for limit in named if limit is not None), None)


def _merged(sent: dict[str, Any], name: str, **fields: Any) -> dict[str, Any]:
    """An object of a body with these fields. What the body says of it itself goes before them."""
    existing = object_in(sent, name)
    sent.pop(name, None)
    return _filled(fields, existing)


def _filled(fields: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value, and the others."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})} | dict(others)


def _without(body: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in names}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _joined(parts: list[Mapping[str, Any]], name: str, between: str = "") -> str:
    """The texts that parts have under this name."""
    return between.join(text for part in parts if isinstance(text := part.get(name), str))
