"""Bodies of requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from engine.api_manager import Endpoint
from engine.llm.quirks import CHAT_FORMAT, SYSTEM, ZERO, Format, parts_of, without_system
from engine.records import IMAGE_MARK, ChatRequest

TOKENS_PER_IMAGE = 1500
"""An estimate: servers count images by their size, in ways of their own."""

_SEEDS = 2**31 - 2**25
"""First seeds are below this, so that with the index of a sample they fit into 31 bits."""

_LONGER, _LONGEST = 4, 32_768


def with_more_tokens(request: ChatRequest) -> ChatRequest | None:
    """The request with four times its limit of tokens, at most 32,768; None if it has none, or has so many already.

    So the tokens of the replies that were cut off are at most a third of those of the last one.
    """
    limit = request.sampling.max_tokens
    if limit is None or limit >= _LONGEST:
        return None
    sampling = request.sampling.model_copy(update={"max_tokens": min(_LONGER * limit, _LONGEST)})
    return request.model_copy(update={"sampling": sampling})


def format_of(endpoint: Endpoint) -> Format:
    """The API of an endpoint."""
    if endpoint.api == "chat":
        return CHAT_FORMAT
    from engine.llm.formats import FORMATS  # most endpoints have no other API

    return FORMATS[endpoint.api]


def request_body(
    request: ChatRequest, endpoint: Endpoint, names: frozenset[str], first_index: int, count: int
) -> dict[str, Any]:
    """Build the body of a request for ``count`` samples, starting at ``first_index``, in the API of the endpoint.

    The seed is a hash of the run's seed, the messages and the images, plus ``first_index``. Servers increment it for
    each of ``n`` samples, so a sample does not depend on whether it is requested alone or together with others. With
    equal seeds for all prompts, servers draw the same random numbers for each of them, and the samples of one index are
    right or wrong together.

    Args:
        request: the chat request.
        endpoint: gives the API, the model and the extra body fields.
        names: the optional parts to send.
        first_index: index of the first sample.
        count: number of samples.
    """
    left_out = parts_of(request, count, endpoint.extra_body) - names
    api = format_of(endpoint)
    sampling, seed = request.sampling, request.sampling.seed
    if seed is not None:
        text = json.dumps([seed, *([message.role, message.content] for message in request.messages), *request.images])
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) % _SEEDS + first_index
    fields = {"model": endpoint.model, "seed": seed, "n": count if count > 1 else None}
    if request.body is not None:
        body = request.body | {name: value for name, value in fields.items() if value is not None}
        if "max_tokens" in left_out and "max_tokens" in body | endpoint.extra_body:
            body["max_completion_tokens"] = (body | endpoint.extra_body)["max_tokens"]
    else:
        body = {
            "model": endpoint.model,
            "messages": wire_messages(request, merges_system=SYSTEM in left_out),
            "temperature": None if ZERO in left_out else sampling.temperature,
            "top_p": sampling.top_p,
            "max_completion_tokens" if "max_tokens" in left_out else "max_tokens": sampling.max_tokens,
            "n": fields["n"],
            "seed": seed,
            "response_format": None if request.json_schema is None else response_format(request.json_schema),
            "logprobs": sampling.logprobs or None,
            "return_token_ids": sampling.logprobs or None,
        }
        if given_answer(request):  # the names of vLLM; 0: of the tokens of the prompt themselves only
            body |= {"add_generation_prompt": False, "continue_final_message": True, "prompt_logprobs": 0}
        body = {name: value for name, value in body.items() if value is not None}
    body = {name: value for name, value in (body | endpoint.extra_body).items() if name not in left_out}
    return api.body_of(body, left_out) if api.body_of else body


def given_answer(request: ChatRequest) -> str:
    """The answer whose log-probs are asked for: a last message of the assistant; empty if there is none."""
    last = request.messages[-1]
    return last.content if last.role == "assistant" else ""


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a chat request says of a reply that fits a JSON schema."""
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}


def wire_messages(request: ChatRequest, *, merges_system: bool = False) -> list[dict[str, Any]]:
    """The messages; the content of one with images is a list of parts, as OpenAI defines it.

    Args:
        request: the chat request.
        merges_system: put the texts of the system before that of the user.
    """
    messages = without_system(request.messages) if merges_system else request.messages
    if not request.images:
        return [{"role": message.role, "content": message.content} for message in messages]
    images = iter(request.images)
    messages_with_images = []
    for message in messages:
        first, *rest = message.content.split(IMAGE_MARK)
        parts: list[dict[str, Any]] = [{"type": "text", "text": first}]
        for text in rest:
            parts += [{"type": "image_url", "image_url": {"url": next(images)}}, {"type": "text", "text": text}]
        content = [part for part in parts if part.get("text") != ""]
        messages_with_images.append({"role": message.role, "content": content if rest else first})
    return messages_with_images


def most_prompt_tokens(request: ChatRequest) -> int:
    """Upper bound of the prompt tokens: one token per byte of UTF-8, plus 16 per message; of images an estimate."""
    text = sum(len(message.content.encode("utf-8", "replace")) + 16 for message in request.messages)
    return text + TOKENS_PER_IMAGE * len(request.images)


def least_prompt_tokens(request: ChatRequest) -> int:
    """Lower bound of the prompt tokens of texts in words: one for six characters that are no spaces."""
    return sum(len("".join(message.content.split())) for message in request.messages) // 6
