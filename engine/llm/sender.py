"""One request to one endpoint: limits, budget, the wire, the journal, and the only retry loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tenacity import AsyncRetrying, RetryCallState, retry_if_result

from engine.api_manager import Endpoint
from engine.errors import FatalEndpointError
from engine.llm.budget import Budget
from engine.llm.cancellation import CancelScope
from engine.llm.connection import EndpointConnection
from engine.llm.journal import ResponseJournal
from engine.llm.protocol import (
    CHAT,
    BadReplyError,
    ChatResponse,
    completions,
    estimate_prompt_tokens,
    most_prompt_tokens,
    optional_names,
    read_reply,
    request_body,
)
from engine.llm.retry import RequestContext, RetryAction, RetryDecision, RetryPolicy, classify_exception
from engine.records import ChatRequest, Completion, Fault, Outcome, Reply, Usage

_Stored = list[asyncio.Future[Completion] | None]
"""For each sample of a request: what is done when its completion is stored; None where it did not come."""

_Result = _Stored | RetryDecision
"""How an attempt ended."""

_UNREADABLE = RetryDecision(RetryAction.TRANSIENT, "wrong_schema", "none of the choices can be read")


@dataclass
class Sample:
    """One sample that is being asked for, and the future that everybody who wants it looks at."""

    index: int
    key: str
    reply: asyncio.Future[Reply | None]


@dataclass
class PendingCall:
    """One request on its way: some neighbouring samples, and what its attempts came to so far."""

    connection: EndpointConnection
    endpoint: Endpoint
    request: ChatRequest
    samples: list[Sample]
    began: float
    failures: int = 0
    sends: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    spent: tuple[int, int] = (0, 0)
    """Prompt and completion tokens of the last attempt."""


@dataclass
class Tally:
    """What was done so far, over all requests of a client."""

    retries: int = 0
    rate_limited: int = 0
    requests_sent: int = 0
    journal_hits: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    asking: int = 0


class RequestSender:
    """Sends questions until they are answered or given up. For one event loop.

    Args:
        config_path: the file that a fatal error points at.
        journal: where replies go before they are used; may be None.
        retry: how often and how long a request is tried.
        budget: the ceiling.
        probe_patience_s: how long others wait for the first request that shows what an endpoint can do.
        switch: ends every call when an endpoint refuses for good.
        clock: seconds since the epoch.
        sleep: as ``asyncio.sleep``.
        rng: for jitter.
    """

    def __init__(
        self,
        *,
        config_path: Path,
        journal: ResponseJournal | None,
        retry: RetryPolicy,
        budget: Budget,
        probe_patience_s: float,
        switch: CancelScope,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
    ) -> None:
        self.tally = Tally()
        self._config_path, self._journal = config_path, journal
        self._retry, self._budget, self._switch = retry, budget, switch
        self._probe_patience_s = probe_patience_s
        self._clock, self._sleep, self._rng = clock, sleep, rng

    async def ask(
        self, connection: EndpointConnection, endpoint: Endpoint, request: ChatRequest, samples: list[Sample]
    ) -> None:
        """Send one request for neighbouring samples until it is answered or given up.

        The samples that it settled have their replies; those that the endpoint left out are still open.
        """
        call = PendingCall(connection, endpoint, request, samples, self._clock())
        self.tally.asking += 1
        try:
            result = await self._attempt(call)
            if _to_be_repeated(result):
                result = await self._repeat(call, result)
        finally:
            self.tally.asking -= 1
        if isinstance(result, RetryDecision):
            _give_up(call, result)
            return
        for sample, stored in zip(samples, result, strict=True):
            if stored is not None:
                sample.reply.set_result(reply_of(sample.index, await stored))

    async def _repeat(self, call: PendingCall, first: _Result) -> _Result:
        """The retry loop, entered with a first attempt that failed.

        It is built only then: for each request it would cost a tenth of all that a request costs.
        """
        known: list[_Result] = [first]

        async def attempt() -> _Result:
            return known.pop() if known else await self._attempt(call)

        retrying = AsyncRetrying(
            retry=retry_if_result(_to_be_repeated),
            wait=lambda state: self._wait_s(call, _last_result(state)),
            stop=lambda state: self._exhausted(call, state.upcoming_sleep),
            sleep=self._sleep,
            retry_error_callback=_last_result,
        )
        result: _Result = await retrying(attempt)
        return result

    def _wait_s(self, call: PendingCall, failed: _Result) -> float:
        if not isinstance(failed, RetryDecision):
            raise TypeError("only a failed attempt is waited for")
        return self._retry.wait_s(failed, call.failures, self._rng)

    def _exhausted(self, call: PendingCall, next_wait_s: float) -> bool:
        elapsed = self._clock() - call.began
        return self._retry.exhausted(call.failures, elapsed, next_wait_s)

    async def _attempt(self, call: PendingCall) -> _Result:
        """One attempt. The first that shows something new about an endpoint goes alone, for a while."""
        self._switch.check()
        connection = call.connection
        if self._is_proven(call):
            return await self._send(call)
        try:
            async with asyncio.timeout(self._probe_patience_s):
                await connection.probing.acquire()
        except TimeoutError:  # a slow model: going on unproven costs a refused request at worst
            return await self._send(call)
        try:
            if not self._is_proven(call):
                return await self._send(call)
        finally:
            connection.probing.release()
        return await self._send(call)

    def _is_proven(self, call: PendingCall) -> bool:
        names = optional_names(call.request, len(call.samples), call.connection.capabilities)
        return call.connection.capabilities.proven >= {CHAT, *names}

    async def _send(self, call: PendingCall) -> _Result:
        """Set money aside, wait for a slot, send once. The slot is free again when this returns."""
        self._switch.check()
        connection, endpoint, request = call.connection, call.endpoint, call.request
        count = len(call.samples)
        if count > 1 and "n" in connection.capabilities.dropped:  # learnt while this one waited
            return RetryDecision(RetryAction.UNSUPPORTED, "n", parameter="n")
        call.spent = (0, 0)
        prompt = likely = bound = most = 0
        if self._budget.limited or endpoint.tpm is not None:
            prompt = estimate_prompt_tokens(request)
            likely = prompt + count * connection.likely_completion(request.sampling.max_tokens)
        hold = None
        if self._budget.limited:
            most = count * connection.greatest_completion(request.sampling.max_tokens)
            bound = most_prompt_tokens(request)
            hold = await self._budget.hold(bound + most, endpoint.cost_usd(bound, most))
        try:
            permit = await connection.enter(likely)
            try:
                result = await self._exchange(call)
                if not (isinstance(result, RetryDecision) or any(call.spent)):
                    call.spent = (bound, most)  # a reply without usage was not free: what was set aside is gone
                return result
            finally:
                connection.leave(permit, sum(call.spent))
        finally:
            if hold is not None:
                self._budget.settle(hold, sum(call.spent), endpoint.cost_usd(*call.spent))

    async def _exchange(self, call: PendingCall) -> _Result:
        """Send, and read what comes: it is on its way to the journal when this returns, or it is decided on."""
        self._switch.check()
        connection, endpoint, request = call.connection, call.endpoint, call.request
        count, first_index = len(call.samples), call.samples[0].index
        names = optional_names(request, count, connection.capabilities)
        body = request_body(request, endpoint, names, first_index, count)
        self.tally.requests_sent += 1
        self.tally.retries += 1 if call.failures else 0
        call.sends += 1
        sent_at = self._clock()
        try:
            async with asyncio.timeout(endpoint.timeout_s):
                # The header tells servers that replay recordings which samples are meant; others ignore it.
                content = await connection.post(body, {"X-Sample-Index": str(first_index)})
            response = read_reply(content)
            if not any(response.choices[:count]):
                raise BadReplyError(_UNREADABLE, response.prompt_tokens, response.completion_tokens)
        except BadReplyError as error:
            self._book(call, error.prompt_tokens, error.completion_tokens)
            decision = error.decision
        except Exception as error:
            asked = RequestContext(names, request.sampling.max_tokens, connection.answered, self._clock())
            found = classify_exception(error, asked)
            if found is None:
                raise
            decision = found
        else:
            return self._store(call, names, response, sent_at)
        return await self._failed(call, decision, sent_at)

    def _store(self, call: PendingCall, names: frozenset[str], response: ChatResponse, sent_at: float) -> _Stored:
        """Learn from a good reply and hand its samples to the journal. Nothing here waits."""
        connection, now = call.connection, self._clock()
        connection.controller.succeeded(now)
        if "n" in names and len(response.choices) < len(call.samples):
            names -= {"n"}
            connection.drop("n")
        connection.proved({CHAT, *names})
        connection.measured(response.completion_tokens, len(response.choices))
        wasted = Usage(prompt_tokens=call.prompt_tokens, completion_tokens=call.completion_tokens)
        self._book(call, response.prompt_tokens, response.completion_tokens)
        keys = [sample.key for sample in call.samples]
        made = completions(response, call.endpoint, keys, call.sends, max(0.0, now - sent_at), wasted)
        return [self._keep(completion) if completion else None for completion in made]

    def _keep(self, completion: Completion) -> asyncio.Future[Completion]:
        if self._journal is not None:
            return self._journal.put(completion.request_key, completion)
        kept: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        kept.set_result(completion)
        return kept

    async def _failed(self, call: PendingCall, decision: RetryDecision, sent_at: float) -> RetryDecision:
        """Tell everybody whom a failure concerns."""
        connection, endpoint = call.connection, call.endpoint
        decision = replace(decision, message=endpoint.without_key(decision.message))
        if decision.action is RetryAction.FATAL:
            raise self._switch.pull(_fatal_error(endpoint, decision, self._config_path))
        if decision.action is RetryAction.UNSUPPORTED:
            connection.drop(decision.parameter)
            return decision
        call.failures += 1
        if decision.action is RetryAction.RATE_LIMITED:
            self.tally.rate_limited += 1
            connection.controller.rate_limited(self._clock(), sent_at, decision.wait_s)
            if decision.wait_s and decision.wait_s <= self._retry.total_s:
                await connection.pause(decision.wait_s)
        elif decision.action is RetryAction.TRANSIENT:
            connection.controller.server_failed()
        return decision

    def _book(self, call: PendingCall, prompt_tokens: int, completion_tokens: int) -> None:
        """Count what an attempt reported to have taken."""
        call.spent = (prompt_tokens, completion_tokens)
        call.prompt_tokens += prompt_tokens
        call.completion_tokens += completion_tokens
        tally = self.tally
        tally.prompt_tokens += prompt_tokens
        tally.completion_tokens += completion_tokens
        cost = call.endpoint.cost_usd(prompt_tokens, completion_tokens)
        if cost is not None:
            tally.cost_usd = cost + (tally.cost_usd or 0.0)
        call.connection.add_spent(prompt_tokens + completion_tokens, cost or 0.0)


# ------------------------------------------------------------------ small pure parts


def reply_of(index: int, completion: Completion) -> Reply:
    """What a completion means. A reply that the provider's filter emptied is the model's fault, not ok."""
    if completion.finish_reason == "content_filter" and not completion.text:
        fault = Fault(kind="content_filter", message="the provider's filter withheld the reply")
        return Reply(sample_index=index, outcome=Outcome.MODEL_FAULT, completion=completion, fault=fault)
    return Reply(sample_index=index, outcome=Outcome.OK, completion=completion)


def _give_up(call: PendingCall, decision: RetryDecision) -> None:
    if decision.action is RetryAction.UNSUPPORTED:
        return  # "n": the samples stay open and are asked for one by one
    outcome = Outcome.MODEL_FAULT if decision.action is RetryAction.REJECTED else Outcome.INFRA_FAULT
    fault = Fault(kind=decision.code, message=decision.message)
    for sample in call.samples:
        sample.reply.set_result(Reply(sample_index=sample.index, outcome=outcome, fault=fault))


def _to_be_repeated(result: _Result) -> bool:
    # Without "n" the call is another one, so it is not repeated but split.
    return isinstance(result, RetryDecision) and result.retry and result.parameter != "n"


def _last_result(state: RetryCallState) -> _Result:
    if state.outcome is None:
        raise RuntimeError("no attempt was made")
    result: _Result = state.outcome.result()
    return result


def _fatal_error(endpoint: Endpoint, decision: RetryDecision, path: Path) -> FatalEndpointError:
    """The refusal in words, with the way out. Never the key."""
    role, entry = endpoint.role, f"{endpoint.role} in {path}"
    what, fix = {
        "bad_key": (
            f"{role}: the endpoint refuses the API key",
            f"Check api_key or api_key_env of {entry}, and that the key belongs to this base_url.",
        ),
        "unknown_model": (
            f"{role}: the endpoint does not know the model {endpoint.model!r}",
            f"Check model and base_url of {entry}; GET {endpoint.base_url}/models lists the names.",
        ),
        "no_credit": (f"{role}: the account has no credit left", f"Top it up, or change {entry}."),
        "max_tokens_too_large": (
            f"{role}: max_tokens does not fit into the model's context",
            "Ask for fewer tokens, or serve the model with a longer context.",
        ),
    }.get(
        decision.code,
        (
            f"{role}: the endpoint refuses the request ({decision.code})",
            f"Check base_url, model and extra_body of {entry}; the reply above names what it dislikes.",
        ),
    )
    return FatalEndpointError(
        what, why=f"{endpoint.base_url}, model {endpoint.model}: {decision.message}"[:1000], fix=fix
    )
