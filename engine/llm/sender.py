"""Sends a request until it is answered or given up: budget, slot, attempt, what failed, wait, next attempt."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from engine.api_manager import Endpoint
from engine.llm.budget import Budget, Counters, Hold, Spent
from engine.llm.cancellation import CancelScope, running_timeout
from engine.llm.journal import ResponseJournal, StoredMeanwhileError, request_keys
from engine.llm.limits import Use
from engine.llm.quirks import parts_of
from engine.llm.replies import ChatResponse, completions
from engine.llm.requests import (
    CHAT,
    estimate_prompt_tokens,
    given_answer,
    least_prompt_tokens,
    most_prompt_tokens,
    request_body,
)
from engine.llm.retry import RetryAction, RetryDecision, RetryPolicy
from engine.llm.trouble import TroubleReporter, describe, fatal_error, unreachable_error
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


@dataclass(frozen=True)
class Sample:
    """One sample of a request: its index and its journal key."""

    index: int
    key: str


class Batches(Protocol):
    """Sends requests in batches."""

    async def reply(self, connection: EndpointConnection, keys: Sequence[str], body: dict[str, Any]) -> bytes | None:
        """The body of the reply to a request, given the journal keys of its samples; None: its batch has none.

        Raises:
            StoredMeanwhileError: another process has the reply.
        """

    async def close(self) -> None:
        """Stop waiting for batches, which stay at the provider."""


@dataclass
class _Call:
    """A request for samples with consecutive indices, and what its attempts have come to.

    Args:
        connection, endpoint: where it goes.
        request, samples: what is asked for.
        attempts: requests that were sent.
        failures: attempts that failed; one that was refused for an optional part of the request is none.
        unreached: those of them before the endpoint was reached for the first time.
        first_sent_at: when the first attempt was sent.
        answers_before: replies of the endpoint before the last attempt.
        is_last: whether the next attempt is the last one, after a wait beyond the time of retries.
        latency_s: seconds that the last attempt took.
        wasted: tokens that failed attempts reported.
        may_be_batched: whether the request may be part of a batch.
    """

    connection: EndpointConnection
    endpoint: Endpoint
    request: ChatRequest
    samples: Sequence[Sample]
    attempts: int = 0
    failures: int = 0
    unreached: int = 0
    first_sent_at: float | None = None
    answers_before: int = 0
    is_last: bool = False
    latency_s: float = 0.0
    wasted: Spent = field(default_factory=Spent)
    may_be_batched: bool = False

    @property
    def is_batched(self) -> bool:
        """Whether the next attempt is part of a batch. What failed there is sent singly."""
        return self.may_be_batched and not self.failures

    @property
    def priced(self) -> Endpoint:
        """The endpoint with the prices of the next attempt."""
        return self.endpoint.in_batches if self.is_batched else self.endpoint

    @property
    def parameters(self) -> frozenset[str]:
        """The optional parts that the next attempt sends."""
        return parts_of(self.request, len(self.samples), self.endpoint.extra_body) - self.connection.dropped


@dataclass(kw_only=True, eq=False)
class RequestSender:
    """Sends requests until they are answered or given up. For one event loop.

    Args:
        config_path: API configuration file, named in fatal errors.
        journal: stores replies before they are used; may be None.
        retry: how often and for how long a request is retried.
        budget: limits on tokens and money.
        cancel_scope: cancels every call after a fatal error.
        trouble: is notified of requests that are sent again.
        clock: monotonic time in seconds.
        sleep: as ``asyncio.sleep``.
        rng: for jitter.
        batches: sends requests in batches; None: each is sent singly.
    """

    config_path: Path | str
    journal: ResponseJournal | None
    retry: RetryPolicy
    budget: Budget
    cancel_scope: CancelScope
    trouble: TroubleReporter
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    rng: random.Random
    batches: Batches | None = None
    tally: Counters = field(default_factory=Counters, init=False)
    in_flight: dict[str, asyncio.Task[dict[str, Reply] | RetryDecision]] = field(default_factory=dict, init=False)
    """The attempts in flight, by the keys of their samples. They outlive their callers."""

    async def send(
        self,
        connection: EndpointConnection,
        endpoint: Endpoint,
        request: ChatRequest,
        samples: Sequence[Sample],
        *,
        is_extra: bool = False,
    ) -> dict[str, Reply]:
        """Send a request for samples with consecutive indices until it is answered or given up.

        Args:
            connection, endpoint: where it goes.
            request, samples: what is asked for.
            is_extra: another reply is there, so that a refusal, whatever its reason, is no error.

        Returns:
            replies by journal key. A sample that the endpoint left out, because it does not support ``n``, has
            none: the caller requests it separately.

        Raises:
            FatalEndpointError: the endpoint refuses every request, or was not reached in time.
            BudgetExceededError: an attempt could exceed the budget.
        """
        call = _Call(connection, endpoint, request, samples, may_be_batched=self.batches is not None)
        result = await self._until_answered(call)
        if not isinstance(result, RetryDecision):
            return result
        if result.parameter == "n":
            return {}
        is_refused = is_extra and result.action in (RetryAction.STOP, RetryAction.REJECT)
        kind = REFUSED_REQUEST if is_refused or await self._fails_alone(call, result) else result.code
        fault = Fault(kind=kind, message=describe(endpoint, result, answered=True))
        return {s.key: Reply(sample_index=s.index, outcome=Outcome.INFRA_FAULT, fault=fault) for s in samples}

    async def _until_answered(self, call: _Call, *, once: bool = False) -> dict[str, Reply] | RetryDecision:
        """The replies, or why the last attempt failed; ``once``: only a part that is refused leads to another one."""
        while True:
            result = await self._attempt(call)
            if not isinstance(result, RetryDecision) or not result.retry or result.parameter == "n":
                return result
            if once and not result.parameter:
                return result
            wait_s = self._wait_s(call, result)
            if wait_s is None:
                return result
            self.trouble.will_retry(call.endpoint, result, call.failures, call.connection.answered)
            await self.sleep(wait_s)

    async def _attempt(self, call: _Call) -> dict[str, Reply] | RetryDecision:
        """Reserve the most that the request may cost, wait for a slot, and send it. A batch needs no slot."""
        connection, endpoint, count = call.connection, call.endpoint, len(call.samples)
        max_tokens = call.request.sampling.max_tokens
        if count > 1 and "n" in connection.dropped:
            return RetryDecision(RetryAction.DROP_PARAMETER, "n", parameter="n")
        most = most_prompt_tokens(call.request), count * connection.largest_completion_tokens(max_tokens)
        hold = await self.budget.hold(sum(most), call.priced.cost_usd(*most))
        if call.is_batched:  # a caller that is cancelled leaves it in the batch, where the next start finds it
            try:
                return await self._exchange(call, most, hold, None)
            except StoredMeanwhileError:
                return self._stored(call)
        try:
            expected = 0
            if endpoint.tpm is not None:
                completion = count * connection.expected_completion_tokens(max_tokens)
                expected = estimate_prompt_tokens(call.request) + completion
            use = await connection.acquire(expected, is_urgent=call.request.purpose in _URGENT)
        except BaseException:
            self.budget.settle(hold, 0, 0.0)
            raise
        # A caller that is cancelled from here on does not cancel the request: the server works on it, so its
        # reply is stored.
        task = asyncio.create_task(self._exchange(call, most, hold, use))
        self._keep(call, task)
        return await asyncio.shield(task)

    def _stored(self, call: _Call) -> dict[str, Reply]:
        """The replies that are in the journal."""
        found = {} if self.journal is None else self.journal.get_many([sample.key for sample in call.samples])
        return {sample.key: reply_of(sample.index, found[sample.key]) for sample in call.samples if sample.key in found}

    def _keep(self, call: _Call, task: asyncio.Task[dict[str, Reply] | RetryDecision]) -> None:
        """Remember an attempt until it ends."""
        keys = [sample.key for sample in call.samples]
        self.in_flight |= dict.fromkeys(keys, task)

        def forget(_: object) -> None:
            for key in keys:
                if self.in_flight.get(key) is task:
                    del self.in_flight[key]
            if not task.cancelled():
                task.exception()  # marked as retrieved: the caller may have been cancelled

        task.add_done_callback(forget)

    async def _exchange(
        self, call: _Call, most: tuple[int, int], hold: Hold, use: Use | None
    ) -> dict[str, Reply] | RetryDecision:
        """Post the request, read the reply, return what was reserved, and store the reply before anyone uses it."""
        connection, priced, count = call.connection, call.priced, len(call.samples)
        names = call.parameters
        # Work whose usage is not known is not free, nor is an attempt that is cancelled: the server has received it.
        used, cached = most, 0
        try:
            self.cancel_scope.check()
            result = await self._post(call, names)
            reported = (result.prompt_tokens, result.completion_tokens)
            if any(reported) or not (isinstance(result, ChatResponse) or result.may_be_billed):
                used = reported
            cached = result.cached_tokens if isinstance(result, ChatResponse) else 0
            self._count(call, result, used, cached)
            if isinstance(result, RetryDecision):
                result = self._record_failure(call, result)
            else:
                connection.record_reply(result, names, count)
                self.trouble.check_reply(call.endpoint, result, least_prompt_tokens(call.request))
        except Exception:
            used, cached = (0, 0), 0
            raise
        finally:
            if use is not None:
                connection.release(use, sum(used))
            self.budget.settle(hold, sum(used), priced.cost_usd(*used, cached))
        return result if isinstance(result, RetryDecision) else await self._store(call, result)

    async def _post(self, call: _Call, names: frozenset[str]) -> ChatResponse | RetryDecision:
        """Send the request with these optional parts once; the reply, or what to do about the failure."""
        connection, endpoint, first_index = call.connection, call.endpoint, call.samples[0].index
        body = request_body(call.request, endpoint, names, first_index, len(call.samples))
        self.tally.requests_sent += 1
        self.tally.retries += 1 if call.failures else 0
        call.attempts += 1
        call.answers_before = connection.answers
        sent_at = self.clock()
        connection.first_sent_at = connection.first_sent_at or sent_at
        if call.first_sent_at is None and not call.is_batched:  # the time of a batch is none of retries
            call.first_sent_at = sent_at
        result: ChatResponse | RetryDecision
        try:
            if call.is_batched and self.batches is not None:
                content = await self.batches.reply(connection, [sample.key for sample in call.samples], body)
            else:
                async with running_timeout(endpoint.timeout_s), self.trouble.waiting(endpoint):
                    # Servers that replay recordings read the sample index from this header; others ignore it.
                    content = await connection.post(body, {"X-Sample-Index": str(first_index)})
            if content is None:
                return RetryDecision(RetryAction.RETRY, "batch", "its batch ended without an answer to it")
            result = connection.read(content, len(call.samples), names, given_answer(call.request))
        except Exception as error:
            decision = connection.classify(error, names, call.request.sampling.max_tokens)
            if decision is None:
                raise
            result = decision
        call.latency_s = max(0.0, self.clock() - sent_at)
        if isinstance(result, ChatResponse) or result.code not in _NOT_REACHED:
            connection.reached = True
            self.trouble.answered(endpoint)
        if isinstance(result, RetryDecision):
            result = replace(result, message=endpoint.mask.message(result.message))
            if call.is_batched and not result.parameter:  # the verdict on it is that of a single attempt
                result = replace(result, action=RetryAction.RETRY, wait_s=None)
            if result.action is RetryAction.SLOW_DOWN:
                connection.controller.rate_limited(self.clock(), sent_at, result.wait_s)
        return result

    def _record_failure(self, call: _Call, decision: RetryDecision) -> RetryDecision:
        """Update capabilities and concurrency after a failure."""
        connection, proven = call.connection, call.connection.proven
        part = decision.parameter
        is_new_schema = CHAT in proven and "response_format" in call.parameters - proven
        if is_new_schema and call.failures and decision.code == "http_500":  # some servers say no more than that
            part = "response_format"
        if part:  # the request was incomplete, not failed: not counted
            if connection.drop_parameter(part):
                self.trouble.leaves_out(call.endpoint, part)
            return replace(decision, action=RetryAction.DROP_PARAMETER, parameter=part)
        call.failures += 1
        call.wasted.add(decision.prompt_tokens, decision.completion_tokens, None)
        if decision.action is RetryAction.SLOW_DOWN:
            self.tally.rate_limited += 1
            if decision.wait_s:
                connection.pause(min(decision.wait_s, self.retry.total_s))
        elif decision.action is RetryAction.RETRY:
            connection.controller.server_failed()
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
                raise self.cancel_scope.cancel(unreachable_error(call.endpoint, decision, waited, self.config_path))
            call.unreached += 1
            return min(wait_s, _LONGEST_CONNECT_WAIT_S, connect_s - waited)
        failures = call.failures - call.unreached
        # Not from the call: before it is sent, a request may wait for a slot of a slow server for longer.
        elapsed_s = 0.0 if call.first_sent_at is None else self.clock() - call.first_sent_at
        if not self.retry.exhausted(failures, elapsed_s, wait_s):
            return wait_s
        remaining_s = self.retry.total_s - elapsed_s
        if decision.wait_s is None or call.is_last or failures >= self.retry.attempts or remaining_s <= 0:
            return None
        call.is_last = True
        self.trouble.long_wait(call.endpoint, decision, remaining_s)
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
                is_known = connection.answered or (not is_refused and CHAT in connection.proven)
                may_answer = is_known and decision.code not in _NOT_REACHED
                if may_answer or (is_refused and decision.code in _MAY_BE_OF_CONTENT):
                    result = await self._until_answered(_neutral(call), once=decision.retry)
                    if isinstance(result, RetryDecision):
                        connection.failed_test = answers
                        is_refused = is_refused or (decision.action is RetryAction.GIVE_UP and not result.retry)
        if connection.answers > call.answers_before:
            self.trouble.left_open(call.endpoint, decision)
            return True
        if is_refused:
            raise self.cancel_scope.cancel(fatal_error(call.endpoint, decision, self.config_path))
        return False

    def _count(self, call: _Call, result: ChatResponse | RetryDecision, used: tuple[int, int], cached: int) -> None:
        """Add the tokens and the cost of an attempt to the totals; of a reply without usage what the budget counts."""
        reported = (result.prompt_tokens, result.completion_tokens)
        is_estimated = isinstance(result, ChatResponse) and not any(reported)
        counted = used if is_estimated else reported
        thought = result.reasoning_tokens if isinstance(result, ChatResponse) else 0
        for spent in (self.tally, self.tally.by_purpose.setdefault(call.request.purpose, Spent())):
            cost_usd = call.priced.cost_usd(*counted, cached)
            spent.add(*counted, cost_usd, cached_tokens=cached, reasoning_tokens=thought, estimated=int(is_estimated))

    async def _store(self, call: _Call, response: ChatResponse) -> dict[str, Reply]:
        """Store the completions of a reply in the journal, then return them.

        All of them are queued before the first wait, so a caller that is cancelled here loses no reply.
        """
        keys = [sample.key for sample in call.samples]
        made = completions(response, call.priced, keys, call.attempts, call.latency_s, call.wasted)
        received = [(s, completion) for s, completion in zip(call.samples, made, strict=True) if completion]
        if self.journal is None:
            return {sample.key: reply_of(sample.index, completion) for sample, completion in received}
        stored = [(sample, self.journal.put(sample.key, completion)) for sample, completion in received]
        return {sample.key: reply_of(sample.index, await future) for sample, future in stored}

    async def drain(self, seconds: float) -> None:
        """Let the attempts in flight end, so that their replies are stored; cancel those that take longer."""
        tasks = set(self.in_flight.values())
        try:
            if tasks and seconds > 0:
                self.trouble.tell(
                    f"waiting for {len(tasks)} requests in flight, at most {seconds:.0f} s, to keep their replies "
                    "(Ctrl-C again: do not wait)"
                )
                await asyncio.wait(tasks, timeout=seconds)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _neutral(call: _Call) -> _Call:
    """A call for one sample with the form of another one, and neutral texts."""
    messages = tuple(message.model_copy(update={"content": _NEUTRAL}) for message in call.request.messages)
    request = call.request.model_copy(update={"messages": messages, "images": (), "body": None})
    [key] = request_keys(request, call.endpoint.model, call.endpoint.extra_body, [0], call.endpoint.api)
    return _Call(call.connection, call.endpoint, request, [Sample(0, key)])


def reply_of(index: int, completion: Completion) -> Reply:
    """The reply for a completion. An empty completion of the provider's content filter is a model fault."""
    if completion.finish_reason == "content_filter" and not completion.text:
        fault = Fault(kind="content_filter", message="the provider's content filter withheld the reply")
        return Reply(sample_index=index, outcome=Outcome.MODEL_FAULT, completion=completion, fault=fault)
    return Reply(sample_index=index, outcome=Outcome.OK, completion=completion)
