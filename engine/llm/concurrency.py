"""How many requests may be in flight: grows while the server keeps up, shrinks when it says 429."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ConcurrencyRule:
    """The figures of the controller.

    Args:
        start: the first limit.
        maximum: the highest limit; the endpoint's ``max_concurrency`` where it has one.
        growth: the share added after a clean round, once a 429 has been seen; before, the limit doubles.
        cut: the factor on a 429.
        saturation: the share of the limit that must have been in flight in a round for it to count.
        cooldown_s: seconds after a cut in which there is neither another cut nor growth.
    """

    start: int = 20
    maximum: int = 1000
    growth: float = 0.05
    cut: float = 0.8
    saturation: float = 0.8
    cooldown_s: float = 5.0


class AdaptiveConcurrency:
    """The controller: told what happened, it answers with ``limit``. No clock, no waiting, no IO.

    A round is ``max(limit, 4)`` successes. It is clean when no 429 and no 5xx fell into it. Only a 429 cuts;
    a 5xx says nothing about how much is too much, so it merely begins the round anew. Replies from the
    journal are not reported here at all.
    """

    def __init__(self, rule: ConcurrencyRule | None = None) -> None:
        self._rule = rule or ConcurrencyRule()
        self.limit = max(1, min(self._rule.start, self._rule.maximum))
        self._slow_start = True
        self._successes = 0
        self._peak = 0
        self._last_cut = -math.inf
        self._frozen_until = -math.inf

    def sent(self, in_flight: int) -> None:
        """A request went out; ``in_flight`` counts it. Sampled here, where the peak is."""
        if in_flight > self._peak:
            self._peak = in_flight

    def succeeded(self, now: float) -> None:
        """A reply came. Successes of a cooldown were admitted under the old limit and prove nothing."""
        if now < self._frozen_until:
            return
        self._successes += 1
        if self._successes < max(self.limit, 4):
            return
        if self._peak >= self._rule.saturation * self.limit:
            self._grow()
        self._new_round()

    def rate_limited(self, now: float, sent_at: float, wait_s: float | None) -> None:
        """A 429 came for a request sent at ``sent_at``; ``wait_s`` is what the server asked for.

        Requests that were in flight when the limit was cut belong to the same episode: they do not cut again.
        """
        self._slow_start = False
        self._new_round()
        if sent_at < self._last_cut or now < self._frozen_until:
            return
        self.limit = max(1, math.floor(self.limit * self._rule.cut))
        self._last_cut = now
        self._frozen_until = now + max(self._rule.cooldown_s, wait_s or 0.0)

    def server_failed(self) -> None:
        """A 5xx, a reset or a timeout came: the round is not clean."""
        self._new_round()

    def _grow(self) -> None:
        step = self.limit if self._slow_start else max(1, math.floor(self.limit * self._rule.growth))
        self.limit = min(self._rule.maximum, self.limit + step)

    def _new_round(self) -> None:
        self._successes = 0
        self._peak = 0
