"""What the client of a program sends and gets: OpenAI's chat API and Responses API, whole or as a stream.

Requests of both are read as bodies of the chat API. A stream has the whole reply in one piece.

Sources: https://developers.openai.com/api/reference/resources/chat and
https://developers.openai.com/api/reference/resources/responses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.llm.transport import HTTP
from engine.records import Completion

CHAT, RESPONSES = "/chat/completions", "/responses"
_Object = dict[str, Any]


def api_of(path: str) -> str | None:
    """The API of a URL's path; None for another one, such as embeddings."""
    return next((api for api in (CHAT, RESPONSES) if path.endswith(api)), None)


def chat_body(api: str, body: Mapping[str, Any]) -> _Object:
    """The body of the chat API for one of ``api``.

    Raises:
        ValueError: says what cannot be answered.
    """
    chat = _of_responses(body) if api == RESPONSES else dict(body)
    if not isinstance(chat.get("messages"), list) or not chat["messages"]:
        raise ValueError("The request has no messages.")
    return chat


def refused(why: str) -> Any:
    """The response to a request that is not answered."""
    return HTTP.Response(400, json={"error": {"message": why, "type": "invalid_request_error"}})


def response(api: str, completions: Sequence[Completion], *, streams: bool) -> Any:
    """The response with completions, of which the Responses API takes the first."""
    body = _response(completions[0]) if api == RESPONSES else _chat(completions)
    if not streams:
        return HTTP.Response(200, json=body)
    events = _response_events(body) if api == RESPONSES else _chat_chunks(body)
    named = ((f"event: {event['type']}\n" if "type" in event else "", json.dumps(event)) for event in events)
    lines = [f"{name}data: {text}\n\n" for name, text in named]
    if api == CHAT:
        lines.append("data: [DONE]\n\n")
    return HTTP.Response(200, content="".join(lines).encode(), headers={"content-type": "text/event-stream"})


def _of_responses(body: Mapping[str, Any]) -> _Object:
    if body.get("previous_response_id") or body.get("conversation"):
        raise ValueError("No conversation is stored: pass the earlier items in input.")
    messages: list[_Object] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": body["instructions"]})
    given = body.get("input") or []
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        _add_item(messages, item)
    form, reasoning = (body.get("text") or {}).get("format") or {}, body.get("reasoning") or {}
    choice = body.get("tool_choice")
    tools = [{"type": "function", "function": _function(tool)} for tool in body.get("tools") or []]
    chat = {
        "messages": messages,
        "temperature": body.get("temperature"),
        "top_p": body.get("top_p"),
        "max_tokens": body.get("max_output_tokens"),
        "reasoning_effort": reasoning.get("effort"),
        "tools": tools or None,
        "tool_choice": {"type": "function", "function": _function(choice)}
        if isinstance(choice, dict)
        else tools and choice,
        "parallel_tool_calls": body.get("parallel_tool_calls") if tools else None,
        "response_format": _response_format(form),
        "stream": body.get("stream"),
    }
    return {name: value for name, value in chat.items() if value not in (None, [])}


def _add_item(messages: list[_Object], item: Mapping[str, Any]) -> None:
    """Append an item of the input as a message; a call goes to those of the same turn."""
    kind = item.get("type", "message")
    if kind == "message":
        role = "system" if item["role"] == "developer" else item["role"]
        content = item["content"]
        parts = [] if isinstance(content, str) else [*map(_part, content)]
        if len(parts) == 1 and parts[0]["type"] == "text":  # not all servers take a list from an assistant
            content = parts[0]["text"]
        messages.append({"role": role, "content": content if isinstance(content, str) else parts})
    elif kind == "function_call":
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": None})
        function = {"name": item["name"], "arguments": item["arguments"]}
        call = {"id": item["call_id"], "type": "function", "function": function}
        messages[-1]["tool_calls"] = [*messages[-1].get("tool_calls", ()), call]
    elif kind == "function_call_output":
        output = item["output"]
        text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": text})
    elif kind != "reasoning":
        raise ValueError(f"An item of the type {kind} cannot be sent to the model of the run.")


def _part(part: Mapping[str, Any]) -> _Object:
    if part["type"] == "input_image":
        return {"type": "image_url", "image_url": {"url": part["image_url"], "detail": part.get("detail", "auto")}}
    if part["type"] in ("input_text", "output_text"):
        return {"type": "text", "text": part["text"]}
    raise ValueError(f"A part of the type {part['type']} cannot be sent to the model of the run.")


def _function(tool: Mapping[str, Any]) -> _Object:
    if tool.get("type") != "function":
        raise ValueError(f"Tools are functions of the program; the provider's {tool.get('type')} is not available.")
    return {name: value for name, value in tool.items() if name != "type"}


def _response_format(form: Mapping[str, Any]) -> _Object | None:
    if form.get("type") == "json_schema":
        return {"type": "json_schema", "json_schema": {name: form[name] for name in form if name != "type"}}
    return {"type": "json_object"} if form.get("type") == "json_object" else None


def _tokens(completions: Sequence[Completion]) -> tuple[int, int]:
    used = [completion.usage for completion in completions]
    return sum(usage.prompt_tokens for usage in used), sum(usage.completion_tokens for usage in used)


def _chat(completions: Sequence[Completion]) -> _Object:
    choices = [
        {
            "index": number,
            "finish_reason": completion.finish_reason or "stop",
            "message": {"role": "assistant", "content": completion.text or None}
            | ({"tool_calls": completion.tool_calls} if completion.tool_calls else {}),
        }
        for number, completion in enumerate(completions)
    ]
    prompt, written = _tokens(completions)
    usage = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    about = {"id": "-", "object": "chat.completion", "created": 0, "model": completions[0].model}
    return about | {"choices": choices, "usage": usage}


def _chat_chunks(body: _Object) -> Iterator[_Object]:
    about = {name: body[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    for choice in body["choices"]:
        delta = dict(choice["message"])
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": number, **call} for number, call in enumerate(calls)]
        yield about | {"choices": [{name: choice[name] for name in ("index", "finish_reason")} | {"delta": delta}]}
    yield about | {"choices": [], "usage": body["usage"]}


def _response(completion: Completion) -> _Object:
    output: list[_Object] = []
    if completion.text:
        part = {"type": "output_text", "text": completion.text, "annotations": []}
        output.append({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]})
    for call in completion.tool_calls or ():
        named = {"call_id": call["id"], "id": call["id"], **call["function"]}
        output.append({"type": "function_call", "status": "completed", **named})
    is_cut = completion.finish_reason == "length"
    prompt, written = _tokens([completion])
    details = {"input_tokens_details": {"cached_tokens": completion.usage.cached_tokens}} | {
        "output_tokens_details": {"reasoning_tokens": completion.usage.reasoning_tokens}
    }
    return {
        "id": "-",
        "object": "response",
        "created_at": 0,
        "model": completion.model,
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": prompt, "output_tokens": written, "total_tokens": prompt + written} | details,
    }


def _response_events(body: _Object) -> Iterator[_Object]:
    events: list[_Object] = [{"type": "response.created", "response": body | {"status": "in_progress", "output": []}}]
    for number, item in enumerate(body["output"]):
        position, content = {"output_index": number, "item_id": item["id"]}, item.get("content", ())
        empty = item | ({"content": []} if content else {})
        events.append({"type": "response.output_item.added", **position, "item": empty})
        for index, part in enumerate(content):
            of_part = position | {"content_index": index}
            events += [
                {"type": "response.content_part.added", **of_part, "part": part | {"text": ""}},
                {"type": "response.output_text.delta", **of_part, "delta": part["text"], "logprobs": []},
                {"type": "response.output_text.done", **of_part, "text": part["text"], "logprobs": []},
                {"type": "response.content_part.done", **of_part, "part": part},
            ]
        events.append({"type": "response.output_item.done", **position, "item": item})
    events.append({"type": f"response.{body['status']}", "response": body})
    return (event | {"sequence_number": number} for number, event in enumerate(events))
