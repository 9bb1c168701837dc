"""Recognises failed calls that a server reports with status 200: an error object, or an abnormal finish reason.

The text of such a reply is whatever had been written when the call failed. It must never count as an answer.

Sources: the OpenAI reference (``finish_reason``), vLLM's and SGLang's ``FinishReason`` (``abort``, ``error``; SGLang's
native form is an object with a ``type``), OpenRouter's error page (``choices[].error``), Azure (``content_filter``
without a message), the finish reasons of Mistral, DeepSeek, GLM, Gemini and Cohere, which gateways pass on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from engine.llm.quirks import FAILED_FINISH, FINISH_SYNONYMS
from engine.llm.retry import RequestContext, RetryAction, RetryDecision, classify_status


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


def finish_failure(choice: Mapping[str, Any], *, takes_null: bool = False) -> RetryDecision | None:
    """What to do about a choice that is not finished; None if it is, or if it has no field ``finish_reason``.

    Null, as streamed chunks have it, means that the reply goes on: in a whole reply it was cut off.

    Args:
        choice: the choice.
        takes_null: the server writes null in every reply.
    """
    if "finish_reason" not in choice or (takes_null and choice["finish_reason"] is None):
        return None
    reason = read_finish_reason(choice["finish_reason"])
    if reason is not None and not is_failed_finish(reason):
        return None
    code = "finish_null" if choice["finish_reason"] is None else "unfinished"
    shown = "null" if reason is None else repr(reason[:40])
    return RetryDecision(RetryAction.RETRY, code, f"the reply is not finished: finish_reason is {shown}")


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
    decision = _classified(error, RequestContext(optional))
    if decision.retry or decision.action is RetryAction.REJECT or decision.code == "no_credit":
        return decision
    return replace(decision, action=RetryAction.RETRY)


def _classified(error: Mapping[str, Any], context: RequestContext) -> RetryDecision:
    """Classify by the status that the error names; otherwise by its codes; otherwise as a failed gateway (502)."""
    for name in ("code", "status", "status_code"):
        text = str(error.get(name))
        if len(text) == 3 and text.isdecimal() and 400 <= int(text) <= 599:
            return classify_status(int(text), {}, error, context)
    codes = {name: str(error[name]) for name in ("code", "type") if error.get(name)}
    if any("rate_limit" in code or code == "insufficient_quota" for code in codes.values()):
        return classify_status(429, {}, error, RequestContext())
    by_code = classify_status(400, {}, {**codes, "message": " "}, RequestContext())
    if by_code.action is RetryAction.REJECT:
        return replace(by_code, message=str(error.get("message", ""))[:2000])
    return classify_status(502, {}, error, RequestContext())
