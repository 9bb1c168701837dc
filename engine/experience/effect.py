"""What the rewards say about an experience: paired where problems were answered with and without it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from engine.statistics.paired import Estimate, clustered_share, paired_difference

MIN_PAIRS = 2
"""Problems with both kinds of answers that a paired difference needs."""


class Use(NamedTuple):
    """One judged rollout: its problem, whether the experience was in its prompt, and whether it is right."""

    problem_id: str
    is_present: bool
    is_correct: bool


@dataclass(frozen=True)
class Effect:
    """The figures of one experience.

    Args:
        paired: share right with it minus share right without it, over the problems that were answered in both ways;
            None if there are fewer than two. It is an effect only as far as the prompts differ in nothing else.
        when_present: share right of the rollouts with it. No effect: later and easier problems are in it.
    """

    paired: Estimate | None
    when_present: Estimate | None


def effect_of(uses: Iterable[Use]) -> Effect:
    """The figures of an experience from the rollouts that could have used it."""
    present: dict[str, list[float]] = {}
    absent: dict[str, list[float]] = {}
    for use in uses:
        side = present if use.is_present else absent
        side.setdefault(use.problem_id, []).append(float(use.is_correct))
    pairs = len(present.keys() & absent.keys())
    return Effect(
        paired_difference(present, absent) if pairs >= MIN_PAIRS else None,
        clustered_share(present) if present else None,
    )


def described(effect: Effect) -> str:
    """The figures as one line."""
    if effect.paired is not None:
        one = effect.paired
        return (
            f"right with it minus without it: {100 * one.value:+z.0f} points{_interval(one, '+z.0f')}, "
            f"{one.clusters} problems answered in both ways"
        )
    if effect.when_present is None:
        return "right when present: no rollout yet"
    one = effect.when_present
    return (
        f"right when present: {100 * one.value:.0f} %{_interval(one, '.0f')} of {one.observations} rollouts; "
        "no problem was answered in both ways, so this is no effect"
    )


def _interval(one: Estimate, form: str) -> str:
    if one.low is None or one.high is None:
        return ""
    return f" (95 % interval {format(100 * one.low, form)} to {format(100 * one.high, form)})"
