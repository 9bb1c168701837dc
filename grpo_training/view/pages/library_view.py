"""An experience library as plain values for a template: what each experience did, and how the library changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.experience.events import GateEvent, StepEvent
from engine.experience.log import HistoryEntry
from engine.experience.state import Change, LibraryState, diff
from engine.experience.trial import Trials
from engine.records import Experience
from engine.statistics.paired import Estimate
from grpo_training.experiences.descriptions import origin

_MAX_HISTORY = 200
_MAX_PLACES = 12

Place = tuple[str, int, float | None]
"""Where a group was scored: problem, epoch, mean reward."""


@dataclass(frozen=True)
class ExperienceView:
    """An experience with the last groups that it was used in, and their number.

    Args:
        state: ``active``, ``pinned`` or ``retired``.
        measured: the effect that its trial measured, with the number of groups; None without one.
        p_helps: probability that it helps.
    """

    experience: Experience
    state: str
    used_at: list[Place]
    groups: int
    measured: Estimate | None
    p_helps: float


@dataclass(frozen=True)
class HistoryView:
    """One event of the log that changed the library or refused something; ``by`` is a run, or what else wrote it."""

    entry: HistoryEntry
    by: str
    changed: bool
    place: Place | None
    changes: list[Change]
    refused: list[tuple[str, str, str]]


@dataclass(frozen=True)
class LibraryView:
    """What a library did and how it changed.

    Args:
        experiences: those in the library.
        effects: the measured ones, also those that are retired; the likeliest to help first.
        range_points: percentage points at both ends of the plot of effects.
        gates: the verdicts on the library, newest first.
        earlier: events before the ones that are shown.
    """

    experiences: list[ExperienceView]
    effects: list[ExperienceView]
    range_points: int
    gates: list[GateEvent]
    history: list[HistoryView]
    earlier: int


def library_view(state: LibraryState, history: Sequence[HistoryEntry]) -> LibraryView:
    """The view of a library, newest events first."""
    steps = [entry.event for entry in history if isinstance(entry.event, StepEvent)]
    shown = [entry for entry in reversed(history) if _is_shown(entry)]
    effects, range_points = effect_views(state)
    return LibraryView(
        experiences=[_experience_view(experience, experience.status, state, steps) for experience in state.experiences],
        effects=effects,
        range_points=range_points,
        gates=[entry.event for entry in reversed(history) if isinstance(entry.event, GateEvent)],
        history=[_history_view(entry) for entry in shown[:_MAX_HISTORY]],
        earlier=max(0, len(shown) - _MAX_HISTORY),
    )


def effect_views(state: LibraryState) -> tuple[list[ExperienceView], int]:
    """The measured effects, the likeliest to help first, and the percentage points at both ends of their plot."""
    views = [_experience_view(experience, "retired", state) for experience in state.retired]
    views += [_experience_view(experience, experience.status, state) for experience in state.experiences]
    views = [view for view in views if view.measured is not None]
    views.sort(key=lambda view: (-view.p_helps, view.experience.id))
    ends = [end for view in views if view.measured for end in (view.measured.low, view.measured.high)]
    return views, plot_range(end for end in ends if end is not None)


def plot_range(ends: Iterable[float]) -> int:
    """The percentage points at both ends of a plot that has room for these differences: 10, 20 ... 100."""
    largest = min(1.0, max((abs(end) for end in ends), default=0.1))
    return max(10, 10 * math.ceil(10 * largest))


def measured_effect(experience: Experience, trials: Trials) -> Estimate | None:
    """The measured effect with its 95 % interval."""
    interval, trial = trials.interval(experience.id), trials.by_id.get(experience.id)
    if interval is None or trial is None:
        return None
    mean, low, high = interval
    return Estimate(mean, (high - low) / 3.92, low, high, trial.differences, trial.differences)


def _experience_view(
    experience: Experience, status: str, state: LibraryState, steps: Sequence[StepEvent] = ()
) -> ExperienceView:
    used = [step for step in steps if experience.id in step.used]
    return ExperienceView(
        experience=experience,
        state=status,
        used_at=[(step.problem_id, step.epoch, step.mean) for step in used[-_MAX_PLACES:]],
        groups=len(used),
        measured=measured_effect(experience, state.trials),
        p_helps=state.trials.belief(experience.id).p_helps,
    )


def _history_view(entry: HistoryEntry) -> HistoryView:
    step = entry.event if isinstance(entry.event, StepEvent) else None
    return HistoryView(
        entry=entry,
        by=origin(entry) if step is None else step.run,
        changed=_changed(entry),
        place=None if step is None else (step.problem_id, step.epoch, step.mean),
        changes=list(diff(entry.before, entry.after)) if _changed(entry) else [],
        refused=[
            (refusal.operation.op, refusal.operation.content or refusal.operation.id or "", refusal.message)
            for refusal in (step.refused if step is not None else ())
        ],
    )


def _is_shown(entry: HistoryEntry) -> bool:
    return _changed(entry) or (isinstance(entry.event, StepEvent) and bool(entry.event.refused))


def _changed(entry: HistoryEntry) -> bool:
    """Whether an event changed more than the counts of uses. Most do not: they keep the texts as they were."""
    return entry.before.texts is not entry.after.texts and entry.before.version != entry.after.version
