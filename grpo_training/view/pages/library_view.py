"""An experience library as plain values for a template: what each experience did, and how the library changed."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from engine.experience.effect import Effect, Use, effect_of
from engine.experience.events import GateEvent, StepEvent
from engine.experience.log import HistoryEntry
from engine.experience.state import Change, LibraryState, diff
from engine.experience.trial import Trials
from engine.records import Experience
from engine.statistics.paired import Estimate
from grpo_training.experiences.descriptions import origin

_MAX_HISTORY = 200
_MAX_PLACES = 12
_MAX_DIFF = 2000
_MAX_TOKENS = 300  # difflib needs the cube of their number for hostile texts
_TOKEN = re.compile(r"\s+|[\u3040-\u30ff\u4e00-\u9fff]|\w+|[^\w\s]")

Place = tuple[str, int, float | None]
"""Where a group was scored: problem, epoch, mean reward."""


@dataclass(frozen=True)
class ExperienceView:
    """An experience with its evidence, uses and effect; ``measured`` and ``p_helps`` are those of its trial."""

    experience: Experience
    evidence: list[Place]
    used_at: list[Place]
    groups: int
    effect: Effect
    measured: Estimate | None = None
    p_helps: float | None = None


@dataclass(frozen=True)
class EffectView:
    """A measured effect in a forest plot.

    Args:
        experience: it may be retired.
        state: ``pinned``, ``retired`` or ``trial``.
        measured: with the number of groups.
        p_helps: probability that it helps.
    """

    experience: Experience
    state: str
    measured: Estimate
    p_helps: float


@dataclass(frozen=True)
class Piece:
    """A piece of a difference: ``same``, ``added`` or ``removed``."""

    kind: str
    text: str


@dataclass(frozen=True)
class ChangeView:
    """The change of one experience: ``added``, ``deleted``, ``modified``; ``remark``: a changed pin or category."""

    id: str
    kind: str
    pieces: list[Piece]
    remark: str = ""


@dataclass(frozen=True)
class HistoryView:
    """One event of the log that changed the library or refused something; ``by`` is a run, or what else wrote it."""

    entry: HistoryEntry
    by: str
    changed: bool
    place: Place | None
    changes: list[ChangeView]
    refused: list[tuple[str, str, str]]


@dataclass(frozen=True)
class LibraryView:
    """What a library did and how it changed.

    Args:
        effects: the measured effects, the likeliest to help first.
        range_points: percentage points at both ends of the plot of effects.
        gates: the verdicts on the library, newest first.
        versions: version and time, newest first, for the choice of two to compare.
        earlier: events before the ones that are shown.
    """

    experiences: list[ExperienceView]
    history: list[HistoryView]
    earlier: int
    effects: list[EffectView] = field(default_factory=list)
    range_points: int = 0
    gates: list[GateEvent] = field(default_factory=list)
    versions: list[tuple[str, str]] = field(default_factory=list)


def library_view(state: LibraryState, history: Sequence[HistoryEntry]) -> LibraryView:
    """The view of a library, newest events first."""
    steps = [entry.event for entry in history if isinstance(entry.event, StepEvent)]
    shown = [entry for entry in reversed(history) if _is_shown(entry)]
    effects, range_points = effect_views(state)
    return LibraryView(
        experiences=[_experience_view(one, steps, state.trials) for one in state.experiences],
        history=[_history_view(entry) for entry in shown[:_MAX_HISTORY]],
        earlier=max(0, len(shown) - _MAX_HISTORY),
        effects=effects,
        range_points=range_points,
        gates=[entry.event for entry in reversed(history) if isinstance(entry.event, GateEvent)],
        versions=list({entry.after.version: entry.event.at for entry in shown if _changed(entry)}.items()),
    )


def effect_views(state: LibraryState) -> tuple[list[EffectView], int]:
    """The measured effects, the likeliest to help first, and the percentage points at both ends of their plot."""
    states = [*((one, "retired") for one in state.retired)]
    states += [(one, "pinned" if one.status == "pinned" else "trial") for one in state.experiences]
    views = [
        EffectView(one, name, estimate, state.trials.belief(one.id).p_helps)
        for one, name in states
        if (estimate := measured_effect(one, state.trials)) is not None
    ]
    views.sort(key=lambda view: (-view.p_helps, view.experience.id))
    ends = [end for view in views for end in (view.measured.low, view.measured.high) if end is not None]
    return views, plot_range(ends)


def plot_range(ends: Iterable[float]) -> int:
    """The percentage points at both ends of a plot that has room for these differences: 10, 20 ... 100."""
    largest = min(1.0, max((abs(end) for end in ends), default=0.1))
    return max(10, 10 * math.ceil(10 * largest))


def measured_effect(one: Experience, trials: Trials) -> Estimate | None:
    """The measured effect with its 95 % interval."""
    found, trial = trials.interval(one.id), trials.by_id.get(one.id)
    if found is None or trial is None:
        return None
    mean, low, high = found
    return Estimate(mean, (high - low) / 3.92, low, high, trial.differences, trial.differences)


def _uses(experience_id: str, steps: Sequence[StepEvent]) -> Iterator[Use]:
    """The rollouts that the log records of problems that were answered with an experience."""
    seen = {step.problem_id for step in steps if experience_id in step.used}
    for step in steps:
        if step.problem_id not in seen:
            continue
        own = step.trial.halves.get(experience_id) if step.trial is not None else None
        if step.trial is not None and own is not None:
            for half, rollouts in step.trial.rollouts.items():
                for number in range(rollouts):
                    yield Use(step.problem_id, half == own, number < step.trial.correct[half])
            continue
        is_present = experience_id in step.used
        for number in range(step.rollouts):
            yield Use(step.problem_id, is_present, number < step.correct)


def word_diff(before: str, after: str) -> list[Piece]:
    """The difference of two texts, word by word; of Chinese and Japanese, character by character."""
    old, new = (_TOKEN.findall(text[:_MAX_DIFF]) for text in (before, after))
    if len(old) + len(new) > _MAX_TOKENS:
        return [Piece(kind, "".join(text)) for kind, text in (("removed", old), ("added", new)) if text]
    pieces: list[Piece] = []
    for kind, start, end, new_start, new_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            pieces.append(Piece("same", "".join(old[start:end])))
            continue
        if end > start:
            pieces.append(Piece("removed", "".join(old[start:end])))
        if new_end > new_start:
            pieces.append(Piece("added", "".join(new[new_start:new_end])))
    return pieces


def change_views(before: LibraryState, after: LibraryState) -> list[ChangeView]:
    """What changed between two states."""
    return [_change_view(change) for change in diff(before, after)]


def _change_view(change: Change) -> ChangeView:
    old, new = change.before, change.after
    remarks = []
    if old and new and old.category != new.category:
        remarks.append(f"{old.category or '–'} → {new.category or '–'}")
    if old and new and old.status != new.status:
        remarks.append(f"{old.status} → {new.status}")
    named = new or old
    return ChangeView(
        id=named.id if named else "",
        kind=change.kind,
        pieces=word_diff(old.content if old else "", new.content if new else ""),
        remark=", ".join(remarks),
    )


def _experience_view(one: Experience, steps: Sequence[StepEvent], trials: Trials) -> ExperienceView:
    measured = measured_effect(one, trials)
    used = [step for step in steps if one.id in step.used]
    return ExperienceView(
        experience=one,
        evidence=[(proof.problem_id, proof.epoch, proof.mean) for proof in one.evidence],
        used_at=[(step.problem_id, step.epoch, step.mean) for step in used[-_MAX_PLACES:]],
        groups=len(used),
        effect=effect_of(_uses(one.id, steps)),
        measured=measured,
        p_helps=None if measured is None else trials.belief(one.id).p_helps,
    )


def _history_view(entry: HistoryEntry) -> HistoryView:
    step = entry.event if isinstance(entry.event, StepEvent) else None
    return HistoryView(
        entry=entry,
        by=origin(entry) if step is None else step.run,
        changed=_changed(entry),
        place=None if step is None else (step.problem_id, step.epoch, step.mean),
        changes=change_views(entry.before, entry.after) if _changed(entry) else [],
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
