"""Sends one request until it is answered or given up: retry loop, limits, budget and journal."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_result

from engine.llm.cancellation import CancelScope, running_timeout
from engine.llm.hedging import LatencyRecord, first_success
from engine.llm.interfaces import Journal, Purse
from engine.llm.lone_failures import Failure, whose_failure
from engine.llm.pending_call import PendingCall, Sample, reply_of
from engine.llm.retry import RetryAction, RetryDecision, RetryPolicy
from engine.llm.sent_requests import SentRequests
from engine.llm.servers import ServerPool
from engine.llm.tally import Counters, Spent
from engine.llm.trouble import TroubleReporter, fatal_error, unreachable_error
from engine.llm.wire.replies import ChatResponse, completions
from engine.llm.wire.requests import estimate_prompt_tokens, least_prompt_tokens, most_prompt_tokens, request_body
from engine.records import ChatRequest, Reply

_LONGEST_CONNECT_WAIT_S = 10.0
"""Longest wait between attempts to reach an endpoint for the first time."""
_URGENT = frozenset({"analysis", "judge"})
"""Purposes of requests about replies. They go before new problems, whose results are committed later."""


@dataclass(kw_only=True, eq=False)
class RequestSender:
    """Sends requests until they are answered or given up. For one event loop.

    Args:
        config_path: API configuration file, named in fatal errors.
        journal: stores replies before they are used; may be None.
        retry: how often and for how long a request is retried.
        budget: limits on tokens and money.
        hedge: a request is sent again if it takes longer than this share of those before; None: never.
        probe_patience_s: how long calls wait for the first request that tests an endpoint's capabilities.
        cancel_scope: cancels every call after a fatal error.
        trouble: is notified of requests that are sent again.
        clock: monotonic time in seconds.
        sleep: as ``asyncio.sleep``.
        rng: for jitter.
    """

    config_path: Path | str
    journal: Journal | None
    retry: RetryPolicy
    budget: Purse
    hedge: float | None
    probe_patience_s: float
    cancel_scope: CancelScope
    trouble: TroubleReporter
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    rng: random.Random
    tally: Counters = field(default_factory=Counters, init=False)
    sent: SentRequests = field(default_factory=SentRequests, init=False)
    _latencies: LatencyRecord = field(default_factory=LatencyRecord, init=False)

    async def send(self, pool: ServerPool, request: ChatRequest, samples: Sequence[Sample]) -> dict[str, Reply]:
        """Send a request for samples with consecutive indices until it is answered or given up.

        A request whose server is taken out goes to another server of the pool.

        Returns:
            replies by journal key. A sample that the endpoint left out, because it does not support ``n``, has
            none: the caller requests it separately.
        """
        call = PendingCall(pool, pool.pick(), request, samples, is_urgent=request.purpose in _URGENT)
        call.connection.health.load += len(call.samples)
        try:
            result = await self._attempt(call)
            if isinstance(result, RetryDecision):
                result = await self._retried(call, result)
            if not isinstance(result, RetryDecision):
                return result
            if result.parameter == "n":
                return {}
            return call.failed(result, is_alone=await self._fails_alone(call, result))
        finally:
            call.connection.health.load -= len(call.samples)

    async def _fails_alone(self, call: PendingCall, decision: RetryDecision) -> bool:
        """Whether a request alone has failed, as the endpoint answers others. Its problem then stays open.

        Raises:
            FatalEndpointError: the endpoint refuses every request.
        """

        async def ask(neutral: PendingCall) -> dict[str, Reply] | RetryDecision:
            found = await self._attempt(neutral)
            if not isinstance(found, RetryDecision) or (decision.retry and not found.parameter):
                return found
            return await self._retried(neutral, found)

        found = await whose_failure(call, decision, ask)
        if found is Failure.OF_ENDPOINT:
            raise self.cancel_scope.cancel(fatal_error(call.endpoint, decision, self.config_path))
        if found is Failure.OF_REQUEST:
            self.trouble.left_open(call.endpoint, decision)
        return found is Failure.OF_REQUEST

    async def _retried(self, call: PendingCall, first: RetryDecision) -> dict[str, Reply] | RetryDecision:
        """Repeat a failed attempt until it succeeds, may not be repeated, or attempts and time are used up."""
        made = [first]

        async def attempt() -> dict[str, Reply] | RetryDecision:
            if made:
                return made.pop()
            call.move()
            return await self._attempt(call)

        def tell(state: RetryCallState) -> None:
            if not self._moves(call):
                self.trouble.will_retry(call.endpoint, _failure(state), call.failures, call.connection.answered)

        retrying = AsyncRetrying(
            retry=retry_if_result(_is_repeatable),
            wait=lambda state: self._wait_s(call, _failure(state)),
            stop=lambda state: state.upcoming_sleep == math.inf,
            before_sleep=tell,
            sleep=self.sleep,
            retry_error_callback=_failure,
        )
        return await retrying(attempt)

    def _moves(self, call: PendingCall) -> bool:
        """Whether the next attempt goes to another server at once."""
        return call.pool.should_move(call.server) and call.failures < self.retry.attempts

    def _wait_s(self, call: PendingCall, decision: RetryDecision) -> float:
        """Seconds to wait before the next attempt; infinite if there is none.

        A server may ask to wait for longer than requests are retried. Then there is one more attempt at the end of
        that time.

        Raises:
            FatalEndpointError: no server of the role was reached in time.
        """
        if self._moves(call):
            return 0.0
        wait_s = self.retry.wait_s(decision, call.failures, self.rng)
        left = self._time_to_connect(call, decision)
        if left is not None:
            call.unreached += 1
            return min(wait_s, _LONGEST_CONNECT_WAIT_S, left)
        failures = call.failures - call.unreached
        # Not from the call: before it is sent, a request may wait for a slot of a slow server for longer.
        elapsed_s = 0.0 if call.first_sent_at is None else self.clock() - call.first_sent_at
        if not self.retry.exhausted(failures, elapsed_s, wait_s):
            return wait_s
        left = self.retry.total_s - elapsed_s
        if decision.wait_s is None or call.is_last or failures >= self.retry.attempts or left <= 0:
            return math.inf
        call.is_last = True
        self.trouble.long_wait(call.endpoint, decision, left)
        return left

    def _time_to_connect(self, call: PendingCall, decision: RetryDecision) -> float | None:
        """Seconds left to reach a server of the role for the first time; None if one was reached or none is set.

        Until then the number of attempts is not limited: a server may still be starting.

        Raises:
            FatalEndpointError: the time is over.
        """
        limit = self.retry.connect_s
        if limit is None or decision.code != "connection":
            return None
        if call.pool.reached:
            return None
        waited = max(0.0, self.clock() - call.connection.first_sent_at)
        if waited < limit:
            return limit - waited
        error = unreachable_error(call.endpoint, decision, waited, self.config_path)
        raise self.cancel_scope.cancel(error)

    async def _attempt(self, call: PendingCall) -> dict[str, Reply] | RetryDecision:
        """Make one attempt. Requests with unproven parameters are sent one at a time for a limited time."""
        if call.proven:
            return await self._send_once(call)
        with contextlib.ExitStack() as probe:
            # A slow probe is not waited for: sending unproven parameters costs at most a refused request.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.probe_patience_s):
                    await call.connection.probing.acquire()
                    probe.callback(call.connection.probing.release)
            if call.proven:
                probe.close()
            return await self._send_once(call)

    async def _send_once(self, call: PendingCall) -> dict[str, Reply] | RetryDecision:
        """Reserve budget, wait for a slot and send once. Budget and slot are released before this returns.

        A caller that is cancelled after the request was sent does not cancel the request: the server works on it, so
        its reply is stored.
        """
        if (refused := await self._reserve(call)) is not None:
            return refused
        task = asyncio.create_task(self._finish(call))
        self.sent.add([sample.key for sample in call.samples], task)
        delay_s = None if self.hedge is None else self._latencies.quantile(call.kind, self.hedge)
        if delay_s is None:
            return await asyncio.shield(task)
        sent_at = self.clock()
        is_reply = lambda found: not isinstance(found, RetryDecision)  # noqa: E731
        result = await first_success(task, lambda: self._send_again(call), is_reply, delay_s, self.sleep)
        if task.cancelled():  # it took at least this long; without it the quantile would fall with each such request
            self._latencies.add(call.kind, self.clock() - sent_at)
        return result

    async def _send_again(self, call: PendingCall) -> dict[str, Reply] | RetryDecision:
        """Send a request that is in flight a second time, to another server if there is one.

        If this is cancelled, so is the request. What it reserved is then charged: the server has received it.
        """
        again = PendingCall(
            call.pool, call.pool.pick(), call.request, call.samples, is_urgent=True, attempts=call.attempts
        )
        again.connection.health.load += len(again.samples)
        try:
            if (refused := await self._reserve(again)) is not None:
                return refused
            self.tally.hedged += 1
            return await self._finish(again)
        finally:
            again.connection.health.load -= len(again.samples)

    async def _reserve(self, call: PendingCall) -> RetryDecision | None:
        """Reserve budget and wait for a slot; a decision if the attempt must not be made."""
        if call.n_unsupported:  # discovered by another call while this one waited
            return RetryDecision(RetryAction.DROP_PARAMETER, "n", parameter="n")
        connection, endpoint, request = call.connection, call.endpoint, call.request
        count, max_tokens = len(call.samples), request.sampling.max_tokens
        expected = 0
        if endpoint.tpm is not None:
            expected = estimate_prompt_tokens(request) + count * connection.expected_completion_tokens(max_tokens)
        call.largest = most_prompt_tokens(request), count * connection.largest_completion_tokens(max_tokens)
        call.hold = None
        if self.budget.limited:
            call.hold = await self.budget.hold(sum(call.largest), endpoint.cost_usd(*call.largest))
        try:
            call.permit = await connection.acquire(expected, is_urgent=call.is_urgent)
        except BaseException:
            self._settle(call, (0, 0))
            raise
        if call.pool.should_move(call.server):  # it was taken out while this request waited for a slot
            connection.release(call.permit, 0, is_urgent=call.is_urgent)
            self._settle(call, (0, 0))
            return RetryDecision(RetryAction.RETRY, "moved", "the server was taken out")
        return None

    def _settle(self, call: PendingCall, used: tuple[int, int]) -> None:
        """Release the reserved budget, and charge the prompt and completion tokens that were used."""
        if call.hold is not None:
            self.budget.settle(call.hold, sum(used), call.endpoint.cost_usd(*used))

    async def _finish(self, call: PendingCall) -> dict[str, Reply] | RetryDecision:
        """Send the request, return what it has reserved, and store its replies."""
        # Work whose usage is not known is not free, nor is an attempt that is cancelled: the server has received it.
        used, counted = call.largest, call.permit.tokens if call.permit else 0
        try:
            result = await self._exchange(call)
            reported = (result.prompt_tokens, result.completion_tokens)
            if any(reported) or not (isinstance(result, ChatResponse) or result.may_be_billed):
                used, counted = reported, sum(reported)
        except Exception:
            used, counted = (0, 0), 0
            raise
        finally:
            call.connection.release(call.permit, counted, is_urgent=call.is_urgent)
            self._settle(call, used)
        return await self._store(call, result) if isinstance(result, ChatResponse) else result

    async def _exchange(self, call: PendingCall) -> ChatResponse | RetryDecision:
        """Post the request, read the reply and update counters and concurrency. The slot is held meanwhile."""
        self.cancel_scope.check()
        connection, endpoint = call.connection, call.endpoint
        count, first_index = len(call.samples), call.samples[0].index
        names = call.parameters
        body = request_body(call.request, endpoint, names, first_index, count)
        self.tally.requests_sent += 1
        self.tally.retries += 1 if call.failures else 0
        call.attempts += 1
        call.answers_before = connection.answers
        sent_at = self.clock()
        connection.first_sent_at = connection.first_sent_at or sent_at
        call.first_sent_at = sent_at if call.first_sent_at is None else call.first_sent_at
        connection.health.sent(id(call), sent_at)
        result: ChatResponse | RetryDecision
        try:
            async with self._patience(call):
                # Servers that replay recordings read the sample index from this header; others ignore it.
                content = await connection.post(body, {"X-Sample-Index": str(first_index)})
            result = connection.read(content, count, names)
        except Exception as error:
            decision = connection.classify(error, names, call.request.sampling.max_tokens)
            if decision is None:
                raise
            result = decision
        finally:
            connection.health.ended(id(call))
        self._count_usage(call, result)
        call.latency_s = max(0.0, self.clock() - sent_at)
        if isinstance(result, ChatResponse) or result.code not in ("connection", "timeout"):
            connection.reached = True
            connection.progress.replied()
            self.trouble.answered(endpoint)
        if isinstance(result, RetryDecision):
            return await self._record_failure(call, result, sent_at)
        connection.record_reply(result, names, count, call.latency_s)
        self._latencies.add(call.kind, call.latency_s)
        blank = [choice for choice in result.choices if choice and choice.is_blank]
        if connection.health.sends_blanks(len(result.choices), len(blank)):
            self.trouble.sends_blanks(endpoint, connection.health, blank[-1], result.completion_tokens)
        self.trouble.check_prompt(endpoint, result.prompt_tokens, least_prompt_tokens(call.request))
        return result

    @contextlib.asynccontextmanager
    async def _patience(self, call: PendingCall) -> AsyncIterator[None]:
        """End a request after ``timeout_s``, counted anew as long as its server makes progress; say what it does."""
        connection, endpoint = call.connection, call.endpoint

        def work() -> str:
            return connection.progress.describe(connection.expected_completion_tokens(call.request.sampling.max_tokens))

        with connection.progress.watching():
            async with (
                running_timeout(endpoint.timeout_s, connection.progress.left_s),
                self.trouble.waiting(endpoint, work),
            ):
                yield

    async def _record_failure(self, call: PendingCall, decision: RetryDecision, sent_at: float) -> RetryDecision:
        """Update capabilities and concurrency after a failure."""
        connection, endpoint = call.connection, call.endpoint
        decision = replace(decision, message=endpoint.mask.message(decision.message))
        if note := call.pool.failed(call.server, decision):
            self.trouble.server_out(endpoint, decision, note)
        if decision.action is RetryAction.STOP and len(call.pool.servers) > 1 and not call.pool.all_refuse():
            decision = replace(decision, action=RetryAction.RETRY)
        part = decision.parameter or call.suspect(decision)
        if part:  # the request was incomplete, not failed: not counted
            if connection.drop_parameter(part):
                self.trouble.leaves_out(endpoint, part)
            return replace(decision, action=RetryAction.DROP_PARAMETER, parameter=part)
        call.failures += 1
        call.wasted.add(decision.prompt_tokens, decision.completion_tokens, None)
        if decision.action is RetryAction.SLOW_DOWN:
            self.tally.rate_limited += 1
            connection.controller.rate_limited(self.clock(), sent_at, decision.wait_s)
            if decision.wait_s:
                await connection.pause(min(decision.wait_s, self.retry.total_s))
        elif decision.action is RetryAction.RETRY:
            connection.controller.server_failed()
        return decision

    def _count_usage(self, call: PendingCall, result: ChatResponse | RetryDecision) -> None:
        """Add the tokens and the cost of an attempt to the totals; of a reply without usage what the budget counts."""
        used = (result.prompt_tokens, result.completion_tokens)
        is_estimated = isinstance(result, ChatResponse) and not any(used)
        if is_estimated:
            used = call.largest
        cost = call.endpoint.cost_usd(*used)
        for spent in (self.tally, self.tally.by_purpose.setdefault(call.request.purpose, Spent())):
            spent.add(*used, cost, estimated=int(is_estimated))
        call.connection.record_usage(sum(used), cost or 0.0)

    async def _store(self, call: PendingCall, response: ChatResponse) -> dict[str, Reply]:
        """Store the completions of a reply in the journal, then return them.

        All of them are queued before the first wait, so a caller that is cancelled here loses no reply.
        """
        keys = [sample.key for sample in call.samples]
        made = completions(response, call.endpoint, keys, call.attempts, call.latency_s, call.wasted)
        received = [(s, completion) for s, completion in zip(call.samples, made, strict=True) if completion]
        if self.journal is None:
            return {sample.key: reply_of(sample.index, completion) for sample, completion in received}
        stored = [(sample, self.journal.put(sample.key, completion)) for sample, completion in received]
        return {sample.key: reply_of(sample.index, await future) for sample, future in stored}


def _is_repeatable(result: dict[str, Reply] | RetryDecision) -> bool:
    return isinstance(result, RetryDecision) and result.retry and result.parameter != "n"


def _failure(state: RetryCallState) -> Any:
    """The decision about the last attempt."""
    return state.outcome.result() if state.outcome else None
