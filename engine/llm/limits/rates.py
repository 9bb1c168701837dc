"""The requests and tokens per minute that an endpoint allows, counted by this process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

WINDOW_S = 60.5
"""Requests count for half a second more than a minute: they do not all take the same time to reach the server."""
_LOOK_S = 1.0
"""Waiting requests look again after this time: those that ended may have used fewer tokens than was expected."""


@dataclass
class Use:
    """One request in the window."""

    sent_at: float
    tokens: int


class MinuteLimits:
    """Lets requests pass in their order, at most ``rpm`` requests and ``tpm`` tokens in a minute. For one event loop.

    Args:
        rpm: requests per minute; None: unlimited.
        tpm: tokens per minute; None: unlimited. A request that is larger waits until no other one is in the window.
        clock: monotonic time in seconds.
        sleep: as ``asyncio.sleep``.
    """

    def __init__(
        self,
        rpm: int | None,
        tpm: int | None,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._rpm, self._tpm = rpm, tpm
        self._clock, self._sleep = clock, sleep
        self._uses: deque[Use] = deque()
        self._tokens = 0
        self._turn = asyncio.Lock()

    async def acquire(self, tokens: int) -> Use:
        """Wait until a request with this expected number of tokens may be sent."""
        async with self._turn:
            while (wait_s := self._wait_s(tokens)) > 0:
                await self._sleep(min(wait_s, _LOOK_S))
            use = Use(self._clock(), tokens)
            self._uses.append(use)
            self._tokens += tokens
            return use

    def correct(self, use: Use, tokens: int) -> None:
        """Count the tokens that a request has used in place of those that were expected."""
        if use.sent_at + WINDOW_S > self._clock():
            self._tokens += tokens - use.tokens
            use.tokens = tokens

    def _wait_s(self, tokens: int) -> float:
        """Seconds until the oldest use leaves the window; 0 if the request fits."""
        now = self._clock()
        while self._uses and self._uses[0].sent_at + WINDOW_S <= now:
            self._tokens -= self._uses.popleft().tokens
        fits = (self._rpm is None or len(self._uses) < self._rpm) and (
            self._tpm is None or self._tokens + tokens <= self._tpm
        )
        return 0.0 if fits or not self._uses else self._uses[0].sent_at + WINDOW_S - now
