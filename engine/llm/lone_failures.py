"""Whether a request failed for itself or with all others: a run goes on without a problem that its endpoint refuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum

from engine.llm.journal import request_keys
from engine.llm.pending_call import PendingCall, Sample
from engine.llm.retry import RetryAction, RetryDecision
from engine.llm.wire.requests import CHAT
from engine.records import Reply

_NEUTRAL = "Reply with the word: ready"
_MAY_BE_OF_CONTENT = frozenset({"http_400", "http_403", "http_422", "content_filter", "context_too_long"})
"""Refusals that may be about the content of one request. Others, such as of a key, are about all."""
_NOT_REACHED = frozenset({"connection", "timeout"})

Ask = Callable[[PendingCall], Awaitable[dict[str, Reply] | RetryDecision]]


class Failure(StrEnum):
    """Whose failure it is."""

    OF_REQUEST = "request"
    """The endpoint answers other requests."""
    OF_ENDPOINT = "endpoint"
    """The endpoint refuses all requests."""
    UNKNOWN = "unknown"
    """Others fail as well, or it is not known; a later start may succeed."""


async def whose_failure(call: PendingCall, decision: RetryDecision, ask: Ask) -> Failure:
    """Whose failure it is that a request has failed for good.

    It is the request's if another one was answered since it was sent. If none was, a neutral request of the same form
    is sent to see that. An endpoint that has never answered gets it only after a refusal that may be about content.

    Args:
        call: the request.
        decision: about its last attempt.
        ask: sends a request.
    """
    connection = call.connection
    is_refused = decision.action in (RetryAction.STOP, RetryAction.REJECT)
    async with connection.testing:  # one neutral request answers for all that have failed by then
        answers = connection.answers
        if answers == call.answers_before and connection.failed_test != answers:
            is_known = connection.answered or (not is_refused and CHAT in connection.capabilities.proven)
            may_answer = is_known and decision.code not in _NOT_REACHED
            if may_answer or (is_refused and decision.code in _MAY_BE_OF_CONTENT):
                found = await ask(_neutral(call))
                if isinstance(found, RetryDecision):
                    connection.failed_test = answers
                    is_refused = is_refused or (decision.action is RetryAction.GIVE_UP and not found.retry)
    if connection.answers > call.answers_before:
        return Failure.OF_REQUEST
    return Failure.OF_ENDPOINT if is_refused else Failure.UNKNOWN


def _neutral(call: PendingCall) -> PendingCall:
    """A call for one sample with the form of another one, and neutral texts."""
    messages = tuple(one.model_copy(update={"content": _NEUTRAL}) for one in call.request.messages)
    request = call.request.model_copy(update={"messages": messages, "images": ()})
    [key] = request_keys(request, call.endpoint.model, call.endpoint.extra_body, [0])
    return PendingCall(call.pool, call.server, request, [Sample(0, key)], is_urgent=True)
