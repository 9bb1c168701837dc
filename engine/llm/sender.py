"""Sends a request until it is answered or given up: budget, slot, attempt, what failed, wait, next attempt."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.api_manager import Endpoint
from engine.llm.budget import Budget, Counters, Spent
from engine.llm.cancellation import CancelScope, within
from engine.llm.journal import ResponseJournal, request_keys
from engine.llm.limits import Use
from engine.llm.notices import EndpointNotices, describe, fatal_error
from engine.llm.quirks import parts_of
from engine.llm.replies import ChatResponse, completions, read_reply
from engine.llm.requests import format_of, given_answer, least_prompt_tokens, most_prompt_tokens, request_body
from engine.llm.retry import RetryAction, RetryDecision, RetryPolicy
from engine.records import REFUSED_REQUEST, ChatRequest, Completion, Fault, Outcome, Reply

if TYPE_CHECKING:
    from engine.llm.connection import EndpointConnection

_LONGEST_CONNECT_WAIT_S = 10.0
"""Longest wait between attempts to reach an endpoint for the first time."""
_URGENT = frozenset({"analysis", "judge"})
"""Purposes of requests about replies. They go before new problems, whose results are committed later."""
_NEUTRAL = "Reply with the word: ready"
_MAY_BE_OF_CONTENT = frozenset({"http_400", "http_403", "http_422", "content_filter", "context_too_long"})
"""Refusals that may be about the content of one request. Others, such as of a key, are about all."""
_NOT_REACHED = frozenset({"connection", "timeout"})


@dataclass
class _Call:
    """A request for samples with consecutive indices, and what its attempts have come to.

    Args:
        connection, endpoint: where it goes.
        request: what is asked for.
        samples: journal key -> index of each sample, in the order of the indices.
        is_batched: whether the next attempt is part of a batch. What failed there is sent singly.
        attempts: requests that were sent.
        failures: attempts that failed; one that was refused for an optional part of the request is none.
        unreached: those of them before the endpoint was reached for the first time.
        first_sent_at: when the first attempt was sent.
        answers_before: replies of the endpoint before the last attempt.
        wasted: tokens that failed attempts reported.
    """

    connection: EndpointConnection
    endpoint: Endpoint
    request: ChatRequest
    samples: Mapping[str, int]
    is_batched: bool = False
    attempts: int = 0
    failures: int = 0
    unreached: int = 0
    first_sent_at: float | None = None
    answers_before: int = 0
    wasted: Spent = field(default_factory=Spent)

    @property
    def priced(self) -> Endpoint:
        """The endpoint with the prices of the next attempt."""
        return self.endpoint.in_batches if self.is_batched else self.endpoint


@dataclass(kw_only=True, eq=False)
class RequestSender:
    """Sends requests until they are answered or given up. For one event loop.

    Args:
        config_path: API configuration file, named in fatal errors.
        journal: stores replies before they are used; may be None.
        retry: how often and for how long a request is retried.
        budget: limits on tokens and money.
        notices: is told of requests that are sent again.
        clock: monotonic time in seconds.
        sleep: as ``asyncio.sleep``.
        rng: for jitter.
        reply_of_batch: sends requests in batches: the body of the reply, given the connection, the journal keys of the
            samples and the body of the request; None if a batch has none. Without it each request is sent singly.
    """

    config_path: Path | str
    journal: ResponseJournal | None
    retry: RetryPolicy
    budget: Budget
    notices: EndpointNotices
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    rng: random.Random
    reply_of_batch: Callable[[EndpointConnection, list[str], dict[str, Any]], Awaitable[bytes | None]] | None = None
    cancel_scope: CancelScope = field(default_factory=CancelScope, init=False)
    """Cancels every call after a fatal error."""
    counters: Counters = field(default_factory=Counters, init=False)

    async def send(
        self,
        connection: EndpointConnection,
        endpoint: Endpoint,
        request: ChatRequest,
        samples: Mapping[str, int],
        *,
        is_extra: bool = False,
    ) -> dict[str, Reply]:
        """Send a request for samples with consecutive indices until it is answered or given up.

        If the task is cancelled while the server works on the request, it goes on until that attempt ends.

        Args:
            connection, endpoint: where it goes.
            request: what is asked for.
            samples: journal key -> index of each sample, in the order of the indices.
            is_extra: another reply is there, so that a refusal, whatever its reason, is no error.

        Returns:
            replies by journal key. A sample that the endpoint left out, because it does not support ``n``, has
            none: the caller requests it separately.

        Raises:
            FatalEndpointError: the endpoint refuses every request, or was not reached in time.
            BudgetExceededError: an attempt could exceed the budget.
        """
        call = _Call(connection, endpoint, request, samples, is_batched=self.reply_of_batch is not None)
        result = await self._until_answered(call)
        if not isinstance(result, RetryDecision):
            return result
        is_refused = is_extra and result.action in (RetryAction.STOP, RetryAction.REJECT)
        kind = REFUSED_REQUEST if is_refused or await self._fails_alone(call, result) else result.code
        fault = Fault(kind=kind, message=describe(endpoint, result, answered=True))
        return {
            key: Reply(sample_index=index, outcome=Outcome.INFRA_FAULT, fault=fault) for key, index in samples.items()
        }

    async def _until_answered(self, call: _Call, *, once: bool = False) -> dict[str, Reply] | RetryDecision:
        """The replies, or why the last attempt failed; ``once``: only a part that is refused leads to another one."""
        while True:
            result = await self._attempt(call)
            if not isinstance(result, RetryDecision) or not result.retry or (once and not result.parameter):
                return result
            wait_s = self._wait_s(call, result)
            if wait_s is None:
                return result
            self.notices.will_retry(call.endpoint, result, call.failures, call.connection.answers > 0)
            await self.sleep(wait_s)

    async def _attempt(self, call: _Call) -> dict[str, Reply] | RetryDecision:
        """Reserve the most that the request may cost, wait for a slot, and send it. A batch needs no slot."""
        connection, count = call.connection, len(call.samples)
        max_tokens = call.request.sampling.max_tokens
        most = most_prompt_tokens(call.request), count * connection.largest_completion_tokens(max_tokens)
        held = await self.budget.hold(sum(most), call.priced.cost_usd(*most))
        if call.is_batched:  # a caller that is cancelled leaves it in the batch, where the next start finds it
            result = await self._exchange(call, most, held, None)
            if isinstance(result, RetryDecision) and self.journal is not None:  # another process may have stored it
                stored = self.journal.get_many(list(call.samples))
                return {key: reply_of(call.samples[key], completion) for key, completion in stored.items()} or result
            return result
        try:
            expected = most[0] // 3 + count * connection.expected_completion_tokens(max_tokens)
            use = await connection.acquire(expected, is_urgent=call.request.purpose in _URGENT)
        except BaseException:
            self.budget.settle(held, 0, 0.0)
            raise
        exchange = asyncio.create_task(self._exchange(call, most, held, use))
        try:
            return await asyncio.shield(exchange)
        except asyncio.CancelledError:
            result = await exchange  # the server works on the request, so its reply is stored
            if isinstance(result, RetryDecision):
                raise
            return result

    async def _exchange(
        self, call: _Call, most: tuple[int, int], held: tuple[int, float], use: Use | None
    ) -> dict[str, Reply] | RetryDecision:
        """Post the request, read the reply, return what was reserved, and store the reply before anyone uses it."""
        connection, priced, count = call.connection, call.priced, len(call.samples)
        names = parts_of(call.request, count, call.endpoint.extra_body) - connection.dropped
        # Work whose usage is not known is not free, nor is an attempt that is cancelled: the server has received it.
        used, cached = most, 0
        sent_at = self.clock()
        try:
            self.cancel_scope.check()
            result = await self._post(call, names)
            latency_s = max(0.0, self.clock() - sent_at)
            reported = (result.prompt_tokens, result.completion_tokens)
            is_estimated = isinstance(result, ChatResponse) and not any(reported)
            if any(reported) or (isinstance(result, RetryDecision) and not result.may_be_billed):
                used = reported
            counted, thought = used if is_estimated else reported, 0
            if isinstance(result, ChatResponse):
                cached, thought = result.cached_tokens, result.reasoning_tokens
            for spent in (self.counters, self.counters.by_purpose.setdefault(call.request.purpose, Spent())):
                spent.add(Spent(*counted, cached, thought, priced.cost_usd(*counted, cached), is_estimated))
            if isinstance(result, RetryDecision):
                return self._record_failure(call, names, result, sent_at)
            connection.record_reply(result, names, count)
            self.notices.check_reply(call.endpoint, result, least_prompt_tokens(call.request))
        except Exception:
            used, cached = (0, 0), 0
            raise
        finally:
            if use is not None:
                connection.release(use, sum(used))
            self.budget.settle(held, sum(used), priced.cost_usd(*used, cached))
        received = {}
        with contextlib.nullcontext() if self.journal is None else self.journal.at_once():
            for completion in completions(result, priced, list(call.samples), call.attempts, latency_s, call.wasted):
                if completion is not None:
                    key = completion.request_key
                    stored = completion if self.journal is None else await self.journal.put(key, completion)
                    received[key] = reply_of(call.samples[key], stored)
        return received

    async def _post(self, call: _Call, names: frozenset[str]) -> ChatResponse | RetryDecision:
        """Send the request with these optional parts once; the reply, or what to do about the failure."""
        connection, endpoint, first_index = call.connection, call.endpoint, min(call.samples.values())
        body = request_body(call.request, endpoint, names, first_index, len(call.samples))
        self.counters.requests_sent += 1
        self.counters.retries += 1 if call.failures else 0
        call.attempts += 1
        call.answers_before = connection.answers
        connection.first_sent_at = connection.first_sent_at or self.clock()
        if call.first_sent_at is None and not call.is_batched:  # the time of a batch is none of retries
            call.first_sent_at = self.clock()
        result: ChatResponse | RetryDecision
        try:
            if call.is_batched and self.reply_of_batch is not None:
                content = await self.reply_of_batch(connection, list(call.samples), body)
            else:
                # Servers that replay recordings read the sample index from this header; others ignore it.
                posting = connection.transport.post(body, {"X-Sample-Index": str(first_index)})
                since = asyncio.get_running_loop().time()
                content = await within(endpoint.timeout_s, posting, partial(self.notices.silent, endpoint, since))
            if content is None:
                return RetryDecision(RetryAction.RETRY, "batch", "its batch ended without an answer to it")
            result = read_reply(
                content,
                len(call.samples),
                only_finished=connection.reports_finish,
                optional=names,
                given=given_answer(call.request),
                as_chat=format_of(endpoint).as_chat,
            )
        except Exception as error:
            decision = connection.classify(error, names, call.request.sampling.max_tokens)
            if decision is None:
                raise
            result = decision
        if isinstance(result, ChatResponse) or result.code not in _NOT_REACHED:
            connection.reached = True
            self.notices.answered(endpoint)
        return result

    def _record_failure(
        self, call: _Call, names: frozenset[str], decision: RetryDecision, sent_at: float
    ) -> RetryDecision:
        """Update capabilities and concurrency after a failure; what to do about it."""
        connection = call.connection
        if call.is_batched and not decision.parameter:  # the verdict on it is that of a single attempt
            decision = replace(decision, action=RetryAction.RETRY, wait_s=None)
        parameter = decision.parameter
        is_new_schema = connection.answers > 0 and "response_format" in names - connection.proven
        if is_new_schema and call.failures and decision.code == "http_500":  # some servers say no more than that
            parameter = "response_format"
        if parameter:  # the request was incomplete, not failed: not counted
            if connection.drop_parameter(parameter):
                self.notices.leaves_out(call.endpoint, parameter)
            return replace(decision, action=RetryAction.DROP_PARAMETER, parameter=parameter)
        call.failures += 1
        call.is_batched = False
        call.wasted.add(Spent(decision.prompt_tokens, decision.completion_tokens))
        if decision.action is RetryAction.SLOW_DOWN:
            self.counters.rate_limited += 1
            connection.controller.rate_limited(self.clock(), sent_at, decision.wait_s)
            if decision.wait_s:
                connection.pause(min(decision.wait_s, self.retry.total_s))
        elif decision.action is RetryAction.RETRY:
            connection.controller.restart_round()
        return decision

    def _wait_s(self, call: _Call, decision: RetryDecision) -> float | None:
        """Seconds to wait before the next attempt; None if there is none.

        A server may ask to wait for longer than requests are retried. Then there is one more attempt at the end of
        that time. Until the endpoint is reached for the first time, the number of attempts is not limited: a server
        may still be starting.

        Raises:
            FatalEndpointError: the endpoint was not reached in time.
        """
        wait_s, connect_s = self.retry.wait_s(decision, call.failures, self.rng), self.retry.connect_s
        if connect_s is not None and decision.code == "connection" and not call.connection.reached:
            waited = max(0.0, self.clock() - call.connection.first_sent_at)
            if waited >= connect_s:
                why = f"{decision.message}; no attempt got through in {waited:.0f} s."
                error = fatal_error(call.endpoint, replace(decision, message=why), self.config_path)
                raise self.cancel_scope.cancel(error)
            call.unreached += 1
            return min(wait_s, _LONGEST_CONNECT_WAIT_S, connect_s - waited)
        failures = call.failures - call.unreached
        # Not from the call: before it is sent, a request may wait for a slot of a slow server for longer.
        elapsed_s = 0.0 if call.first_sent_at is None else self.clock() - call.first_sent_at
        remaining_s = self.retry.total_s - elapsed_s
        if failures < self.retry.attempts and wait_s <= remaining_s:
            return wait_s
        if decision.wait_s is None or failures >= self.retry.attempts or remaining_s <= 0:
            return None
        self.notices.long_wait(call.endpoint, decision, remaining_s)
        return remaining_s

    async def _fails_alone(self, call: _Call, decision: RetryDecision) -> bool:
        """Whether a request that has failed for good has failed alone, as the endpoint answers others.

        Its problem then stays open, and the run goes on. If no other request was answered since it was sent, a neutral
        one of the same form is sent to see that. An endpoint that has never answered gets it only after a refusal that
        may be about content.

        Raises:
            FatalEndpointError: the endpoint refuses every request.
        """
        connection = call.connection
        is_refused = decision.action in (RetryAction.STOP, RetryAction.REJECT)
        async with connection.testing:  # one neutral request answers for all that have failed by then
            answers = connection.answers
            if answers == call.answers_before and connection.failed_test != answers:
                may_answer = connection.answers > 0 and decision.code not in _NOT_REACHED
                if may_answer or (is_refused and decision.code in _MAY_BE_OF_CONTENT):
                    result = await self._until_answered(_neutral(call), once=decision.retry)
                    if isinstance(result, RetryDecision):
                        connection.failed_test = answers
                        is_refused = is_refused or (decision.action is RetryAction.GIVE_UP and not result.retry)
        if connection.answers > call.answers_before:
            self.notices.left_open(call.endpoint, decision)
            return True
        if is_refused:
            raise self.cancel_scope.cancel(fatal_error(call.endpoint, decision, self.config_path))
        return False


def _neutral(call: _Call) -> _Call:
    """A call for one sample with the form of another one, and neutral texts."""
    messages = tuple(message.model_copy(update={"content": _NEUTRAL}) for message in call.request.messages)
    request = call.request.model_copy(update={"messages": messages, "images": (), "body": None})
    [key] = request_keys(request, call.endpoint.model, call.endpoint.extra_body, [0], call.endpoint.api)
    return _Call(call.connection, call.endpoint, request, {key: 0})


def reply_of(index: int, completion: Completion) -> Reply:
    """The reply for a completion. An empty completion of the provider's content filter is a model fault."""
    if completion.finish_reason == "content_filter" and not completion.text:
        fault = Fault(kind="content_filter", message="the provider's content filter withheld the reply")
        return Reply(sample_index=index, outcome=Outcome.MODEL_FAULT, completion=completion, fault=fault)
    return Reply(sample_index=index, outcome=Outcome.OK, completion=completion)
