"""What servers refuse of a request, how they say so, and what is left out or sent instead. One table for all servers.

A row of :data:`OPTIONAL` is a part of a request without which it can be sent. Once a server has refused it, it is left
out for that model, in all roles; the journal remembers it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from engine.records import ChatRequest, Message

ZERO, SYSTEM, ADAPTIVE = "temperature=0", "system", "adaptive thinking"
"""Names of parts that are no field of the body: a temperature of 0, a message of the role ``system``, and thinking
without a budget of tokens, as newer models of Anthropic have it."""


@dataclass(frozen=True)
class Format:
    """One API.

    Args:
        path: what is added to ``base_url``.
        body_of: makes the body of a request of a chat body and the names of the optional parts that are left out.
        as_chat: makes a chat completion of a reply; one without choices of a reply that has another shape.
        headers: makes the headers of a key; None: ``Authorization``.
        lacks: the optional parts of requests that the API does not have.
    """

    path: str
    body_of: Callable[[dict[str, Any], Collection[str]], dict[str, Any]] | None = None
    as_chat: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    headers: Callable[[str], dict[str, str]] | None = None
    lacks: frozenset[str] = frozenset()


CHAT_FORMAT = Format("/chat/completions")
"""OpenAI's chat completions, which most servers speak."""


@dataclass(frozen=True)
class OptionalPart:
    """A part of a request that servers refuse.

    Args:
        instead: what is done without it, as a user is told; empty for a part whose absence changes no reply.
        said: how an error says that it is refused, besides naming it in its field ``param``; empty: by its name. A
            regular expression, in which letters of other alphabets may stand beside a word.
    """

    instead: str = ""
    said: str = ""


_DEFAULT = OptionalPart("the model's own value is used")
_PENALTIES = ("presence_penalty", "frequency_penalty", "repetition_penalty")
_OTHERS = (*_PENALTIES, "logit_bias", "top_k", "min_p", "typical_p")
_COMMON_WORD = (
    r"['\"`]NAME['\"`]|\bNAME\s*(?:[=><]|must|should|is\b)|(?:parameter|argument|supplied) NAME\b"
    r"|(?:parameter|argument|supplied|field|option)(?:s|\(s\))?: ?(?:[\w.]+, ?)*NAME\b|"
)
"""A field whose name is also a common word: quoted, in a list of fields, or followed by what it must be."""
OPTIONAL: dict[str, OptionalPart] = {
    ZERO: OptionalPart(_DEFAULT.instead, r"\btemperature\b.{0,60}(positive|greater|above|> ?=? ?0|non-?zero|at least)"),
    **dict.fromkeys(("temperature", "top_p", *_OTHERS), _DEFAULT),
    "stop": OptionalPart(
        "replies end where the model ends them",
        _COMMON_WORD.replace("NAME", "stop") + "stop[_ ](sequence|string|word)",
    ),
    "n": OptionalPart(said=_COMMON_WORD.replace("NAME", "n") + "only one completion choice"),
    "response_format": OptionalPart(
        "the prompt alone describes the form of a reply",
        r"response_format|json_schema|guided|structured[_ ]output|\bschema\b|grammar"
        r"|text\.format|output[_ ](config\.)?format",
    ),
    "seed": OptionalPart("the same run gives other replies on another day"),
    "return_token_ids": OptionalPart(),
    "logprobs": OptionalPart("replies are stored without log-probs", "logprob"),
    # Only if the name is refused, and ``max_completion_tokens`` is then sent: "too large" is a configuration error.
    "max_tokens": OptionalPart(
        said=r"use ['\"`]?max_completion_tokens"
        r"|(unsupported|unrecogni[sz]ed|unknown|unexpected)[\w :]{0,30}['\"`]?max_tokens"
        r"|max_tokens['\"`]?( \w+){0,3} (not supported|unsupported|not allowed|not permitted|deprecated)"
    ),
    SYSTEM: OptionalPart(
        "its text is put before that of the user",
        r"system['\"`]?[ _](role|message|prompt|instruction)|role[: ]{1,2}['\"`]?system|developer instruction"
        r"|roles must alternate",
    ),
    ADAPTIVE: OptionalPart("a budget of tokens is sent instead", r"adaptive thinking|\beffort parameter"),
}
"""By name. Of several that an error names, the first one is left out, and the request is sent again."""

_OF_EXTRA_BODY = frozenset(OPTIONAL) - {ZERO, SYSTEM, ADAPTIVE, "max_tokens", "response_format", "return_token_ids"}
_SAMPLING = ("temperature", "top_p", *_OTHERS)
_ALL_SAMPLING = re.compile(
    r"only (?:the )?(?:model'?s )?default|default (?:\(.{1,9}\) )?values?|sampling param", re.IGNORECASE
)
"""An error that names no parameter: those of the sampling are left out one after another."""


def parts_of(request: ChatRequest, count: int, extra_body: Mapping[str, Any]) -> frozenset[str]:
    """The optional parts of a request for ``count`` samples."""
    sampling = request.sampling
    fields = extra_body.keys() | (request.body or {}).keys()
    wanted = {
        ZERO: sampling.temperature == 0 and "temperature" not in extra_body,
        "temperature": sampling.temperature is not None,
        "top_p": sampling.top_p is not None,
        "n": count > 1,
        "response_format": request.json_schema is not None,
        "seed": sampling.seed is not None,
        "logprobs": sampling.logprobs,
        "return_token_ids": sampling.logprobs,
        "max_tokens": sampling.max_tokens is not None,
        SYSTEM: any(message.role == "system" for message in request.messages),
        ADAPTIVE: "reasoning_effort" in fields,
    }
    return frozenset(name for name, is_wanted in wanted.items() if is_wanted) | (_OF_EXTRA_BODY & fields)


def refused_part(text: str, param: str | None, sent: Collection[str]) -> str | None:
    """The optional part that an error refuses; None if it names none of those that were sent.

    Args:
        text: the message of the error.
        param: the field that it names, if it names one in a field of its own.
        sent: the optional parts of the request.
    """
    # An error about max_tokens usually means that its value is too large; leaving it out would hide that.
    named = (param or "").split(".")[0]
    patterns = {name: row.said or rf"\b{name.replace('_', '[_ ]')}\b" for name, row in OPTIONAL.items() if name in sent}
    by_text = [name for name, pattern in patterns.items() if re.search(pattern, text, re.IGNORECASE | re.ASCII)]
    if named in sent and named != "max_tokens" and not (by_text and by_text[0] == ZERO):
        return named
    if not by_text and _ALL_SAMPLING.search(text):
        by_text = [name for name in _SAMPLING if name in sent]
    return by_text[0] if by_text else None


def without_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages with the texts of the system before that of the user."""
    texts = [message.content for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    position = next((at for at, message in enumerate(others) if message.role == "user"), None)
    if position is None:
        return (Message(role="user", content="\n\n".join(texts)), *others)
    joined = "\n\n".join([*texts, others[position].content])
    others[position] = others[position].model_copy(update={"content": joined})
    return tuple(others)


TOO_LONG = re.compile(
    r"context_length_exceeded|max(imum)?[_ ](context|model)[_ ]len|context (length|window|size)|prompt is too long"
    r"|input is too long|too many (input )?tokens|string_above_max_length|exceed_context_size"
    r"|inputs\W{1,2} tokens \+ \W?max_new_tokens",
    re.IGNORECASE,
)
WINDOW = re.compile(r"(?:context|model)[_ ]len(?:gth)?\D{0,20}(\d{2,9})", re.IGNORECASE)
"""The length of the context in such an error."""
FILTERED = re.compile(
    r"content[_ ]filter|content[_ ](management[_ ])?policy|data_inspection_failed|content exists risk|moderation"
    r"|responsibleaipolicy|inappropriate content|prohibited_content|invalid_prompt|flagged",
    re.IGNORECASE,
)
"""An error about the content of one prompt, of which a further attempt is of no use. There are others: a refused
request is about its content wherever the endpoint answers another one (:mod:`engine.llm.sender`)."""
NO_MODEL = re.compile(
    r"model_not_found|model.{0,200}(not exist|not found|not available|unknown)|(invalid|unknown) model",
    re.IGNORECASE | re.DOTALL,
)
ABOUT_KEY = re.compile(
    r"api[-_ ]?key|\bkey\b|token|credential|authenti|authori[sz]ation|unauthori[sz]ed|log ?in|密钥|令牌", re.IGNORECASE
)
"""An error that blames the key."""

FAILED_FINISH = re.compile(
    r"error|abort|cancel|time.?out|deadline|fail|incomplete|unfinished|interrupt|exception|unavailable|overload|shut.?down"
    r"|disconnect|crash|kill|preempt|evict|unload|rate.?limit|resource|out.of.memory|unspecified"
    r"|^\s*(?:load|null|none|[45]\d\d|)\s*$",
    re.IGNORECASE,
)
"""Finish reasons of a failed call; gateways and servers have names of their own, such as ``upstream_error``."""
FINISH_SYNONYMS = {
    **dict.fromkeys(("max_tokens", "model_length", "max_output_tokens", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("content_filtered", "safety", "sensitive", "prohibited_content", "blocklist"), "content_filter"),
    **dict.fromkeys(("spii", "recitation", "guardrail_intervened", "error_toxic"), "content_filter"),
}


def read_finish_reason(raw: Any) -> str | None:
    """The finish reason of a choice: a string, or an object with a ``type``; synonyms get OpenAI's name.

    Returns:
        None for a value of any other type.
    """
    if isinstance(raw, Mapping):
        raw = raw.get("type")
    if not isinstance(raw, str):
        return None
    return FINISH_SYNONYMS.get(raw.strip().lower(), raw)


def is_failed_finish(reason: str | None) -> bool:
    """Whether a finish reason says that the call failed. None, which stands for a missing reason, does not."""
    return reason is not None and FAILED_FINISH.search(reason) is not None
