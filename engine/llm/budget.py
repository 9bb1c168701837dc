"""A ceiling on money and tokens: what an attempt may cost is set aside before it is sent."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from engine.errors import BudgetExceededError, ConfigurationError


@dataclass(frozen=True)
class Hold:
    """What one attempt has set aside."""

    tokens: int
    usd: float


class Budget:
    """Counts what is spent and what is set aside; refuses what could pass a limit. For one event loop.

    Args:
        usd: the most money, or None.
        tokens: the most prompt and completion tokens together, or None.
    """

    def __init__(self, usd: float | None = None, tokens: int | None = None) -> None:
        self.usd, self.tokens = usd, tokens
        self.spent_usd = 0.0
        self.spent_tokens = 0
        self._held_usd = 0.0
        self._held_tokens = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def limited(self) -> bool:
        """Whether there is any limit to keep."""
        return self.usd is not None or self.tokens is not None

    async def hold(self, tokens: int, usd: float | None) -> Hold:
        """Set aside the most that an attempt may cost; waits while others in flight hold what is left.

        Args:
            tokens: prompt and completion tokens at most.
            usd: their price at most; None where the endpoint has no prices.

        Raises:
            BudgetExceededError: it could pass a limit even if all others in flight cost nothing.
            ConfigurationError: money is limited and the endpoint has no prices.
        """
        if self.usd is not None and usd is None:
            raise ConfigurationError(
                "--budget-usd needs prices",
                why="The endpoint has no price_in and price_out, so its cost cannot be known.",
                fix="Add both to its entry in the API configuration, or use --budget-tokens.",
            )
        hold = Hold(tokens, usd or 0.0)
        try:
            await self._until_it_fits(hold)
        finally:
            self._wake_next()  # also when this one gave up: the next may be smaller
        self._held_tokens += hold.tokens
        self._held_usd += hold.usd
        return hold

    def settle(self, hold: Hold, tokens: int, usd: float | None) -> None:
        """Give the hold back and book what the attempt really cost."""
        self._held_tokens -= hold.tokens
        self._held_usd -= hold.usd
        self.spent_tokens += tokens
        self.spent_usd += usd or 0.0
        self._wake_next()

    async def _until_it_fits(self, hold: Hold) -> None:
        waiter: asyncio.Future[None] | None = None
        while True:
            if not self._fits(hold.tokens, hold.usd):
                raise self._exceeded(hold)
            if self._fits(self._held_tokens + hold.tokens, self._held_usd + hold.usd):
                return
            first_time = waiter is None
            waiter = asyncio.get_running_loop().create_future()
            if first_time:
                self._waiters.append(waiter)
            else:  # it was the first in the line and stays so
                self._waiters.appendleft(waiter)
            await waiter

    def _wake_next(self) -> None:
        """Wake the first that still waits; it wakes the next when it is through."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _fits(self, more_tokens: int, more_usd: float) -> bool:
        within_tokens = self.tokens is None or self.spent_tokens + more_tokens <= self.tokens
        within_usd = self.usd is None or self.spent_usd + more_usd <= self.usd + 1e-12
        return within_tokens and within_usd

    def _exceeded(self, hold: Hold) -> BudgetExceededError:
        return BudgetExceededError(
            "The budget is used up: the next request could pass it",
            why=f"spent: {self.spent_tokens} tokens, {self.spent_usd:.4f} USD; "
            f"the next request may take {hold.tokens} tokens, {hold.usd:.4f} USD; "
            f"limits: {'no' if self.tokens is None else self.tokens} tokens, "
            f"{'no' if self.usd is None else self.usd} USD",
            fix="Raise --budget-usd or --budget-tokens, or lower max_tokens; the same command goes on from here.",
        )
