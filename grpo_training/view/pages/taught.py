"""What a group taught: the changes of the library that were learned from it, with what was measured of them since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import InputError
from engine.experience.events import StepEvent
from engine.experience.library import ExperienceLibrary
from engine.experience.log import HistoryEntry
from engine.experience.state import LibraryState
from engine.records import Experience, RolloutGroup
from engine.statistics.paired import Estimate
from grpo_training.view.data.libraries import Library
from grpo_training.view.data.runs import Run, Store
from grpo_training.view.pages.library_view import effect_views, measured_effect

_SAME_MEAN = 1e-9
_LISTED = 200


@dataclass(frozen=True)
class Lesson:
    """One experience that a group added or retired.

    Args:
        op: ``add``, or ``retire``: the group refuted it.
        id: of the experience.
        text: as the group left it; of a retired one, as it was.
        state: ``trial``, ``pinned``, ``retired``, ``forbidden`` or ``deleted`` now.
        is_reworded: whether a later change gave it another text, so that the effect is that of the text of now.
        measured: its effect now; None if nothing was measured.
        p_helps: probability that it helps; None if nothing was measured.
    """

    op: str
    id: str
    text: str
    state: str
    is_reworded: bool
    measured: Estimate | None
    p_helps: float | None


@dataclass(frozen=True)
class Taught:
    """What a group taught a library: ``refused`` are proposals with the reason."""

    library: Library
    lessons: list[Lesson]
    refused: list[tuple[str, str]]


def taught_by(store: Store, run: Run, group: RolloutGroup, mean: float | None) -> Taught | None:
    """What a group taught the library of its run; None if the library has no step of it.

    Args:
        store: with the library.
        run: of the group.
        group: the group.
        mean: its mean reward, which tells it from groups of the same problem in other runs.
    """
    library = store.library_of(run)
    if library is None:
        return None
    try:
        opened = store.library_index.open(library)
    except (InputError, OSError):  # its own page says what is wrong with it
        return None
    steps = [entry for entry in opened.history() if _is_of(entry, group, mean)]
    own = [entry for entry in steps if isinstance(entry.event, StepEvent) and entry.event.run == run.id_in_libraries()]
    return _taught(library, opened, own or steps) if steps else None


def library_table(store: Store, run: Run) -> dict[str, Any] | None:
    """The library of a run for a table: measured effects first, then the other experiences; None without one."""
    library = store.library_of(run)
    if library is None:
        return None
    try:
        state = store.library_index.open(library).state
    except (InputError, OSError):
        return None
    found, range_points = effect_views(state)
    effects = [one for one in found if one.state != "retired"]
    measured = {one.experience.id for one in effects}
    others = [one for one in state.texts if one.id not in measured]
    return {
        "library": library,
        "version": state.version,
        "gate": state.gate,
        "count": len(state.texts),
        "effects": effects[:_LISTED],
        "others": others[: max(0, _LISTED - len(effects))],
        "left_out": max(0, len(effects) + len(others) - _LISTED),
        "range_points": range_points,
    }


def _is_of(entry: HistoryEntry, group: RolloutGroup, mean: float | None) -> bool:
    event = entry.event
    if not isinstance(event, StepEvent) or (event.problem_id, event.epoch) != (group.problem_id, group.epoch):
        return False
    return event.mean is None or mean is None or abs(event.mean - mean) < _SAME_MEAN


def _taught(library: Library, opened: ExperienceLibrary, steps: Sequence[HistoryEntry]) -> Taught:
    lessons: list[Lesson] = []
    refused: list[tuple[str, str]] = []
    for entry in steps:
        assert isinstance(entry.event, StepEvent)
        for operation in entry.event.operations:
            name = operation.id or ""
            text = entry.after.get(name) or entry.before.get(name)
            if text is not None:
                lessons.append(_lesson(operation.op, text, opened.state))
        for refusal in entry.event.refused:
            what = refusal.operation.content or refusal.operation.id or refusal.operation.op
            refused.append((what, refusal.message or refusal.reason))
    return Taught(library, lessons, refused)


def _lesson(op: str, one: Experience, state: LibraryState) -> Lesson:
    measured = measured_effect(one, state.trials)
    name, now = _standing(one.id, state)
    return Lesson(
        op=op,
        id=one.id,
        text=one.content,
        state=name,
        is_reworded=now is not None and now.content != one.content,
        measured=measured,
        p_helps=None if measured is None else state.trials.belief(one.id).p_helps,
    )


def _standing(experience_id: str, state: LibraryState) -> tuple[str, Experience | None]:
    """Where an experience is now, and its text there."""
    for name, texts in (("trial", state.texts), ("retired", state.retired), ("forbidden", state.forbidden)):
        for one in texts:
            if one.id == experience_id:
                return ("pinned" if one.status == "pinned" and name == "trial" else name), one
    return "deleted", None
