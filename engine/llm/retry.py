"""Classifies failed attempts and computes back-off times. Pure functions: no network, no clock of their own."""

from __future__ import annotations

import email.utils
import math
import random
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from engine.llm.quirks import (
    ABOUT_KEY,
    FILTERED,
    NO_MODEL,
    TOO_LONG,
    WINDOW,
    is_failed_finish,
    read_finish_reason,
    refused_part,
)
from engine.reading.masking import MASK, looks_secret


class RetryAction(StrEnum):
    """What to do after a failed attempt."""

    RETRY = "retry"
    """Send the request again after a back-off."""
    SLOW_DOWN = "slow_down"
    """Send again after a back-off and reduce concurrency (HTTP 429)."""
    DROP_PARAMETER = "drop_parameter"
    """Send again at once without ``parameter``, which the endpoint does not support."""
    REJECT = "reject"
    """The prompt caused the failure: content filter, context too long. Do not send again."""
    GIVE_UP = "give_up"
    """This call failed permanently; other calls may continue."""
    STOP = "stop"
    """The endpoint refuses the call, and probably every other one: stop the run unless it answers another."""


@dataclass(frozen=True)
class RetryDecision:
    """The classification of one failed attempt.

    Args:
        action: what to do next.
        code: short stable name of the failure; stored as the fault's kind.
        message: the server's error message.
        wait_s: seconds that the server asked to wait, if it did.
        parameter: the parameter to drop, for ``DROP_PARAMETER``.
        prompt_tokens: prompt tokens that the failed attempt reported; they may be billed.
        completion_tokens: completion tokens that the failed attempt reported.
        may_be_billed: whether the server may have worked on the request, and no usage is known.
    """

    action: RetryAction
    code: str
    message: str = ""
    wait_s: float | None = None
    parameter: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    may_be_billed: bool = False

    @property
    def retry(self) -> bool:
        """Whether the request may be sent again."""
        return self.action in (RetryAction.RETRY, RetryAction.SLOW_DOWN, RetryAction.DROP_PARAMETER)


@dataclass(frozen=True)
class RetryPolicy:
    """How often and for how long one request is retried.

    Args:
        attempts: maximum number of attempts. Attempts that only discovered an unsupported parameter do not count.
        total_s: seconds after the first attempt beyond which no further wait starts.
        first_wait_s: back-off after the first failure; it doubles with each further failure.
        max_wait_s: upper bound of the exponential back-off; a server may ask for a longer wait.
        connect_s: seconds in which an endpoint must be reached for the first time, or the run stops. In that time the
            number of attempts is not limited. None: as any other failure.
    """

    attempts: int = 8
    total_s: float = 900.0
    first_wait_s: float = 1.0
    max_wait_s: float = 60.0
    connect_s: float | None = None

    def wait_s(self, decision: RetryDecision, failures: int, rng: random.Random) -> float:
        """Seconds to wait after the ``failures``-th failure (1, 2, ...).

        A wait that the server asked for is never shortened: jitter is added to it. From the second failure on, it is
        not shorter than the exponential back-off either: a server that asks for no wait, or for the milliseconds
        until its window has room for one request, refuses the next attempt as well. The exponential back-off is
        drawn from the upper half of its range, so that calls that failed together are not resent together.
        """
        if decision.action is RetryAction.DROP_PARAMETER:
            return 0.0
        ceiling = min(self.max_wait_s, self.first_wait_s * 2.0 ** min(failures - 1, 60))
        back_off = rng.uniform(0.5, 1.0) * ceiling
        if decision.wait_s is None:
            return back_off
        asked = decision.wait_s + rng.uniform(0.0, min(1.0, 0.1 * decision.wait_s))
        return asked if failures < 2 else max(asked, back_off)


@dataclass(frozen=True)
class RequestContext:
    """The facts about a failed request that its classification depends on.

    Args:
        optional: names of the optional parts that were sent.
        max_tokens: the limit that was sent, if any.
        answered: whether the endpoint has answered a request before, which shows that its configuration works.
        now: seconds since the epoch, to interpret dates in headers.
    """

    optional: Collection[str] = ()
    max_tokens: int | None = None
    answered: bool = False
    now: float = 0.0


def classify_status(status: int, headers: Mapping[str, str], body: object, context: RequestContext) -> RetryDecision:
    """Classify a reply with an HTTP status of 400 or more.

    Args:
        status: the HTTP status.
        headers: the reply's headers, looked up by lower-case name.
        body: the decoded JSON body, or its ``error`` member, or text.
        context: the request that failed.
    """
    text, codes, param, is_of_api = _read_error(body)
    text_and_codes = "\n".join((text, *codes))
    wait_s, code = wait_from_headers(headers, context.now), f"http_{status}"
    override, is_too_long = headers.get("x-should-retry"), TOO_LONG.search(text_and_codes) is not None
    if status == 429 and "insufficient_quota" in codes:
        return RetryDecision(RetryAction.STOP, "no_credit", text)
    if status == 429:
        action = RetryAction.GIVE_UP if override == "false" else RetryAction.SLOW_DOWN
        return RetryDecision(action, code, text, wait_s)
    if status in (400, 422, 500, 501) and not is_too_long:
        refused = refused_part(text, param, context.optional)
        if refused is not None:
            return RetryDecision(RetryAction.DROP_PARAMETER, code, text, parameter=refused)
    if status in (500, 501) and is_too_long:
        return RetryDecision(RetryAction.REJECT, "context_too_long", text)
    if status >= 500 or status in (408, 409, 425):
        action = RetryAction.GIVE_UP if override == "false" else RetryAction.RETRY
        is_timeout = status in (408, 504, 524)  # of a gateway: the server behind it may still work on the request
        return RetryDecision(action, code, text, wait_s, may_be_billed=is_timeout)
    if override == "true":
        return RetryDecision(RetryAction.RETRY, code, text, wait_s)
    if status in (400, 403, 422) and FILTERED.search(text_and_codes):
        return RetryDecision(RetryAction.REJECT, "content_filter", text)
    if status in (401, 403):
        blames_key = ABOUT_KEY.search(text_and_codes) or (status == 401 and len(text.split()) < _FEWEST_WORDS)
        words = re.sub(r"\S+", lambda word: MASK if _may_be_key(word[0]) else word[0], text)
        return RetryDecision(RetryAction.STOP, "bad_key" if blames_key else code, words or f"HTTP {status}")
    if status == 402:
        return RetryDecision(RetryAction.STOP, "no_credit", text)
    if status == 413:
        if is_of_api:
            return RetryDecision(RetryAction.REJECT, "context_too_long", text)
        return RetryDecision(RetryAction.GIVE_UP, code, _TOO_LARGE)
    if status == 404 or (status in (400, 422) and not is_too_long and NO_MODEL.search(text_and_codes)):
        return RetryDecision(RetryAction.STOP, "unknown_model", text)
    if status in (400, 422) and is_too_long:
        window = WINDOW.search(text)
        if window and context.max_tokens is not None and context.max_tokens >= int(window[1]):
            return RetryDecision(RetryAction.STOP, "max_tokens_too_large", text)
        return RetryDecision(RetryAction.REJECT, "context_too_long", text)
    if status in (400, 422):
        # If the endpoint has answered other requests, the content of this one is the cause, not the configuration.
        return RetryDecision(RetryAction.GIVE_UP if context.answered else RetryAction.STOP, code, text)
    # An endpoint that has answered before takes such requests; a gateway, or a server behind it, has failed. A redirect
    # without a place is an answer to another request.
    may_pass = context.answered or (status < 400 and "location" not in headers)
    return RetryDecision(RetryAction.RETRY if may_pass else RetryAction.STOP, code, text, wait_s)


def _may_be_key(word: str) -> bool:
    """Whether a word of a refusal may be a key, or a part of one: servers quote the first and last characters."""
    return looks_secret(word) or re.search(r"\*\*|\w(?:\.\.\.|…)\w", word) is not None


# The text of a reply that reports an error with status 200, or an abnormal finish reason, is whatever had been written
# when the call failed. It must never count as an answer. Sources: the OpenAI reference (``finish_reason``), vLLM's and
# SGLang's ``FinishReason`` (``abort``, ``error``; SGLang's native form is an object with a ``type``), OpenRouter's
# error page (``choices[].error``), Azure (``content_filter`` without a message), the finish reasons of Mistral,
# DeepSeek, GLM, Gemini and Cohere, which gateways pass on.


def finish_failure(choice: Mapping[str, Any]) -> RetryDecision | None:
    """What to do about a choice that is not finished; None if it is, or if it has no field ``finish_reason``.

    Null, as streamed chunks have it, means that the reply goes on: in a whole reply it was cut off.
    """
    if "finish_reason" not in choice:
        return None
    reason = read_finish_reason(choice["finish_reason"])
    if reason is not None and not is_failed_finish(reason):
        return None
    shown = "null" if reason is None else repr(reason[:40])
    return RetryDecision(RetryAction.RETRY, "unfinished", f"the reply is not finished: finish_reason is {shown}")


def reported_error(body: Mapping[str, Any], optional: Collection[str] = ()) -> RetryDecision | None:
    """What to do about the error that a reply or one of its choices reports; None if it reports none.

    An ``error`` whose values are all empty is none: some gateways always write the field. An error within a reply
    never stops the run, except for an account without credit: one upstream of a gateway may refuse a key or a model
    that others take.

    Args:
        body: the reply or the choice.
        optional: names of the optional parts that were sent.
    """
    error = body if body.get("object") == "error" else body.get("error")
    if not isinstance(error, Mapping):
        error = {"message": error} if error else {}
    if not any(error.values()):
        return None
    decision = None
    for name in ("code", "status", "status_code"):
        status = str(error.get(name))
        if len(status) == 3 and status.isdecimal() and 400 <= int(status) <= 599:
            decision = decision or classify_status(int(status), {}, error, RequestContext(optional))
    if decision is None:  # its codes say what it is, or it is that of a gateway
        codes = {name: str(error[name]) for name in ("code", "type") if error.get(name)}
        decision = classify_status(400, {}, {**codes, "message": " "}, RequestContext())
        if any("rate_limit" in code or code == "insufficient_quota" for code in codes.values()):
            decision = classify_status(429, {}, error, RequestContext())
        elif decision.action is RetryAction.REJECT:
            decision = replace(decision, message=str(error.get("message", ""))[:2000])
        else:
            decision = classify_status(502, {}, error, RequestContext())
    if decision.retry or decision.action is RetryAction.REJECT or decision.code == "no_credit":
        return decision
    return replace(decision, action=RetryAction.RETRY)


_API_FIELDS = frozenset({"code", "param", "type"})
_TOO_LARGE = (
    "the request is larger than a proxy before the model allows; raise its limit (client_max_body_size of nginx), "
    "or lower --rollouts or the length of the prompts"
)
_FEWEST_WORDS = 3
"""Fewer words of a 401 give no reason of their own: it is the key."""
_TAG = re.compile(r"<(?:(?:style|script|title)\b.*?</\w+|[^>]*)>", re.IGNORECASE | re.DOTALL)
"""A tag of a web page, and what a browser does not show in the page."""


def _read_error(body: object) -> tuple[str, set[str], str | None, bool]:
    """What a server's error body of any shape says.

    Returns:
        its text, its error codes, the parameter that it names, and whether it has the form in which model APIs report
        errors. Those of proxies are pages, texts or other objects.
    """
    if not isinstance(body, Mapping):
        return " ".join(_TAG.sub(" ", str(body or "")).split())[:2000], set(), None, False
    inner: Mapping[str, Any] = body["error"] if isinstance(body.get("error"), Mapping) else body
    plain = inner["error"] if isinstance(inner.get("error"), str) else inner
    message = inner.get("message", inner.get("detail", plain))
    codes = {str(inner[name]) for name in ("code", "type") if inner.get(name) is not None}
    param = inner.get("param")
    is_of_api = inner is not body or body.get("object") == "error" or bool(_API_FIELDS & inner.keys())
    return str(message)[:2000], codes, param if isinstance(param, str) else None, is_of_api


def wait_from_headers(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a reply's headers ask to wait, or None.

    ``retry-after-ms`` and ``retry-after`` take precedence. Otherwise the largest ``x-ratelimit-reset*`` value is
    used: among the limits whose ``x-ratelimit-remaining*`` is 0 or less if any is, else among all.

    Times are compared with the ``date`` of the reply, if it has one: the clock of this machine may be another.

    Args:
        headers: looked up by lower-case name.
        now: seconds since the epoch, by the clock of this machine.
    """
    sent_at = _http_date(headers.get("date") or "")
    now = now if sent_at is None else sent_at
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        wait = parse_wait(headers.get(name), now)
        if wait is not None:
            return wait * scale
    resets = {
        name: wait
        for name in headers
        if name.lower().startswith("x-ratelimit-reset") and (wait := parse_wait(headers.get(name), now)) is not None
    }
    used_up = [
        wait
        for name, wait in resets.items()
        if _NOTHING.fullmatch(headers.get(name.lower().replace("reset", "remaining")) or "")
    ]
    return max(used_up or resets.values(), default=None)


_NOTHING = re.compile(r"\s*(?:-.*|0+(?:\.0*)?)\s*")
"""What is left of a limit that is used up; some servers count below 0."""


_UNIT_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_wait(value: str | None, now: float) -> float | None:
    """Parse a duration (``"30"``, ``"1m30s"``, ``"12ms"``), an HTTP date, an ISO date or an epoch into seconds.

    Returns:
        seconds from ``now``; 0 for a time in the past; None if the value has none of these forms. A number above
        10^9 is read as seconds since the epoch, above 10^12 as milliseconds since the epoch.
    """
    text = (value or "").strip()
    parts = _DURATION.findall(text)
    try:
        if parts and "".join(number + unit for number, unit in parts) == text:
            wait = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
        elif (at := _http_date(text)) is not None:
            wait = at - now
        elif text[10:11] == "T":
            moment = datetime.fromisoformat(text)
            wait = moment.timestamp() - now if moment.tzinfo else math.nan
        else:
            wait = float(text)
            wait = wait / 1000 - now if wait > 1e12 else wait - now if wait > 1e9 else wait
    except (ValueError, OverflowError):
        return None
    return max(0.0, wait) if math.isfinite(wait) else None


def _http_date(text: str) -> float | None:
    """Seconds since the epoch of an HTTP date; None if it is none."""
    try:  # a year or a zone that no clock has overflows in some of these steps
        moment = email.utils.parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()  # -0000 is UTC
    except (TypeError, ValueError, OverflowError):
        return None
