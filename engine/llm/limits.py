"""What bounds the requests to an endpoint: how many are in flight, and how many and how large they are in a minute.

The number in flight is adaptive: the limit grows while the server keeps up and shrinks on HTTP 429.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

_GROWTH = 0.05
"""Relative increase after a clean round once a 429 has occurred; before that the limit doubles."""
_CUT = 0.8
"""Factor applied to the limit on a 429."""
_SATURATION = 0.8
"""Share of the limit that must have been in flight during a round for the limit to grow."""
_COOLDOWN_S = 5.0
"""Seconds after a cut without another cut and without growth."""
WINDOW_S = 60.5
"""Requests count for half a second more than a minute: they do not all take the same time to reach the server."""
_LOOK_S = 1.0
"""Waiting requests look again after this time: those that ended may have used fewer tokens than was expected."""


@dataclass(frozen=True)
class ConcurrencyRule:
    """Parameters of the controller.

    Args:
        start: initial limit.
        maximum: highest limit.
    """

    start: int = 20
    maximum: int = 1000


class AdaptiveConcurrency:
    """Computes ``limit`` from reported events. No clock, no waiting, no IO.

    A round is ``max(limit, 4)`` successes; it is clean if no 429 and no 5xx occurred in it. A 429 reduces the
    limit. A 5xx does not show that the load is too high, so it only restarts the round. Replies from the journal are
    not reported.
    """

    def __init__(self, rule: ConcurrencyRule) -> None:
        self.maximum = rule.maximum
        self.limit = max(1, min(rule.start, self.maximum))
        self._slow_start = True
        self._successes = 0
        self._peak = 0
        self._last_cut = -math.inf
        self._frozen_until = -math.inf

    def sent(self, in_flight: int) -> None:
        """Report a sent request; ``in_flight`` includes it."""
        self._peak = max(self._peak, in_flight)

    def succeeded(self, now: float) -> None:
        """Report a reply. Replies during a cooldown are ignored: their requests were sent under the old limit."""
        if now < self._frozen_until:
            return
        self._successes += 1
        if self._successes < max(self.limit, 4):
            return
        if self._peak >= _SATURATION * self.limit:
            step = self.limit if self._slow_start else max(1, math.floor(self.limit * _GROWTH))
            self.limit = min(self.maximum, self.limit + step)
        self.restart_round()

    def rate_limited(self, now: float, sent_at: float, wait_s: float | None) -> None:
        """Report a 429 for a request sent at ``sent_at``; ``wait_s`` is the wait that the server asked for.

        A 429 for a request that was in flight during the last cut does not cut again.
        """
        self._slow_start = False
        self.restart_round()
        if sent_at < self._last_cut or now < self._frozen_until:
            return
        self.limit = max(1, math.floor(self.limit * _CUT))
        self._last_cut = now
        self._frozen_until = now + max(_COOLDOWN_S, wait_s or 0.0)

    def restart_round(self) -> None:
        """Begin another round, as after a 5xx, a reset or a timeout: this one is not clean."""
        self._successes = 0
        self._peak = 0


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
