"""Statistics of a group of rewards: mean, std, advantages, trigger; and an alarm for constant reward components."""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.records import GroupStats

_NOISE = 1e-9
"""Differences below this are rounding errors: rewards are sums of a few products in [0, 1]."""


def group_stats(r_totals: Sequence[float], tau: float) -> GroupStats:
    """Statistics of one complete group.

    Args:
        r_totals: the G total rewards of the group, in rollout order.
        tau: extract experiences if the standard deviation is greater than this.

    Returns:
        mean; std, the population standard deviation (division by G); advantages, ``(r - mean) / std``, in
        rollout order and all 0.0 if std is 0; triggered, ``std > tau``. Rewards that differ by rounding errors count
        as equal, and a std that exceeds tau by a rounding error does not trigger. The advantage is that of GRPO
        (Shao et al. 2024, section 4.1.2) without an epsilon in the divisor: a std of 0 is handled separately.

    Raises:
        ValueError: no rewards, a reward that is not finite, or a negative tau.
    """
    if not r_totals:
        raise ValueError("expected at least one reward, got none")
    if not all(math.isfinite(reward) for reward in r_totals):
        raise ValueError(f"rewards must be finite, got {list(r_totals)}")
    if not tau >= 0:
        raise ValueError(f"tau must be at least 0, got {tau}")
    if max(r_totals) - min(r_totals) <= _NOISE:
        return GroupStats(mean=r_totals[0], std=0.0, advantages=[0.0] * len(r_totals), triggered=False)
    mean = math.fsum(r_totals) / len(r_totals)
    std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in r_totals) / len(r_totals))
    advantages = [(reward - mean) / std for reward in r_totals]
    return GroupStats(mean=mean, std=std, advantages=advantages, triggered=std - tau > _NOISE)


def combine_rewards(components: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
    """The total reward: the weighted mean of the measured components.

    Args:
        components: name -> reward in [0, 1], or None if it could not be measured.
        weights: name -> weight, at least 0; they need not sum to 1. A weight without a component is ignored.

    Returns:
        ``sum(w * r) / sum(w)`` over the measured components; None if no component with a weight was measured.

    Raises:
        ValueError: a measured component has no weight, or a number is negative or not finite.
    """
    measured = {name: value for name, value in components.items() if value is not None}
    for name, value in measured.items():
        if name not in weights:
            raise ValueError(f"no weight for component {name!r}; weights: {', '.join(sorted(weights))}")
        if not (math.isfinite(value) and value >= 0 and math.isfinite(weights[name]) and weights[name] >= 0):
            raise ValueError(f"invalid reward or weight: {name} = {value}, weight {weights[name]}")
    weight = math.fsum(weights[name] for name in measured)
    if weight == 0:
        return None
    return math.fsum(weights[name] * value for name, value in measured.items()) / weight


@dataclass(frozen=True)
class DeadReward:
    """Alarm: ``component`` had the value ``value`` in every rollout of the last ``groups`` groups."""

    component: str
    value: float
    groups: int
    rollouts: int

    @property
    def reason(self) -> str:
        """The alarm in one sentence."""
        if self.value <= _NOISE:
            cause = "the problems are too hard, or the check passes nothing"
        elif abs(self.value - 1) <= _NOISE:
            cause = "the problems are too easy, or the check passes everything"
        else:
            cause = "a constant component gives no training signal"
        return (
            f"{self.component} was {self.value:g} in all {self.rollouts} rollouts of the last "
            f"{self.groups} groups: {cause}"
        )


@dataclass
class ComponentSummary:
    """One component over a run so far.

    Args:
        component: its name.
        recent: its last groups, as (lowest value, highest value, number of values).
        groups, rollouts: in which it was measured.
        low, high: its lowest and highest value.
        alarms: how often it became dead.
        dead: the alarm, as long as it is dead.
    """

    component: str
    recent: deque[tuple[float, float, int]]
    groups: int = 0
    rollouts: int = 0
    low: float = math.inf
    high: float = -math.inf
    alarms: int = 0
    dead: DeadReward | None = None

    def feed(self, values: Sequence[float]) -> DeadReward | None:
        """Add a group; returns the alarm if one starts."""
        low, high = min(values), max(values)
        self.recent.append((low, high, len(values)))
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.groups += 1
        self.rollouts += len(values)
        was_dead, self.dead = self.dead is not None, self._check()
        if self.dead is None or was_dead:
            return None
        self.alarms += 1
        return self.dead

    def _check(self) -> DeadReward | None:
        if len(self.recent) < (self.recent.maxlen or 0):
            return None
        low = min(entry[0] for entry in self.recent)
        high = max(entry[1] for entry in self.recent)
        if high - low > _NOISE:
            return None
        return DeadReward(self.component, high, len(self.recent), sum(entry[2] for entry in self.recent))


class DeadRewardWatch:
    """Detects reward components that no longer vary.

    A component is dead if all values measured in its last ``window`` groups are equal. Groups in which it was not
    measured (None) do not count. After an alarm, the next one requires that the component has varied in between.

    Args:
        window: number of groups, at least 2.
    """

    def __init__(self, window: int = 10) -> None:
        if window < 2:
            raise ValueError(f"window must be at least 2, got {window}")
        self._window = window
        self._components: dict[str, ComponentSummary] = {}

    def feed(self, components: Mapping[str, Sequence[float | None]]) -> list[DeadReward]:
        """Add one complete group.

        Args:
            components: name -> the group's G values of the component, None if not measured.

        Returns:
            the alarms that start with this group, in order of ``components``.
        """
        alarms = []
        for name, values in components.items():
            measured = [value for value in values if value is not None]
            if measured:
                component = self._components.setdefault(name, ComponentSummary(name, deque(maxlen=self._window)))
                if alarm := component.feed(measured):
                    alarms.append(alarm)
        return alarms

    def summary(self) -> list[ComponentSummary]:
        """All components that were measured, in order of their first group."""
        return [replace(component) for component in self._components.values()]


def majority(answers: Sequence[str | None], same: Callable[[str, str], bool] = operator.eq) -> list[int]:
    """The indices of the answers that equal the most frequent one; none if several are equally frequent.

    Args:
        answers: one for each candidate; None is not counted as an answer.
        same: whether two different texts are the same answer. An answer counts for the first one that it equals.
            Surrounding white space is removed before.
    """
    classes: list[tuple[str, list[int]]] = []
    for index, answer in enumerate(answers):
        if answer is None:
            continue
        text = answer.strip()
        known = next((members for first, members in classes if text == first or same(text, first)), None)
        if known is None:
            classes.append((text, [index]))
        else:
            known.append(index)
    most = max((len(members) for _, members in classes), default=0)
    largest = [members for _, members in classes if len(members) == most]
    return largest[0] if len(largest) == 1 else []
