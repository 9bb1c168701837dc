"""Adaptive concurrency: the limit grows while the server keeps up and shrinks on HTTP 429."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_KNOWN_START = 64
"""Initial limit if the endpoint has a ``max_concurrency`` and it is not smaller."""
_GROWTH = 0.05
"""Relative increase after a clean round once a 429 has occurred; before that the limit doubles."""
_CUT = 0.8
"""Factor applied to the limit on a 429."""
_SATURATION = 0.8
"""Share of the limit that must have been in flight during a round for the limit to grow."""
_COOLDOWN_S = 5.0
"""Seconds after a cut without another cut and without growth."""


@dataclass(frozen=True)
class ConcurrencyRule:
    """Parameters of the controller.

    Args:
        start: initial limit.
        maximum: highest limit; the endpoint's ``max_concurrency`` if it has one.
    """

    start: int = 20
    maximum: int = 1000

    def capped(self, maximum: int | None) -> ConcurrencyRule:
        """The rule for an endpoint with this ``max_concurrency``, which it is known to take; None: not known."""
        if maximum is None:
            return self
        return replace(self, start=max(self.start, min(maximum, _KNOWN_START)), maximum=maximum)


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
        if in_flight > self._peak:
            self._peak = in_flight

    def succeeded(self, now: float) -> None:
        """Report a reply. Replies during a cooldown are ignored: their requests were sent under the old limit."""
        if now < self._frozen_until:
            return
        self._successes += 1
        if self._successes < max(self.limit, 4):
            return
        if self._peak >= _SATURATION * self.limit:
            self._grow()
        self._new_round()

    def rate_limited(self, now: float, sent_at: float, wait_s: float | None) -> None:
        """Report a 429 for a request sent at ``sent_at``; ``wait_s`` is the wait that the server asked for.

        A 429 for a request that was in flight during the last cut does not cut again.
        """
        self._slow_start = False
        self._new_round()
        if sent_at < self._last_cut or now < self._frozen_until:
            return
        self.limit = max(1, math.floor(self.limit * _CUT))
        self._last_cut = now
        self._frozen_until = now + max(_COOLDOWN_S, wait_s or 0.0)

    def server_failed(self) -> None:
        """Report a 5xx, a reset or a timeout: the round is not clean."""
        self._new_round()

    def _grow(self) -> None:
        step = self.limit if self._slow_start else max(1, math.floor(self.limit * _GROWTH))
        self.limit = min(self.maximum, self.limit + step)

    def _new_round(self) -> None:
        self._successes = 0
        self._peak = 0
