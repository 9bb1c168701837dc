"""This process's part of an endpoint's limits: taken without a transaction, refilled in the background."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from engine.llm.rate_limits import Grant, LeaseRequest, LedgerError, Limits, RateLedger

_BEAT_S = 1.0
_POLL_S = 0.25
_LEAST_NAP_S = 0.02


@dataclass(frozen=True)
class Permit:
    """Leave to send one request: so many tokens set aside, counted from ``granted_at``."""

    tokens: int
    granted_at: float


@dataclass
class _Waiter:
    tokens: int
    future: asyncio.Future[Permit] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class RateLease:
    """Hands out tickets within what the ledger has leased to this process. For one event loop.

    Args:
        ledger: the ledger of all processes.
        scope: the endpoint's id in it.
        limits: the endpoint's limits.
        sleep: as ``asyncio.sleep``.
    """

    def __init__(
        self, ledger: RateLedger, scope: str, limits: Limits, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._ledger, self._scope, self._limits, self._sleep = ledger, scope, limits, sleep
        self._holder = uuid.uuid4().hex
        self._waiters: deque[_Waiter] = deque()
        self._slots = 0
        self._in_use = 0
        self._requests = 0
        self._tokens = 0
        self._granted_at = 0.0
        self._taken_requests = 0
        self._taken_tokens = 0
        self._corrections: list[tuple[float, int, int]] = []
        self._keeper: asyncio.Task[None] | None = None
        self._nap: asyncio.Future[None] | None = None
        self._newcomers = False
        self._closing = False
        self._grant = Grant(slots=0, requests=0, tokens=0, granted_at=0.0, retry_in_s=0.0)

    async def take(self, tokens: int) -> Permit:
        """Wait for leave to send one request.

        Args:
            tokens: what it may take, prompt and completion; more than ``tpm`` is counted as ``tpm``.

        Raises:
            LedgerError: the ledger's file cannot be used.
        """
        if self._limits.tpm is not None:
            tokens = min(tokens, self._limits.tpm)
        if not self._waiters and self._can_take(tokens):
            return self._hand_out(tokens)
        waiter = _Waiter(tokens)
        self._waiters.append(waiter)
        self._newcomers = True
        self._wake_keeper()
        try:
            return await waiter.future
        except asyncio.CancelledError:
            if waiter.future.done() and not waiter.future.cancelled() and not waiter.future.exception():
                self.give_back(waiter.future.result(), 0)
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def give_back(self, permit: Permit, tokens_used: int) -> None:
        """The request has ended; its slot is free, and what it really took is booked."""
        self._in_use -= 1
        if self._limits.tpm is not None and tokens_used != permit.tokens:
            # Booked at the permit's own time, so that both leave the minute together.
            self._corrections.append((permit.granted_at, 0, tokens_used - permit.tokens))
        self._serve()
        if self._waiters:
            self._wake_keeper()

    async def close(self) -> None:
        """Give all back. Whoever still waits is cancelled."""
        self._closing = True
        while self._waiters:
            self._waiters.popleft().future.cancel()
        if self._keeper is not None:
            if self._nap is not None:
                self._nap.cancel()
            await asyncio.wait({self._keeper})

    def _can_take(self, tokens: int) -> bool:
        limits = self._limits
        return (
            (limits.max_concurrency is None or self._in_use < self._slots)
            and (limits.rpm is None or self._requests >= 1)
            and (limits.tpm is None or self._tokens >= tokens)
        )

    def _hand_out(self, tokens: int) -> Permit:
        self._in_use += 1
        self._taken_requests += 1
        self._taken_tokens += tokens
        self._requests -= 1 if self._limits.rpm is not None else 0
        self._tokens -= tokens if self._limits.tpm is not None else 0
        return Permit(tokens, self._granted_at)

    def _serve(self) -> None:
        while self._waiters and self._can_take(self._waiters[0].tokens):
            waiter = self._waiters.popleft()
            if not waiter.future.done():
                waiter.future.set_result(self._hand_out(waiter.tokens))

    # -------------------------------------------------------------- the keeper

    def _wake_keeper(self) -> None:
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.get_running_loop().create_task(self._keep())
        elif self._nap is not None:
            self._nap.cancel()

    async def _keep(self) -> None:
        """Exchange with the ledger while there is anything in flight or waiting, then leave it."""
        try:
            while (self._in_use or self._waiters) and not self._closing:
                await self._exchange()
                if not (self._newcomers and self._waiters):  # they came too late to be asked for
                    await self._rest()
            self._slots = 0
            await asyncio.to_thread(self._ledger.leave, self._scope, self._unused(), self._holder)
            if self._waiters:  # they came while it left
                self._keeper = asyncio.get_running_loop().create_task(self._keep())
        except LedgerError as error:
            self._slots = 0
            while self._waiters:
                waiter = self._waiters.popleft()
                if not waiter.future.done():
                    waiter.future.set_exception(error)

    async def _exchange(self) -> None:
        unused = self._unused()
        self._slots = min(self._slots, self._in_use)  # what is reported must hold until the answer is here
        self._newcomers = False
        waiting = len(self._waiters)
        recent_requests, recent_tokens = self._taken_requests, self._taken_tokens
        self._taken_requests = self._taken_tokens = 0
        need = LeaseRequest(
            holder=self._holder,
            in_use=self._in_use,
            # Twice what is needed: a growing load then costs a logarithm of exchanges, not one a request.
            demand=2 * (self._in_use + waiting),
            requests=waiting + recent_requests,
            tokens=sum(waiter.tokens for waiter in self._waiters) + recent_tokens,
            least_tokens=self._waiters[0].tokens if self._waiters else 0,
            corrections=unused,
        )
        grant = await asyncio.to_thread(self._ledger.exchange, self._scope, self._limits, need)
        self._slots, self._requests, self._tokens = grant.slots, grant.requests, grant.tokens
        self._granted_at = grant.granted_at
        self._grant = grant
        self._serve()

    def _unused(self) -> tuple[tuple[float, int, int], ...]:
        """What is to be corrected in the ledger, the rest of the last lease included; it is given up here."""
        requests = self._requests if self._limits.rpm is not None else 0
        tokens = self._tokens if self._limits.tpm is not None else 0
        if requests or tokens:
            self._corrections.append((self._granted_at, -requests, -tokens))
        self._requests = self._tokens = 0
        corrections, self._corrections = tuple(self._corrections), []
        return corrections

    async def _rest(self) -> None:
        """Sleep until the next exchange may help; a new waiter ends it early."""
        if self._closing:
            return
        seconds = _BEAT_S
        if self._waiters:
            starved = self._in_use < self._slots or self._limits.max_concurrency is None
            seconds = min(_BEAT_S, max(_LEAST_NAP_S, self._grant.retry_in_s)) if starved else _POLL_S
        self._nap = asyncio.ensure_future(self._sleep(seconds))
        await asyncio.wait({self._nap})
        self._nap = None
