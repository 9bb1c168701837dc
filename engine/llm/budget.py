"""What requests have used, and limits on it: the highest possible cost of an attempt is reserved before it is sent.

An attempt that ends without a known usage, because no reply arrived or it cannot be read, costs what it reserved.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from engine.errors import BudgetExceededError, ConfigurationError


@dataclass
class Spent:
    """Tokens and cost of the requests for one purpose.

    ``cached_tokens`` are the prompt tokens that servers had in their caches, ``reasoning_tokens`` the completion tokens
    of models that think before they answer. ``estimated`` counts the replies without usage: their tokens are the most
    that they may have used.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    estimated: int = 0

    @property
    def estimate_note(self) -> str:
        """What of the tokens is an estimate, to be printed after them; empty if nothing is."""
        if not self.estimated:
            return ""
        return f"; an estimate, at the most, as {self.estimated:,} of the replies came without usage"

    def add(self, other: Spent) -> None:
        """Add what one attempt has used."""
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens", "estimated"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.cost_usd is not None:
            self.cost_usd = other.cost_usd + (self.cost_usd or 0.0)


@dataclass
class Counters(Spent):
    """Totals over all requests of a client. Tokens and cost include failed attempts that reported them.

    ``by_purpose`` has the parts: generation, analysis, ... A snapshot for displays also has the number of requests in
    flight.
    """

    retries: int = 0
    rate_limited: int = 0
    requests_sent: int = 0
    journal_hits: int = 0
    in_flight: int = 0
    by_purpose: dict[str, Spent] = field(default_factory=dict)


class Budget:
    """Tracks spent and reserved amounts and refuses requests that could exceed a limit. For one event loop at a time.

    Args:
        usd: limit in USD; None: unlimited.
        tokens: limit on prompt and completion tokens together; None: unlimited.
    """

    def __init__(self, usd: float | None = None, tokens: int | None = None) -> None:
        self.usd, self.tokens = usd, tokens
        self.spent_usd = 0.0
        self.spent_tokens = 0
        self._held_usd = 0.0
        self._held_tokens = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def hold(self, tokens: int, usd: float | None) -> tuple[int, float]:
        """Reserve the highest possible cost of an attempt. Waits while attempts in flight hold the remaining budget.

        Args:
            tokens: upper bound of prompt and completion tokens.
            usd: upper bound of their price; None if the endpoint has no prices.

        Returns:
            what was reserved, for :meth:`settle`.

        Raises:
            BudgetExceededError: the attempt could exceed a limit even if all attempts in flight cost nothing.
            ConfigurationError: ``usd`` is limited and the endpoint has no prices.
        """
        if self.usd is not None and usd is None:
            raise ConfigurationError(
                "--budget-usd requires prices",
                why="The endpoint has no price_in and price_out, so the cost is unknown.",
                fix="Add both to its entry in the API configuration, or use --budget-tokens.",
            )
        cost = usd or 0.0
        try:
            while not self._fits(self._held_tokens + tokens, self._held_usd + cost):
                if not self._fits(tokens, cost):
                    raise self._exceeded(tokens, cost)
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                await waiter
            self._held_tokens += tokens
            self._held_usd += cost
        finally:
            self._wake_next()  # also after an error: the next request may be smaller
        return tokens, cost

    def settle(self, held: tuple[int, float], tokens: int, usd: float | None) -> None:
        """Release what was reserved and record what the attempt actually cost."""
        self._held_tokens -= held[0]
        self._held_usd -= held[1]
        self.spent_tokens += tokens
        self.spent_usd += usd or 0.0
        self._wake_next()

    def _wake_next(self) -> None:
        """Wake the first waiter; it wakes the next one when it has finished."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _fits(self, more_tokens: int, more_usd: float) -> bool:
        within_tokens = self.tokens is None or self.spent_tokens + more_tokens <= self.tokens
        within_usd = self.usd is None or self.spent_usd + more_usd <= self.usd + 1e-12
        return within_tokens and within_usd

    def _exceeded(self, tokens: int, usd: float) -> BudgetExceededError:
        spent = []
        if self.tokens is not None:
            spent.append(f"spent {self.spent_tokens} tokens of {self.tokens}; the next request may use {tokens} tokens")
        if self.usd is not None:
            spent.append(f"spent {self.spent_usd:.4f} USD of {self.usd:g}; the next request may use {usd:.4f} USD")
        return BudgetExceededError(
            "Budget exhausted: the next request could exceed it",
            why="; ".join(spent) + ". An attempt without a known usage counts as the most that it may have cost.",
            fix="Raise --budget-usd or --budget-tokens, or lower --max-tokens, which bounds a request. The same "
            "command resumes from here.",
        )
