"""What a failed attempt means and how long to wait: pure decisions, no network, no clock of their own."""

from __future__ import annotations

import email.utils
import math
import random
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class RetryAction(StrEnum):
    """What to do after a failed attempt."""

    TRANSIENT = "transient"
    """Ask again after a back-off."""
    RATE_LIMITED = "rate_limited"
    """Ask again, slower; the only verdict that cuts concurrency."""
    UNSUPPORTED = "unsupported_parameter"
    """Ask again at once without ``parameter``."""
    REJECTED = "rejected"
    """The prompt's or the model's own fault: content filter, context too long. Do not ask again."""
    NO_RETRY = "no_retry"
    """This one call failed for good; other calls may go on."""
    FATAL = "fatal"
    """The endpoint refuses every call. Stop the run."""


@dataclass(frozen=True)
class RetryDecision:
    """A verdict, a short stable ``code`` for the record, the server's words, and what the verdict needs.

    Args:
        wait_s: seconds that the server asked for, if it did.
        parameter: the parameter to drop, for ``UNSUPPORTED``.
    """

    action: RetryAction
    code: str
    message: str = ""
    wait_s: float | None = None
    parameter: str = ""

    @property
    def retry(self) -> bool:
        """Whether the same call may be asked again."""
        return self.action in (RetryAction.TRANSIENT, RetryAction.RATE_LIMITED, RetryAction.UNSUPPORTED)


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long one request is tried.

    Args:
        attempts: sends at most. Sends that only learnt that a parameter is not supported do not count.
        total_s: seconds from the first send after which no further wait begins.
        first_wait_s: the back-off after the first failure; it doubles with each further one.
        max_wait_s: the longest back-off of our own; what a server asks for may be longer.
    """

    attempts: int = 8
    total_s: float = 900.0
    first_wait_s: float = 1.0
    max_wait_s: float = 60.0

    def wait_s(self, decision: RetryDecision, failures: int, rng: random.Random) -> float:
        """Seconds to wait after the ``failures``-th failure (1, 2, ...).

        A server's wish is never undercut: jitter is added to it. Our own back-off is exponential and response
        from its upper half, so that calls that failed together do not come back together.
        """
        if decision.action is RetryAction.UNSUPPORTED:
            return 0.0
        if decision.wait_s is not None:
            return decision.wait_s + rng.uniform(0.0, min(1.0, 0.1 * decision.wait_s))
        ceiling = min(self.max_wait_s, self.first_wait_s * 2.0 ** min(failures - 1, 60))
        return rng.uniform(0.5, 1.0) * ceiling

    def exhausted(self, failures: int, elapsed_s: float, next_wait_s: float) -> bool:
        """Whether to give up instead of waiting ``next_wait_s`` more."""
        return failures >= self.attempts or elapsed_s + next_wait_s > self.total_s


@dataclass(frozen=True)
class RequestContext:
    """What the classification must know of the request that failed.

    Args:
        optional: names of the parameters that were sent and that the request can do without.
        max_tokens: the limit that was sent, if any.
        answered: whether this endpoint has answered such a request before, so that its definition is right.
        now: seconds since the epoch, to read dates in headers.
    """

    optional: Collection[str] = ()
    max_tokens: int | None = None
    answered: bool = False
    now: float = 0.0


# ------------------------------------------------------------------ from an exception to a decision


def classify_exception(error: Exception, asked: RequestContext) -> RetryDecision | None:
    """Decide about an exception of the SDK or its transport; None: it is none of theirs, let it rise."""
    import aiohttp
    import openai

    if isinstance(error, openai.APIStatusError):
        return classify_status(error.status_code, error.response.headers, error.body, asked)
    if isinstance(error, TimeoutError):
        return RetryDecision(RetryAction.TRANSIENT, "timeout", "no complete reply in time")
    if isinstance(error, openai.APIConnectionError | aiohttp.ClientError | ConnectionError):
        # The transport reports resets and refusals as timeouts; the innermost cause tells them apart.
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        code = "timeout" if isinstance(cause, TimeoutError) else "connection"
        return RetryDecision(RetryAction.TRANSIENT, code, f"{type(cause).__name__}: {cause}"[:300])
    return None


def classify_status(status: int, headers: Mapping[str, str], body: object, asked: RequestContext) -> RetryDecision:
    """Decide about an HTTP status of 400 or more.

    Args:
        status: the HTTP status.
        headers: the reply's headers, looked up by lower-case name.
        body: the decoded JSON body, or its ``error`` member, or text.
        asked: what was asked.
    """
    said = _Said.of(body)
    wait_s = wait_from_headers(headers, asked.now)
    code = f"http_{status}"
    if status == 429 and "insufficient_quota" in said.codes:
        return RetryDecision(RetryAction.FATAL, "no_credit", said.text)
    override = headers.get("x-should-retry")
    if status == 429:
        action = RetryAction.NO_RETRY if override == "false" else RetryAction.RATE_LIMITED
        return RetryDecision(action, code, said.text, wait_s)
    if status >= 500 or status in (408, 409, 425):
        action = RetryAction.NO_RETRY if override == "false" else RetryAction.TRANSIENT
        return RetryDecision(action, code, said.text, wait_s)
    if override == "true":
        return RetryDecision(RetryAction.TRANSIENT, code, said.text, wait_s)
    if status in (400, 403, 422) and said.speaks_of(_FILTERED):
        return RetryDecision(RetryAction.REJECTED, "content_filter", said.text)
    if status == 401 or status == 403:
        # Servers quote parts of the key in these messages; none of it goes on.
        return RetryDecision(RetryAction.FATAL, "bad_key", f"HTTP {status}")
    if status == 402:
        return RetryDecision(RetryAction.FATAL, "no_credit", said.text)
    if status == 413:
        return RetryDecision(RetryAction.REJECTED, "context_too_long", said.text)
    if status in (400, 422):
        return _bad_request(code, said, asked)
    return RetryDecision(RetryAction.FATAL, "unknown_model" if status == 404 else code, said.text)


def _bad_request(code: str, said: _Said, asked: RequestContext) -> RetryDecision:
    if said.speaks_of(_TOO_LONG):
        window = _WINDOW.search(said.text)
        if window and asked.max_tokens is not None and asked.max_tokens >= int(window[1]):
            return RetryDecision(RetryAction.FATAL, "max_tokens_too_large", said.text)
        return RetryDecision(RetryAction.REJECTED, "context_too_long", said.text)
    for name in asked.optional:
        if said.blames(name):
            return RetryDecision(RetryAction.UNSUPPORTED, code, said.text, parameter=name)
    if said.speaks_of(_NO_MODEL):
        return RetryDecision(RetryAction.FATAL, "unknown_model", said.text)
    # An endpoint that answers such requests and refuses this one dislikes this text, not our configuration.
    action = RetryAction.NO_RETRY if asked.answered else RetryAction.FATAL
    return RetryDecision(action, "rejected_request", said.text)


_FILTERED = re.compile(
    r"content[_ ]filter|content[_ ](management[_ ])?policy|data_inspection_failed|content exists risk|moderation"
    r"|responsibleaipolicy|inappropriate content",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context_length_exceeded|max(imum)?[_ ](context|model)[_ ]len|context (length|window)|prompt is too long"
    r"|input is too long|too many (input )?tokens|string_above_max_length",
    re.IGNORECASE,
)
_WINDOW = re.compile(r"(?:context|model)[_ ]len(?:gth)?\D{0,20}(\d{2,9})", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"model_not_found|model.{0,200}(not exist|not found|not available|unknown)|(invalid|unknown) model",
    re.IGNORECASE | re.DOTALL,
)
_OPTIONAL = {
    "n": re.compile(r"['\"`]n['\"`]|\bn\s*(?:[=><]|must|should|is\b)|(?:parameter|argument|supplied):? n\b"),
    "response_format": re.compile(
        r"response_format|json_schema|guided|structured[_ ]output|\bschema\b|grammar", re.IGNORECASE
    ),
    "seed": re.compile(r"\bseed\b"),
    "return_token_ids": re.compile(r"return_token_ids"),
    "logprobs": re.compile(r"logprob", re.IGNORECASE),
    # Only where the other name is asked for: "too large" is a matter of configuration.
    "max_tokens": re.compile(r"use ['\"`]?max_completion_tokens", re.IGNORECASE),
}
OPTIONAL_PARAMETERS = frozenset(_OPTIONAL)
"""What a request can do without (``max_tokens`` is then sent by its newer name)."""


@dataclass(frozen=True)
class _Said:
    """A server's error body, whatever its shape: one text, the codes in it, the parameter it names."""

    text: str
    codes: frozenset[str]
    param: str | None

    @classmethod
    def of(cls, body: object) -> _Said:
        if not isinstance(body, Mapping):
            return cls(str(body or "")[:2000], frozenset(), None)
        inner: Mapping[str, Any] = body["error"] if isinstance(body.get("error"), Mapping) else body
        message = inner.get("message", inner.get("detail", inner))
        codes = frozenset(str(inner[name]) for name in ("code", "type") if inner.get(name) is not None)
        param = inner.get("param")
        return cls(str(message)[:2000], codes, param if isinstance(param, str) else None)

    def blames(self, name: str) -> bool:
        """Whether the optional parameter ``name`` is what the server does not take."""
        if _OPTIONAL[name].search(self.text):
            return True
        # A limit named as the faulty parameter is mostly too large, and dropping it would hide that.
        return name != "max_tokens" and self.param is not None and self.param.split(".")[0] == name

    def speaks_of(self, pattern: re.Pattern[str]) -> bool:
        return bool(pattern.search(self.text)) or any(pattern.search(code) for code in self.codes)


# ------------------------------------------------------------------ from headers to seconds


def wait_from_headers(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a reply asks to wait, or None.

    ``retry-after-ms`` and ``retry-after`` are the server's explicit word and come first. Of the
    ``x-ratelimit-reset*`` headers the largest counts: among the limits that are used up where
    ``x-ratelimit-remaining*`` says which, else among all.

    Args:
        headers: looked up by lower-case name; an httpx ``Headers`` does.
        now: seconds since the epoch.
    """
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        asked = parse_wait(headers.get(name), now)
        if asked is not None:
            return asked * scale
    resets = {
        name: wait
        for name in headers
        if name.lower().startswith("x-ratelimit-reset") and (wait := parse_wait(headers.get(name), now)) is not None
    }
    used_up = [wait for name, wait in resets.items() if headers.get(name.lower().replace("reset", "remaining")) == "0"]
    return max(used_up or resets.values(), default=None)


_UNIT_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_wait(value: str | None, now: float) -> float | None:
    """Seconds from ``"30"``, ``"1m30s"``, ``"12ms"``, an HTTP date, an ISO date or an epoch; None if neither.

    A time that has passed is 0. A number above 10^9 is a moment (seconds, above 10^12 milliseconds, since the
    epoch), since no server asks to wait for thirty years.
    """
    if value is None:
        return None
    text = value.strip()
    try:
        number = float(text)
    except ValueError:
        wait = _seconds_until(text, now)
        return None if wait is None else max(0.0, wait)
    if not math.isfinite(number):
        return None
    if number > 1e12:
        number = number / 1000 - now
    elif number > 1e9:
        number -= now
    return max(0.0, number)


def _seconds_until(text: str, now: float) -> float | None:
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    try:
        return email.utils.parsedate_to_datetime(text).timestamp() - now
    except (TypeError, ValueError):
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() - now if moment.tzinfo else None
