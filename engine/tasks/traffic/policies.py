"""Policies for one light: extend the green (True) or switch (False)."""

from __future__ import annotations

import random
from collections.abc import Callable

from engine.tasks.traffic.signals import Observation

Policy = Callable[[Observation], bool]


def max_pressure(seen: Observation) -> bool:
    """Extend while the queue of the current phase is at least the longest other queue.

    Pressure is the mean number of halting vehicles per upstream lane; there is no downstream term. A green below its
    minimum is extended; one that may not be extended is not.
    """
    if seen.elapsed < seen.min_green:
        return True
    if not seen.can_extend:
        return False
    others = [each.queue for index, each in seen.phases.items() if index != seen.phase]
    return not others or seen.phases[seen.phase].queue >= max(others)


def exploring(policy: Policy, share: float, seed: int) -> Policy:
    """``policy``, but a random decision in a ``share`` of the cases, so that stored states differ from its own."""

    def drawn(purpose: str, seen: Observation) -> float:
        """In [0, 1); the same for the same seed, light and time."""
        return random.Random(f"{seed}:{purpose}{seen.junction}:{seen.time:g}").random()  # noqa: S311 - no secret

    def explore(seen: Observation) -> bool:
        return drawn("", seen) < 0.5 if drawn("explore:", seen) < share else policy(seen)

    return explore
