"""The way to one endpoint: its connection pool, its slots, its pauses, and what it has shown it can do."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from engine.api_manager import Endpoint
from engine.llm.concurrency import AdaptiveConcurrency, ConcurrencyRule
from engine.llm.journal import ResponseJournal
from engine.llm.protocol import Capabilities
from engine.llm.rate_lease import Permit, RateLease
from engine.llm.rate_limits import Limits, RateLedger

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_CAPABILITIES_AGE_S = 7 * 86400.0
_LEDGER_LOOK_S = 1.0
_CONNECT_S = 10.0
# Servers commonly drop idle connections after 5 s; a request on a connection that is just being dropped fails.
_KEEPALIVE_S = 4.0
_FIRST_GUESS_TOKENS = 2048


class EndpointConnection:
    """All that one client knows of one endpoint. For one event loop.

    Args:
        endpoint: whose limits, address and key these are; roles that share them share the connection.
        scope: the endpoint's id in the ledger.
        rule: how concurrency adapts.
        journal: remembers what the endpoint can do; may be None.
        ledger: shares limits and pauses with other processes; may be None.
        clock: seconds since the epoch.
        sleep: as ``asyncio.sleep``.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        scope: str,
        rule: ConcurrencyRule,
        journal: ResponseJournal | None,
        ledger: RateLedger | None,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.endpoint = endpoint
        self.controller = AdaptiveConcurrency(rule)
        self.answered = False
        self.in_flight = 0
        self.probing = asyncio.Lock()
        self._scope, self._journal, self._ledger = scope, journal, ledger
        self._clock, self._sleep = clock, sleep
        self._queue: deque[asyncio.Future[None]] = deque()
        self._not_before = 0.0
        self._looked_at = 0.0
        self._longest_completion = 0
        self._completion_sum = 0
        self._completion_count = 0
        self._unbooked = (0, 0.0)
        limits = Limits.of(endpoint)
        self._lease = RateLease(ledger, scope, limits, sleep) if ledger and limits.any else None
        facts = journal.capabilities(endpoint.base_url, endpoint.model, _CAPABILITIES_AGE_S) if journal else {}
        self.capabilities = Capabilities.from_facts(facts)
        for parameter in endpoint.never_send:
            self.capabilities = self.capabilities.without(parameter)
        self._sdk = _open_sdk(endpoint, rule.maximum)
        # In full: the SDK takes a relative address apart and joins it to its base anew for every request.
        self._url = f"{endpoint.base_url}/chat/completions"

    # -------------------------------------------------------------- slots and pauses

    async def enter(self, tokens: int) -> Permit | None:
        """Wait for a slot, for the end of a pause, and for the ledger's leave, in this process and in others.

        Args:
            tokens: what the request is likely to take; counts towards ``tpm``.

        Returns:
            what :meth:`leave` wants back.
        """
        while True:
            await self._until_pause_ends()
            await self._take_slot()
            if self._clock() >= self._not_before:  # a pause may have begun while this one queued
                break
            self._free_slot()
        if self._lease is None:
            return None
        try:
            return await self._lease.take(tokens)
        except BaseException:
            self._free_slot()
            raise

    def leave(self, permit: Permit | None, tokens_used: int) -> None:
        """The request has ended, one way or another."""
        self._free_slot()
        if self._lease is not None and permit is not None:
            self._lease.give_back(permit, tokens_used)

    async def pause(self, seconds: float) -> None:
        """The server asked to wait: nobody asks this endpoint before, in no process that shares the ledger."""
        until = self._clock() + seconds
        if until <= self._not_before:
            return
        self._not_before = until
        if self._ledger is not None:
            await asyncio.to_thread(self._ledger.push_back, self._scope, until)

    async def _until_pause_ends(self) -> None:
        now = self._clock()
        if self._ledger is not None and now - self._looked_at >= _LEDGER_LOOK_S:
            self._looked_at = now
            shared = await asyncio.to_thread(self._ledger.not_before, self._scope)
            self._not_before = max(self._not_before, shared)
        while (left := self._not_before - self._clock()) > 0:
            await self._sleep(left)

    async def _take_slot(self) -> None:
        if self.in_flight < self.controller.limit and not self._queue:
            self.in_flight += 1
        else:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():  # the slot was handed over just before
                    self._free_slot()
                raise
        self.controller.sent(self.in_flight)

    def _free_slot(self) -> None:
        self.in_flight -= 1
        while self._queue and self.in_flight < self.controller.limit:
            waiter = self._queue.popleft()
            if not waiter.done():
                self.in_flight += 1
                waiter.set_result(None)

    # -------------------------------------------------------------- what is learnt on the way

    def proved(self, names: Iterable[str]) -> None:
        """These parameters stood in a request that was answered."""
        self.answered = True
        if not self.capabilities.proven.issuperset(names):
            self._remember(self.capabilities.with_proven(names))

    def drop(self, name: str) -> None:
        """The endpoint refuses or ignores this parameter."""
        self._remember(self.capabilities.without(name))

    def _remember(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        if self._journal is not None:
            self._journal.remember_capabilities(self.endpoint.base_url, self.endpoint.model, capabilities.facts())

    def measured(self, completion_tokens: int, samples: int) -> None:
        """So many tokens came for so many samples."""
        self._completion_sum += completion_tokens
        self._completion_count += samples
        self._longest_completion = max(self._longest_completion, -(-completion_tokens // samples))

    def likely_completion(self, max_tokens: int | None) -> int:
        """Tokens that a sample will take, on the average of those so far."""
        if not self._completion_count:
            return max_tokens or _FIRST_GUESS_TOKENS
        mean = -(-self._completion_sum // self._completion_count)
        return mean if max_tokens is None else min(mean, max_tokens)

    def greatest_completion(self, max_tokens: int | None) -> int:
        """Tokens that a sample may take: ``max_tokens``, or without it the most that was seen so far."""
        return max_tokens or self._longest_completion or _FIRST_GUESS_TOKENS

    def add_spent(self, tokens: int, usd: float) -> None:
        """Count what an attempt took; it goes to the ledger's totals when the connection is closed."""
        self._unbooked = (self._unbooked[0] + tokens, self._unbooked[1] + usd)

    # -------------------------------------------------------------- the wire

    async def post(self, body: dict[str, Any], headers: dict[str, str]) -> bytes:
        """Send one request; the reply's body as it came, or the SDK's exception.

        The reply is taken as it is: the SDK's typed path costs as much again as all the rest of a request.
        """
        import httpx2

        response = await self._sdk.post(self._url, cast_to=httpx2.Response, body=body, options={"headers": headers})
        return response.content

    async def close(self) -> None:
        """Give the leases back, book what was spent, close the connections."""
        if self._lease is not None:
            await self._lease.close()
        if self._ledger is not None and self._unbooked != (0, 0.0):
            await asyncio.to_thread(self._ledger.add_spent, self._scope, *self._unbooked)
            self._unbooked = (0, 0.0)
        await self._sdk.close()


def _open_sdk(endpoint: Endpoint, most: int) -> AsyncOpenAI:
    """The SDK on its aiohttp transport, without retries of its own.

    The pool's size is given: without a figure that transport falls back to 100 connections. It is larger than
    the highest concurrency, so that nobody ever queues in the pool, where no clock of ours runs.
    """
    import httpx2
    from openai import AsyncOpenAI, DefaultAioHttpClient

    timeout = httpx2.Timeout(endpoint.timeout_s, connect=_CONNECT_S)
    limits = httpx2.Limits(max_connections=most + 16, keepalive_expiry=_KEEPALIVE_S)
    return AsyncOpenAI(
        api_key=endpoint.api_key.get_secret_value(),
        base_url=endpoint.base_url,
        max_retries=0,
        timeout=timeout,
        http_client=DefaultAioHttpClient(limits=limits, timeout=timeout),
    )
