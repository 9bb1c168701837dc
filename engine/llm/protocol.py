"""The chat-completions protocol on the wire: a request becomes a body, a body becomes completions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.api_manager import Endpoint
from engine.llm.retry import OPTIONAL_PARAMETERS, RequestContext, RetryAction, RetryDecision, classify_status
from engine.records import ChatRequest, Completion, Usage

CHAT = "chat"
"""The name of the plain request among what an endpoint has shown that it can do."""


@dataclass(frozen=True)
class Capabilities:
    """What an endpoint has shown.

    Args:
        proven: ``chat`` and the optional parameters that stood in a request which it answered.
        dropped: optional parameters that it refused or ignored; they are not sent again.
    """

    proven: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Capabilities:
        """Read what ``facts()`` wrote; names of other versions are left out."""
        known = OPTIONAL_PARAMETERS | {CHAT}
        return cls(
            frozenset(facts.get("proven", ())) & known,
            frozenset(facts.get("dropped", ())) & OPTIONAL_PARAMETERS,
        )

    def facts(self) -> dict[str, list[str]]:
        """As a JSON object."""
        return {"proven": sorted(self.proven), "dropped": sorted(self.dropped)}

    def with_proven(self, names: Iterable[str]) -> Capabilities:
        """These names stood in a request that was answered."""
        return Capabilities(self.proven | set(names), self.dropped)

    def without(self, name: str) -> Capabilities:
        """This parameter is not to be sent again."""
        return Capabilities(self.proven - {name}, self.dropped | {name})


def optional_names(request: ChatRequest, count: int, capabilities: Capabilities) -> frozenset[str]:
    """The optional parameters that a request for ``count`` samples sends to such an endpoint."""
    sampling = request.sampling
    wanted = set()
    if count > 1:
        wanted.add("n")
    if request.json_schema is not None:
        wanted.add("response_format")
    if sampling.seed is not None:
        wanted.add("seed")
    if sampling.logprobs:
        wanted |= {"logprobs", "return_token_ids"}
    if sampling.max_tokens is not None:
        wanted.add("max_tokens")
    return frozenset(wanted - capabilities.dropped)


def request_body(
    request: ChatRequest, endpoint: Endpoint, names: frozenset[str], first_index: int, count: int
) -> dict[str, Any]:
    """The body that asks for ``count`` samples from ``first_index`` on.

    The seed is ``seed + first_index``; servers that draw ``n`` samples count it up from there, so that a
    sample is the same whether it was asked for alone or among others.

    Args:
        names: the optional parameters to send, from :func:`optional_names`.
    """
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
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
        body["seed"] = sampling.seed + first_index
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


# ------------------------------------------------------------------ the reply


class BadReplyError(Exception):
    """A reply of status 200 that is no reply.

    Args:
        decision: what to do about it.
        prompt_tokens: what it says to have taken; it may be paid for all the same.
        completion_tokens: likewise.
    """

    def __init__(self, decision: RetryDecision, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        super().__init__(decision.message)
        self.decision = decision
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens


@dataclass(frozen=True)
class Choice:
    """One sample as it came."""

    text: str
    reasoning: str | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None

    @property
    def size(self) -> int:
        """How long it is, at least 1: in tokens where they came, else in characters."""
        return max(1, len(self.token_ids) if self.token_ids else len(self.text) + len(self.reasoning or ""))


@dataclass(frozen=True)
class ChatResponse:
    """What one request brought: its choices in order (None: not readable), and the tokens of all."""

    choices: tuple[Choice | None, ...]
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


def read_reply(content: bytes) -> ChatResponse:
    """Read the body of a reply of status 200.

    Raises:
        BadReplyError: it is cut off, of another shape, empty at no cost, or an error in disguise.
    """
    try:
        payload = json.loads(content)
    except (ValueError, RecursionError):
        raise _bad("cut_off", f"the body is no JSON ({len(content)} bytes)") from None
    if not isinstance(payload, dict):
        raise _bad("wrong_schema", "the body is no JSON object")
    if isinstance(payload.get("error"), dict):  # some gateways report a failure behind a status of 200
        code = payload["error"].get("code")
        status = code if isinstance(code, int) and code in (408, 429, *range(500, 600)) else 502
        raise BadReplyError(classify_status(status, {}, payload, RequestContext()))
    usage = payload.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    prompt_tokens, completion_tokens = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    raw = payload.get("choices")
    if not isinstance(raw, list) or not raw:
        raise _bad("wrong_schema", "the body has no choices", prompt_tokens, completion_tokens)
    choices = [_read_choice(choice) for choice in _in_order(raw)]
    if not any(choices):
        raise _bad("wrong_schema", "no choice has a message", prompt_tokens, completion_tokens)
    if completion_tokens == 0:
        choices = [None if choice is None or _is_nothing(choice) else choice for choice in choices]
        if not any(choices):
            raise _bad("empty_reply", "no text and no tokens", prompt_tokens, 0)
    details = usage.get("prompt_tokens_details")
    cached = _count(details, "cached_tokens") if isinstance(details, dict) else 0
    model = payload.get("model")
    return ChatResponse(
        tuple(choices),
        clean(model) if isinstance(model, str) else "",
        prompt_tokens,
        completion_tokens,
        cached or _count(usage, "prompt_cache_hit_tokens"),
    )


def completions(
    response: ChatResponse, endpoint: Endpoint, keys: list[str], attempts: int, latency_s: float, wasted: Usage
) -> list[Completion | None]:
    """One completion for each key whose choice came; their usages sum to what was spent.

    Prompt tokens stand on the first that came. Completion tokens are divided by length, since the protocol
    gives their sum only.

    Args:
        keys: the journal's keys of the samples that these choices are.
        attempts: sends that it took.
        wasted: what failed attempts before this one reported to have spent.
    """
    choices = (*response.choices[: len(keys)], *[None] * (len(keys) - len(response.choices)))
    shares = split_by_size(response.completion_tokens, [choice.size if choice else 0 for choice in choices])
    result: list[Completion | None] = []
    for key, choice, tokens in zip(keys, choices, shares, strict=True):
        if choice is None:
            result.append(None)
            continue
        first = not any(result)
        prompt = response.prompt_tokens + wasted.prompt_tokens if first else 0
        spent = tokens + wasted.completion_tokens if first else tokens
        result.append(
            Completion(
                text=choice.text,
                reasoning=choice.reasoning,
                finish_reason=choice.finish_reason,
                usage=Usage(
                    prompt_tokens=prompt,
                    completion_tokens=spent,
                    cached_tokens=response.cached_tokens if first else 0,
                    attempts=attempts,
                    cost_usd=endpoint.cost_usd(prompt, spent),
                ),
                model=response.model or endpoint.model,
                latency_s=latency_s,
                request_key=key,
                token_ids=choice.token_ids,
                logprobs=choice.logprobs,
                ids_source="server" if choice.token_ids is not None else None,
            )
        )
    return result


def split_by_size(total: int, sizes: list[int]) -> list[int]:
    """Divide ``total`` in proportion to ``sizes`` (not all 0) into whole parts that sum to it."""
    whole = sum(sizes)
    parts, before, seen = [], 0, 0
    for size in sizes:
        seen += size
        until = total * seen // whole
        parts.append(until - before)
        before = until
    return parts


def estimate_prompt_tokens(request: ChatRequest) -> int:
    """An upper guess: a token for three bytes of UTF-8, and a few for each message's frame."""
    return sum(len(message.content.encode()) // 3 + 8 for message in request.messages)


def most_prompt_tokens(request: ChatRequest) -> int:
    """A bound: no tokenizer gives a text more tokens than it has bytes; a few more for each message's frame."""
    return sum(len(message.content.encode("utf-8", "replace")) + 16 for message in request.messages)


def clean(text: str) -> str:
    """The text with halves of surrogate pairs replaced: no file and no record could hold them."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def _bad(code: str, message: str, prompt_tokens: int = 0, completion_tokens: int = 0) -> BadReplyError:
    return BadReplyError(RetryDecision(RetryAction.TRANSIENT, code, message), prompt_tokens, completion_tokens)


def _in_order(raw: list[Any]) -> list[Any]:
    """By ``index`` where the indices are those of a list; some servers number every choice 0."""
    indices = [choice.get("index") if isinstance(choice, dict) else None for choice in raw]
    if sorted(index for index in indices if isinstance(index, int)) != list(range(len(raw))):
        return raw
    return [raw[indices.index(position)] for position in range(len(raw))]


def _read_choice(raw: Any) -> Choice | None:
    message = raw.get("message") if isinstance(raw, dict) else None
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    if isinstance(content, list):  # parts
        content = "".join(
            part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    if content is None:
        content = message.get("refusal") or ""
    if not isinstance(content, str):
        return None
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    finish = raw.get("finish_reason")
    token_ids = raw.get("token_ids")
    if not isinstance(token_ids, list) or not all(type(token) is int for token in token_ids):
        token_ids = None
    logprobs = _logprobs(raw.get("logprobs"))
    if token_ids is not None and logprobs is not None and len(token_ids) != len(logprobs):
        logprobs = None  # they do not belong together, and ids are the surer of the two
    return Choice(
        clean(content),
        clean(reasoning) if isinstance(reasoning, str) else None,
        clean(finish) if isinstance(finish, str) else None,
        token_ids,
        logprobs,
    )


def _logprobs(raw: Any) -> list[float] | None:
    tokens = raw.get("content") if isinstance(raw, dict) else None
    if not isinstance(tokens, list) or not tokens:
        return None
    values = [token.get("logprob") if isinstance(token, dict) else None for token in tokens]
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
        return None
    return [float(value) for value in values if value is not None]


def _is_nothing(choice: Choice) -> bool:
    return not choice.text and not choice.reasoning and choice.finish_reason != "content_filter"


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and value > 0 else 0
