"""The rule of retirement: which experiences on trial are taken out, and which one a full library replaces."""

from __future__ import annotations

from collections.abc import Iterable

from engine.experience.trial import UPDATED_EVERY, Trial, Trials, belief
from engine.records import Experience

MIN_DIFFERENCES = 6
"""Differences that an experience has before it can be retired."""
RETIRED_BELOW = 0.1
"""An experience is retired if the probability that it helps is below this."""
REPLACED_BELOW, MIN_DIFFERENCES_TO_REPLACE = 0.3, 4
"""A full library gives the place of its least promising experience, if that has this many differences, and the
probability that it helps is below this."""


def is_refuted(trial: Trial, variance: float) -> bool:
    """Whether an experience is retired: measured often enough, and unlikely to help."""
    return trial.differences >= MIN_DIFFERENCES and belief(trial, variance).p_helps < RETIRED_BELOW


def refuted(trials: Trials) -> list[str]:
    """The ids of the experiences to retire after this group; checked every 25 groups."""
    if not trials.groups or trials.groups % UPDATED_EVERY:
        return []
    return [name for name, trial in trials.by_id.items() if is_refuted(trial, trials.variance)]


def cases_may_help(trials: Trials) -> bool:
    """Whether cases stand in prompts while learning: until all of them together are refuted."""
    return not is_refuted(trials.cases, trials.variance)


def least_promising(trials: Trials, candidates: Iterable[Experience]) -> str | None:
    """The id of the experience that gives up its place in a full library; None if each may still help."""
    beliefs = {
        one.id: trials.belief(one).p_helps
        for one in candidates
        if (trial := trials.by_id.get(one.id)) is not None and trial.differences >= MIN_DIFFERENCES_TO_REPLACE
    }
    worst = min(beliefs, key=lambda name: beliefs[name], default=None)
    return worst if worst is not None and beliefs[worst] < REPLACED_BELOW else None
