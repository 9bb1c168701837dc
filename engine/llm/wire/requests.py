"""Bodies of chat-completions requests, and what an endpoint is known to support of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.api_manager import Endpoint
from engine.llm.retry import OPTIONAL_PARAMETERS
from engine.records import IMAGE_MARK, ChatRequest, Message

TOKENS_PER_IMAGE = 1500
"""An estimate: servers count images by their size, in ways of their own."""

_SEEDS = 2**31 - 2**25
"""First seeds are below this, so that with the index of a sample they fit into 31 bits."""

CHAT = "chat"
"""The name in ``Capabilities.proven`` of a request without optional parameters."""


@dataclass(frozen=True)
class Capabilities:
    """Which parameters an endpoint supports, as far as known.

    Args:
        proven: ``chat`` and the optional parameters of requests that the endpoint answered.
        dropped: optional parameters that it refused or ignored; they are not sent again.
    """

    proven: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Capabilities:
        """Read what ``facts()`` wrote; unknown names and other values are ignored."""

        def names(kind: str) -> frozenset[str]:
            found = facts.get(kind)
            return frozenset(one for one in found if isinstance(one, str)) if isinstance(found, list) else frozenset()

        return cls(names("proven") & (OPTIONAL_PARAMETERS | {CHAT}), names("dropped") & OPTIONAL_PARAMETERS)

    def facts(self) -> dict[str, list[str]]:
        """Return the capabilities as a JSON object."""
        return {"proven": sorted(self.proven), "dropped": sorted(self.dropped)}

    def with_proven(self, names: Iterable[str]) -> Capabilities:
        """Return a copy in which these parameters are proven."""
        return Capabilities(self.proven | set(names), self.dropped)

    def without(self, name: str) -> Capabilities:
        """Return a copy in which this parameter is dropped."""
        return Capabilities(self.proven - {name}, self.dropped | {name})


def optional_names(request: ChatRequest, count: int, capabilities: Capabilities) -> frozenset[str]:
    """The optional parameters to send in a request for ``count`` samples."""
    sampling = request.sampling
    wanted = {
        "n": count > 1,
        "response_format": request.json_schema is not None,
        "seed": sampling.seed is not None,
        "logprobs": sampling.logprobs,
        "return_token_ids": sampling.logprobs,
        "max_tokens": sampling.max_tokens is not None,
    }
    return frozenset(name for name, is_wanted in wanted.items() if is_wanted) - capabilities.dropped


def request_body(
    request: ChatRequest, endpoint: Endpoint, names: frozenset[str], first_index: int, count: int
) -> dict[str, Any]:
    """Build the body of a request for ``count`` samples, starting at ``first_index``.

    The seed is a hash of the run's seed and the messages, plus ``first_index``. Servers increment it for each of ``n``
    samples, so a sample does not depend on whether it is requested alone or together with others. With equal seeds for
    all prompts, servers draw the same random numbers for each of them, and the samples of one index are right or wrong
    together.

    Args:
        request: the chat request.
        endpoint: gives the model and the extra body fields.
        names: the optional parameters to send, from :func:`optional_names`.
        first_index: index of the first sample.
        count: number of samples.
    """
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": wire_messages(request),
    }
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.max_tokens is not None:
        body["max_tokens" if "max_tokens" in names else "max_completion_tokens"] = sampling.max_tokens
    if "n" in names:
        body["n"] = count
    if "seed" in names and sampling.seed is not None:
        body["seed"] = _first_seed(sampling.seed, request.messages) + first_index
    if "response_format" in names:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": request.json_schema},
        }
    if "logprobs" in names:
        body["logprobs"] = True
    if "return_token_ids" in names:
        body["return_token_ids"] = True
    body.update(endpoint.extra_body)
    return body


def _first_seed(seed: int, messages: Sequence[Message]) -> int:
    """The seed of sample 0 of a prompt."""
    text = json.dumps([seed, *([one.role, one.content] for one in messages)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) % _SEEDS


def wire_messages(request: ChatRequest) -> list[dict[str, Any]]:
    """The messages; the content of one with images is a list of parts, as OpenAI defines it."""
    if not request.images:
        return [{"role": message.role, "content": message.content} for message in request.messages]
    images = iter(request.images)
    found = []
    for message in request.messages:
        first, *rest = message.content.split(IMAGE_MARK)
        parts: list[dict[str, Any]] = [{"type": "text", "text": first}]
        for text in rest:
            parts += [{"type": "image_url", "image_url": {"url": next(images)}}, {"type": "text", "text": text}]
        content = [part for part in parts if part.get("text") != ""]
        found.append({"role": message.role, "content": content if rest else first})
    return found


def estimate_prompt_tokens(request: ChatRequest) -> int:
    """Estimate the prompt tokens, on the high side: one token per three bytes of UTF-8, plus 8 per message."""
    text = sum(len(message.content.encode()) // 3 + 8 for message in request.messages)
    return text + TOKENS_PER_IMAGE * len(request.images)


def most_prompt_tokens(request: ChatRequest) -> int:
    """Upper bound of the prompt tokens: one token per byte of UTF-8, plus 16 per message; of images an estimate."""
    text = sum(len(message.content.encode("utf-8", "replace")) + 16 for message in request.messages)
    return text + TOKENS_PER_IMAGE * len(request.images)
