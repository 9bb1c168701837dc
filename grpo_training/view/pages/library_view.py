"""An experience library as plain values for a template: what each experience did, and how the library changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from engine.experience.events import GateEvent, StepEvent
from engine.experience.log import HistoryEntry
from engine.experience.state import LibraryState, diff
from engine.experience.trial import Trials
from engine.records import Experience
from engine.statistics.paired import Estimate
from grpo_training.experiences.descriptions import origin

_MAX_HISTORY = 200
_MAX_PLACES = 12

Place = tuple[str, int, float | None]
"""Where a group was scored: problem, epoch, mean reward."""


def library_view(state: LibraryState, history: Sequence[HistoryEntry]) -> dict[str, Any]:
    """The view of a library, newest events first; ``earlier`` is the number of events before the ones that are shown.

    An experience has the places that it was used at, and their number.
    """
    steps = [entry.event for entry in history if isinstance(entry.event, StepEvent)]
    shown = [entry for entry in reversed(history) if _is_shown(entry)]
    effects, range_points = effect_views(state)
    experiences = []
    for experience in state.experiences:
        used = [(step.problem_id, step.epoch, step.mean) for step in steps if experience.id in step.used]
        view = _effect_view(experience, experience.status, state.trials)
        experiences.append(view | {"used_at": used[-_MAX_PLACES:], "groups": len(used)})
    return {
        "experiences": experiences,
        "effects": effects,
        "range_points": range_points,
        "gates": [entry.event for entry in reversed(history) if isinstance(entry.event, GateEvent)],
        "history": [_history_view(entry) for entry in shown[:_MAX_HISTORY]],
        "earlier": max(0, len(shown) - _MAX_HISTORY),
    }


def effect_views(state: LibraryState) -> tuple[list[dict[str, Any]], int]:
    """The measured effects, the likeliest to help first, and the percentage points at both ends of their plot.

    An effect has the state of its experience, ``active``, ``pinned`` or ``retired``, and the number of its groups.
    """
    views = [_effect_view(experience, "retired", state.trials) for experience in state.retired]
    views += [_effect_view(experience, experience.status, state.trials) for experience in state.experiences]
    views = [view for view in views if view["measured"] is not None]
    views.sort(key=lambda view: (-view["p_helps"], view["experience"].id))
    ends = [end for view in views for end in (view["measured"].low, view["measured"].high) if end is not None]
    return views, plot_range(ends)


def plot_range(ends: Iterable[float]) -> int:
    """The percentage points at both ends of a plot that has room for these differences: 10, 20 ... 100."""
    largest = min(1.0, max((abs(end) for end in ends), default=0.1))
    return max(10, 10 * math.ceil(10 * largest))


def _effect_view(experience: Experience, status: str, trials: Trials) -> dict[str, Any]:
    """An experience with its state and its measured effect."""
    measured, interval = None, trials.interval(experience.id)
    if interval is not None:
        mean, low, high = interval
        count = trials.of(experience.id).differences
        measured = Estimate(mean, (high - low) / 3.92, low, high, count, count)
    p_helps = trials.belief(experience).p_helps
    return {"experience": experience, "state": status, "measured": measured, "p_helps": p_helps}


def _history_view(entry: HistoryEntry) -> dict[str, Any]:
    """One event of the log that changed the library or refused something; ``by`` is a run, or what else wrote it."""
    step = entry.event if isinstance(entry.event, StepEvent) else None
    return {
        "entry": entry,
        "by": origin(entry) if step is None else step.run,
        "changed": _changed(entry),
        "place": None if step is None else (step.problem_id, step.epoch, step.mean),
        "changes": diff(entry.before, entry.after) if _changed(entry) else [],
        "refused": [
            (refusal.operation.op, refusal.operation.content or refusal.operation.id or "", refusal.message)
            for refusal in (step.refused if step is not None else ())
        ],
    }


def _is_shown(entry: HistoryEntry) -> bool:
    return _changed(entry) or (isinstance(entry.event, StepEvent) and bool(entry.event.refused))


def _changed(entry: HistoryEntry) -> bool:
    """Whether an event changed more than the counts of uses. Most do not: they keep the texts as they were."""
    return entry.before.live is not entry.after.live and entry.before.version != entry.after.version
