"""Policies for one light: extend the green (True) or switch (False)."""

from __future__ import annotations

import random
from collections.abc import Callable

from engine.tasks.traffic.signals import Observation

Policy = Callable[[Observation], bool]


def max_pressure(light: Observation) -> bool:
    """Extend while the queue of the current phase is at least the longest other queue.

    Pressure is the mean number of halting vehicles per upstream lane; there is no downstream term. A green below its
    minimum is extended; one that may not be extended is not.
    """
    if light.elapsed < light.min_green:
        return True
    if not light.can_extend:
        return False
    others = [phase.queue for index, phase in light.phases.items() if index != light.phase]
    return not others or light.phases[light.phase].queue >= max(others)


def exploring(policy: Policy, share: float, seed: int) -> Policy:
    """``policy``, but a random decision in a ``share`` of the cases, so that stored states differ from its own."""

    def drawn(purpose: str, light: Observation) -> float:
        """In [0, 1); the same for the same seed, light and time."""
        return random.Random(f"{seed}:{purpose}{light.junction}:{light.time:g}").random()  # noqa: S311 - no secret

    def explore(light: Observation) -> bool:
        return drawn("", light) < 0.5 if drawn("explore:", light) < share else policy(light)

    return explore
