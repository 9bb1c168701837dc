"""Policies for one light: extend the green (True) or switch (False)."""

from __future__ import annotations

import random
from collections.abc import Callable

from engine.tasks.traffic.signals import Observation

Policy = Callable[[Observation], bool]


def max_pressure(seen: Observation, threshold: float = 0.0) -> bool:
    """Extend while the queue of the current phase is at least the longest other queue plus ``threshold``.

    Pressure is the mean number of halting vehicles per upstream lane; there is no downstream term. A green below its
    minimum is extended; one that may not be extended is not.
    """
    if seen.elapsed < seen.min_green:
        return True
    if not seen.can_extend:
        return False
    others = [each.queue for index, each in seen.phases.items() if index != seen.phase]
    return not others or seen.phases[seen.phase].queue >= max(others) + threshold


def always_extend(seen: Observation) -> bool:
    """Extend up to the longest green."""
    return seen.can_extend


def always_switch(seen: Observation) -> bool:
    """Switch at the shortest green."""
    return False


def random_policy(seed: int) -> Policy:
    """Extend or switch with equal probability; the same for the same seed, light and time."""

    def policy(seen: Observation) -> bool:
        return random.Random(f"{seed}:{seen.junction}:{seen.time:g}").random() < 0.5  # noqa: S311 - no secret

    return policy


def exploring(policy: Policy, share: float, seed: int) -> Policy:
    """``policy``, but a random decision in a ``share`` of the cases, so that stored states differ from its own."""
    chance = random_policy(seed)

    def explore(seen: Observation) -> bool:
        explores = random.Random(f"{seed}:explore:{seen.junction}:{seen.time:g}").random() < share  # noqa: S311
        return chance(seen) if explores else policy(seen)

    return explore


BASELINES: dict[str, Policy] = {"max-pressure": max_pressure, "extend": always_extend, "switch": always_switch}
"""Policies without state or seed, by the names of ``--policy``."""


def local_policy(name: str, seed: int) -> Policy:
    """A policy of :data:`BASELINES`, or ``random`` with a seed."""
    return random_policy(seed) if name == "random" else BASELINES[name]
