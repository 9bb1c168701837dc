"""Bodies of replies as chat completions: read tolerantly, and refused where they cannot be used."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from engine.api_manager import Endpoint
from engine.llm.budget import Spent
from engine.llm.quirks import FILTERED, read_finish_reason
from engine.llm.retry import RetryAction, RetryDecision, finish_failure, reported_error
from engine.records import Completion, Usage

_MOST_CHARACTERS = 1 << 21
"""A longer choice is an error of the server; several of them would not fit into a line of a cache."""

_MOST_OF_A_NAME = 1000
"""Characters of the model's name and of a finish reason that are kept."""

_MOST_TOKENS = 1 << 40
_LARGEST_LOGPROB, _ROUNDING = 1e9, 1e-3
_MOST_TOKEN_IDS = 1 << 31
"""Larger numbers in a reply are not counted and not kept: they do not fit into the database of the limits."""


@dataclass(frozen=True)
class ChatResponse:
    """One reply: its choices in order (None: unreadable), still without usage, and the tokens of all together."""

    choices: tuple[Completion | None, ...]
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int


def read_reply(
    content: bytes,
    count: int | None = None,
    *,
    only_finished: bool = False,
    optional: Collection[str] = (),
    given: str = "",
    as_chat: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> ChatResponse | RetryDecision:
    """Parse the body of a reply with status 200.

    Args:
        content: the body.
        count: how many samples were asked for; None: as many as the reply has.
        only_finished: choices without a finish reason are cut off; they are left out.
        optional: names of the optional parts of the request.
        given: the answer at the end of the prompt, whose log-probs are asked for; it is then the text of the reply.
        as_chat: makes a chat completion of a reply of another API.

    Returns:
        the reply; or what to do about one that is truncated, has another schema, has no text and no tokens, reports an
        error, or of which no choice is finished.
    """
    try:
        payload = json.loads(content)
    except (ValueError, RecursionError):
        return _not_json(content)
    if not isinstance(payload, dict):
        return _retry("wrong_schema", "the body is not a JSON object")
    payload = as_chat(payload) if as_chat else payload
    usage = object_in(payload, "usage")
    prompt_tokens, completion_tokens = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")

    def bad(decision: RetryDecision) -> RetryDecision:
        return replace(decision, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, may_be_billed=True)

    if (error := reported_error(payload, optional)) is not None:
        return bad(error)
    raw = payload.get("choices")
    if not isinstance(raw, list) or not raw:
        return bad(_retry("wrong_schema", "the body has no choices"))
    read = [_given_choice(payload, given)] if given else [_read_choice(choice) for choice in _in_order(raw, count)]
    choices = [choice if isinstance(choice, Completion) else None for choice in read]
    if not any(choices):
        unusable = (choice for choice in read if isinstance(choice, RetryDecision))
        return bad(next(unusable, _retry("wrong_schema", "no choice has the index of a sample that was asked for")))
    if completion_tokens == 0:
        choices = [choice if choice and _is_filled(choice) else None for choice in choices]
        if not any(choices):
            return bad(_retry("empty_reply", "no text and no tokens"))
    if only_finished:
        choices = [choice if choice and choice.finish_reason is not None else None for choice in choices]
    if not any(choices[:count]):
        return bad(_retry("wrong_schema", "none of the choices can be read or is finished"))
    cached = _count(object_in(usage, "prompt_tokens_details"), "cached_tokens")
    model = payload.get("model")
    return ChatResponse(
        tuple(choices),
        clean(model)[:_MOST_OF_A_NAME] if isinstance(model, str) else "",
        prompt_tokens,
        _of_all_choices(completion_tokens, payload, choices),
        min(cached or _count(usage, "prompt_cache_hit_tokens"), prompt_tokens),
        min(_count(object_in(usage, "completion_tokens_details"), "reasoning_tokens"), completion_tokens),
    )


def completions(
    response: ChatResponse, endpoint: Endpoint, keys: list[str], attempts: int, latency_s: float, wasted: Spent
) -> list[Completion | None]:
    """Make a completion of each choice; None for a sample without a choice.

    The usages of all completions sum to the tokens of the reply and of the failed attempts before it. The first
    completion carries the prompt tokens. Completion tokens are divided by length, since the protocol reports only
    their sum.

    Args:
        response: the reply.
        endpoint: gives the prices.
        keys: journal keys of the requested samples, in the order of the choices.
        attempts: number of attempts, this one included.
        latency_s: seconds from sending to the parsed reply.
        wasted: tokens that the failed attempts before this one reported.
    """
    choices = (*response.choices[: len(keys)], *[None] * (len(keys) - len(response.choices)))
    sizes = [_size(choice) if choice else 0 for choice in choices]
    shares, thinking = (split_by_size(n, sizes) for n in (response.completion_tokens, response.reasoning_tokens))
    prompt, cached = response.prompt_tokens + wasted.prompt_tokens, response.cached_tokens
    more = wasted.completion_tokens
    result: list[Completion | None] = []
    for key, choice, tokens, reasoning in zip(keys, choices, shares, thinking, strict=True):
        if choice is None:
            result.append(None)
            continue
        usage = Usage(
            prompt_tokens=prompt,
            completion_tokens=tokens + more,
            cached_tokens=cached,
            reasoning_tokens=reasoning,
            attempts=attempts,
            cost_usd=endpoint.cost_usd(prompt, tokens + more, cached),
        )
        fields = {"usage": usage, "model": response.model or endpoint.model, "latency_s": latency_s, "request_key": key}
        result.append(choice.model_copy(update=fields))
        prompt = cached = more = 0
    return result


def split_by_size(total: int, sizes: list[int]) -> list[int]:
    """Divide ``total`` in proportion to ``sizes`` (not all 0) into integers that sum to it."""
    size_sum = sum(sizes)
    ends = [total * size // size_sum for size in accumulate(sizes, initial=0)]
    return [end - start for start, end in pairwise(ends)]


def is_blank(text: str, finish_reason: str | None) -> bool:
    """Whether a reply has no text, and neither a limit of tokens nor a content filter is the reason."""
    return (not text or text.isspace()) and finish_reason not in ("length", "content_filter")


def ended_in_thought(completion: Completion | None) -> bool:
    """Whether the tokens of a reply were used up before its answer began."""
    if completion is None or completion.finish_reason != "length":
        return False
    text = completion.text.strip()
    if not text:
        return bool(completion.reasoning or completion.usage.reasoning_tokens)
    return text.startswith("<think>") and "</think>" not in text


def clean(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded as UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def _retry(code: str, message: str) -> RetryDecision:
    return RetryDecision(RetryAction.RETRY, code, message, may_be_billed=True)


def _not_json(content: bytes) -> RetryDecision:
    """What to do about a body that cannot be read, without any text of it."""
    if not content.strip():
        return _retry("cut_off", "the body is empty")
    if content.lstrip().startswith(b"data:"):
        return _retry("not_json", 'the body is a stream of events; "stream": false in extra_body may end that')
    if content.lstrip().startswith(b"<"):
        return _retry("not_json", "the body is a web page, not JSON; is base_url right?")
    return _retry("cut_off", f"the body is not JSON ({len(content)} bytes)")


def _in_order(raw: list[Any], count: int | None) -> list[Any]:
    """The choices in the order of their samples, to the last one that the reply has; None for one that it left out.

    The index of a choice says which sample it is. A missing index is 0, which some servers leave out. Where all are
    equal or count from 1, the order of the samples is still known. A choice whose index is of no sample, or is used
    twice, is not used: its sample is asked for again.
    """
    count = count or len(raw)
    indices = [_index(choice.get("index")) if isinstance(choice, dict) else 0 for choice in raw]
    if count == 1 or (len(raw) > 1 and len(set(indices)) == 1):
        return raw
    first = 1 if sorted(indices) == list(range(1, count + 1)) else 0
    placed: dict[int, Any] = {}
    for index, choice in zip(indices, raw, strict=True):
        if 0 <= index - first < count:
            placed.setdefault(index - first, choice)
    return [placed.get(index) for index in range(max(placed, default=-1) + 1)]


def _index(index: Any) -> int:
    """The index of a choice, which some servers write as a text or as 1.0; 0 if it is no number."""
    if isinstance(index, str) and index.isdecimal() and len(index) < 10:
        return int(index)
    return int(index) if isinstance(index, int | float) and type(index) is not bool and index == index // 1 else 0


def _read_choice(raw: Any) -> Completion | RetryDecision:
    """One choice, or what to do about a choice that failed or cannot be read."""
    if not isinstance(raw, dict):
        return _retry("wrong_schema", "no choice has a message")
    failure = reported_error(raw) or finish_failure(raw)
    if failure is not None:
        return failure
    message, finish = raw.get("message"), read_finish_reason(raw.get("finish_reason"))
    if message is None and finish == "content_filter":
        message = {}
    if message is None and FILTERED.search(finish or ""):
        withheld = f"the reply was withheld: finish_reason is {str(finish)[:100]!r}"
        return RetryDecision(RetryAction.REJECT, "content_filter", withheld)
    if not isinstance(message, dict):
        return _retry("wrong_schema", "no choice has a message")
    content, thoughts = message.get("content"), None
    if isinstance(content, list):  # content parts
        thoughts = _thoughts(content)
        texts = [part.get("text") if isinstance(part, dict) else part for part in content]
        content = "".join(text for text in texts if isinstance(text, str))
    if content is None:
        content = message.get("refusal") or ""
    if not isinstance(content, str):
        return _retry("wrong_schema", "the message of a choice is no text")
    reasoning = message.get("reasoning_content") or message.get("reasoning") or thoughts
    length = len(content) + (len(reasoning) if isinstance(reasoning, str) else 0)
    if length > _MOST_CHARACTERS:
        return _retry("too_long", f"a choice has {length:,} characters, and at most {_MOST_CHARACTERS:,} are read")
    token_ids, calls, logprobs = raw.get("token_ids"), message.get("tool_calls"), _logprobs(raw.get("logprobs"))
    if not isinstance(token_ids, list) or not all(type(id_) is int and 0 <= id_ < _MOST_TOKEN_IDS for id_ in token_ids):
        token_ids = None
    if token_ids is not None and logprobs is not None and len(token_ids) != len(logprobs):
        logprobs = None  # they do not match; the ids are more reliable
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        calls = None
    return Completion(
        text=clean(content),
        reasoning=clean(reasoning) if isinstance(reasoning, str) else None,
        finish_reason=clean(finish)[:_MOST_OF_A_NAME] if finish is not None else None,
        token_ids=token_ids,
        logprobs=logprobs,
        ids_source="server" if token_ids is not None else None,
        tool_calls=calls if calls and len(json.dumps(calls)) <= _MOST_CHARACTERS else None,
    )


def _size(choice: Completion) -> int:
    """Length, at least 1: in tokens if the server sent token ids, else in characters."""
    characters = len(choice.text) + len(choice.reasoning or "") + len(str(choice.tool_calls or ""))
    return max(1, len(choice.token_ids) if choice.token_ids else characters)


def _of_all_choices(reported: int, payload: Mapping[str, Any], choices: Sequence[Completion | None]) -> int:
    """The completion tokens of a reply. llama.cpp reports those of its first choice (ggml-org/llama.cpp#27318), which
    its ``timings`` repeat; those of the others are estimated by length.
    """
    if choices[0] is None or reported != _count(object_in(payload, "timings"), "predicted_n"):
        return reported
    return reported * sum(_size(choice) for choice in choices if choice) // _size(choices[0])


def _is_filled(choice: Completion) -> bool:
    """Whether it has anything, or a content filter is the reason why not."""
    return bool(choice.text or choice.reasoning or choice.tool_calls or choice.finish_reason == "content_filter")


def _given_choice(payload: Mapping[str, Any], answer: str) -> Completion | RetryDecision:
    """A given answer with the log-probs of its tokens, or why the reply has none.

    They are the last tokens of the prompt. One that begins before the answer and reaches into it counts for it.
    """
    text, logprobs = "", list[float]()
    try:
        tokens = [next(iter(token.values())) for token in payload["prompt_logprobs"] if token]
        while len(text.strip()) < len(answer.strip()):
            token = tokens.pop()
            text = str(token["decoded_token"]) + text
            logprobs.insert(0, float(token["logprob"]))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
    else:
        if not text.strip().endswith(answer.strip()):
            why = f"the prompt ends with {text[-60:]!r}, not with the answer {answer!r}"
        elif not all(math.isfinite(value) and value <= _ROUNDING for value in logprobs):
            why = f"log-probs are finite numbers up to 0, got {logprobs[:5]}"
        else:
            return Completion(text=answer, finish_reason="stop", logprobs=logprobs)
    return RetryDecision(RetryAction.STOP, "no_prompt_logprobs", why)


def _thoughts(parts: list[Any]) -> str | None:
    """The reasoning among the parts of a content: a text, or parts of its own as Mistral sends them; None: none."""
    thoughts = [part.get("thinking") or part.get("reasoning") for part in parts if isinstance(part, dict)]
    lists = [thought if isinstance(thought, list) else [{"text": thought}] for thought in thoughts]
    texts = [part.get("text") for inner in lists for part in inner if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str)) or None


def _logprobs(raw: Any) -> list[float] | None:
    tokens = raw.get("content") if isinstance(raw, dict) else None
    if not isinstance(tokens, list) or not tokens:
        return None
    values = [token.get("logprob") if isinstance(token, dict) else None for token in tokens]
    if not all(isinstance(value, int | float) and abs(value) < _LARGEST_LOGPROB for value in values):
        return None
    return [float(value) for value in values if value is not None]


def object_in(parent: Any, name: str) -> Mapping[str, Any]:
    """The object that a value has under this name; empty if there is none."""
    value = parent.get(name) if isinstance(parent, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and 0 < value <= _MOST_TOKENS else 0
