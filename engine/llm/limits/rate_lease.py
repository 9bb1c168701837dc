"""This process's share of an endpoint's rate limits: permits are granted locally and renewed in the background."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from engine.llm.interfaces import Ledger
from engine.llm.limits.rate_limits import SLOT_S, Correction, Grant, LeaseRequest, LedgerError, RateLimits

_POLL_PART = 0.25
_MIN_WAIT_PART = 0.02
"""While callers wait for a slot or a permit, the grant is renewed after these parts of the usual time."""


@dataclass(frozen=True)
class Permit:
    """Permission to send one request. Its tokens are reserved and counted from ``sent_at``."""

    tokens: int
    sent_at: float


class RateLease:
    """Issues permits within the grant that the ledger gave to this process. For one event loop.

    A background task renews the grant about once a second while permits are in use or requested, or as often as the
    ledger says.

    Args:
        ledger: the ledger shared by all processes.
        scope: the endpoint's id in the ledger.
        limits: the endpoint's limits.
        sleep: as ``asyncio.sleep``.
    """

    def __init__(
        self, ledger: Ledger, scope: str, limits: RateLimits, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._ledger, self._scope, self._limits, self._sleep = ledger, scope, limits, sleep
        self._holder = uuid.uuid4().hex
        self._waiters: deque[tuple[int, asyncio.Future[Permit]]] = deque()
        self._in_use = 0
        self._remaining = Grant()
        """What is left of the last grant."""
        self._issued: dict[float, tuple[int, int]] = {}
        """Requests and tokens issued since the last renewal, by the end of the time slot in which they were."""
        self._corrections: list[Correction] = []
        self._wake = asyncio.Event()
        self._renewal: asyncio.Task[None] | None = None
        self._closing = False

    async def acquire(self, tokens: int) -> Permit:
        """Wait for a permit to send one request.

        Args:
            tokens: estimated prompt and completion tokens; counted as ``tpm`` if they exceed it.

        Raises:
            LedgerError: the ledger's file cannot be used.
        """
        if self._limits.tpm is not None:
            tokens = min(tokens, self._limits.tpm)
        if not self._waiters and self._available(tokens):
            return self._issue(tokens)
        future: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        waiter = (tokens, future)
        self._waiters.append(waiter)
        self._wake_renewal()
        try:
            return await future
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            elif not future.cancelled() and not future.exception():  # issued just before the cancellation
                self.release(future.result(), 0)
            raise

    def release(self, permit: Permit, tokens_used: int) -> None:
        """Return the slot of a finished request and correct its token count."""
        self._in_use -= 1
        if self._limits.tpm is not None and tokens_used != permit.tokens:
            self._corrections.append(Correction(permit.sent_at, 0, tokens_used - permit.tokens))
        self._issue_to_waiters()
        if self._waiters:
            self._wake_renewal()

    async def close(self) -> None:
        """Cancel the waiters and return the grant to the ledger."""
        self._closing = True
        while self._waiters:
            self._waiters.popleft()[1].cancel()
        if self._renewal is not None:
            self._wake.set()
            await asyncio.wait({self._renewal})

    def _available(self, tokens: int) -> bool:
        limits, left = self._limits, self._remaining
        return (
            (limits.max_concurrency is None or self._in_use < left.slots)
            and (limits.rpm is None or left.requests >= 1)
            and (limits.tpm is None or left.tokens >= tokens)
        )

    def _issue(self, tokens: int) -> Permit:
        self._in_use += 1
        sent_at = math.ceil(self._ledger.clock() / SLOT_S) * SLOT_S
        requests, before = self._issued.get(sent_at, (0, 0))
        self._issued[sent_at] = (requests + 1, before + tokens)
        self._remaining.requests -= 1
        self._remaining.tokens -= tokens
        return Permit(tokens, sent_at)

    def _issue_to_waiters(self) -> None:
        while self._waiters and self._available(self._waiters[0][0]):
            tokens, future = self._waiters.popleft()
            if not future.done():
                future.set_result(self._issue(tokens))

    def _wake_renewal(self) -> None:
        self._wake.set()
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        """Renew the grant while permits are in use or requested, then return it."""
        try:
            while True:
                active = bool(self._in_use or self._waiters) and not self._closing
                self._wake.clear()
                await self._exchange(active)
                if active:
                    await self._pause()
                elif self._closing or not self._waiters:
                    return
        except LedgerError as error:
            self._remaining = Grant()
            while self._waiters:
                _, future = self._waiters.popleft()
                if not future.done():
                    future.set_exception(error)

    async def _exchange(self, active: bool) -> None:
        """Return the rest of the last grant and get a new one; none if this lease is not active.

        What was issued counts from its sending: it leaves the last grant together with the rest, and is added again
        at the time of sending.
        """
        rest = self._remaining
        issued = sum(requests for requests, _ in self._issued.values())
        issued_tokens = sum(tokens for _, tokens in self._issued.values())
        has_rpm, has_tpm = self._limits.rpm is not None, self._limits.tpm is not None
        moved = [
            Correction(rest.granted_at, -(rest.requests + issued), -(rest.tokens + issued_tokens)),
            *(Correction(sent_at, *counts) for sent_at, counts in self._issued.items()),
        ]
        for correction in moved:
            limited = Correction(correction.granted_at, correction.requests * has_rpm, correction.tokens * has_tpm)
            if limited.requests or limited.tokens:
                self._corrections.append(limited)
        self._issued.clear()
        # No permit is issued during the exchange, so that the reported number of slots in use stays true.
        self._remaining = Grant()
        request = LeaseRequest(holder=self._holder, corrections=tuple(self._corrections))
        self._corrections.clear()
        if active:
            waiting = len(self._waiters)
            request = replace(
                request,
                in_use=self._in_use,
                # Twice the current need: a growing load then takes a logarithmic number of exchanges.
                demand=2 * (self._in_use + waiting),
                requests=waiting + issued,
                tokens=sum(tokens for tokens, _ in self._waiters) + issued_tokens,
                min_tokens=self._waiters[0][0] if self._waiters else 0,
            )
        self._remaining = await asyncio.to_thread(self._ledger.exchange, self._scope, self._limits, request)
        self._issue_to_waiters()

    async def _pause(self) -> None:
        """Sleep until the next renewal is useful. A new waiter or :meth:`close` ends the pause."""
        seconds = renew_s = self._remaining.renew_in_s
        if self._waiters:
            has_slots = self._in_use < self._remaining.slots or self._limits.max_concurrency is None
            retry_s = max(_MIN_WAIT_PART * renew_s, self._remaining.retry_in_s)
            seconds = min(renew_s, retry_s) if has_slots else _POLL_PART * renew_s
        pause = {asyncio.ensure_future(self._sleep(seconds)), asyncio.ensure_future(self._wake.wait())}
        await asyncio.wait(pause, return_when=asyncio.FIRST_COMPLETED)
        for part in pause:
            part.cancel()
