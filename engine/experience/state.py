"""The state of an experience library and the events that change it. Pure functions."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from engine.experience.growing import Growing
from engine.experience.review import Reason, prompt_risk
from engine.records import FORMAT, Evidence, Experience, Operation, Record, Uses

_KEPT_EVIDENCE = 16


@dataclass(frozen=True)
class LibraryState:
    """A library at one point in the log, without deleted experiences.

    Most steps change only the use counts, so these are stored separately and merged on access.

    Args:
        texts: the experiences, oldest first, without uses.
        counts: id -> (rollouts, correct rollouts) of the experiences that were used.
        next_number: number of the next id; it never decreases, so ids are not reused.
        forbidden: experiences that a person took out for good: the analyst cannot add them or near-duplicates again.
    """

    texts: tuple[Experience, ...]
    counts: Mapping[str, tuple[int, int]]
    next_number: int
    forbidden: tuple[Experience, ...] = ()

    @functools.cached_property
    def version(self) -> str:
        """Hash of ids, contents, categories and pins; times and uses do not change it."""
        return version_of(self.texts)

    @property
    def experiences(self) -> tuple[Experience, ...]:
        """The experiences, oldest first."""
        return tuple(map(self.with_uses, self.texts))

    @functools.cached_property
    def quarantined(self) -> Mapping[str, Reason]:
        """The experiences that stay out of prompts, by id, with the reason.

        Texts are checked when they are added. These are in the log since before a check existed.
        """
        return _QUARANTINED.apply(self.texts, dict)

    @property
    def for_prompts(self) -> tuple[Experience, ...]:
        """The experiences without the quarantined ones, oldest first."""
        quarantined = self.quarantined
        return tuple(self.with_uses(one) for one in self.texts if one.id not in quarantined)

    def get(self, experience_id: str) -> Experience | None:
        """The experience with this id."""
        return next((self.with_uses(one) for one in self.texts if one.id == experience_id), None)

    def with_uses(self, one: Experience) -> Experience:
        """An experience of ``texts`` with its use counts."""
        if one.id not in self.counts:
            return one
        rollouts, correct = self.counts[one.id]
        return one.model_copy(update={"uses": Uses(rollouts=rollouts, correct=correct)})


def version_of(experiences: Iterable[Experience]) -> str:
    """The first 12 hex digits of the SHA-256 over id, content, category and status of each experience."""
    return _VERSION.apply(tuple(experiences), lambda version: version.text())


class _Version:
    """The hash of a JSON array that grows: ``json.dumps`` of the list of the experiences' fields."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"[")
        self._separator = b""

    def add(self, one: Experience) -> None:
        fields = json.dumps([one.id, one.content, one.category, one.status])
        self._hash.update(self._separator + fields.encode())
        self._separator = b", "

    def text(self) -> str:
        complete = self._hash.copy()
        complete.update(b"]")
        return complete.hexdigest()[:12]


def _quarantine(reasons: dict[str, Reason], one: Experience) -> None:
    if (reason := prompt_risk(one.content)) is not None:
        reasons[one.id] = reason


_VERSION = Growing(_Version, _Version.add)
_QUARANTINED: Growing[dict[str, Reason]] = Growing(dict, _quarantine)

EMPTY = LibraryState((), {}, 1)


@dataclass(frozen=True)
class Change:
    """The difference of one experience between two states; None if it is absent."""

    before: Experience | None
    after: Experience | None

    @property
    def kind(self) -> Literal["added", "deleted", "modified"]:
        """The kind of change."""
        if self.before is None:
            return "added"
        return "deleted" if self.after is None else "modified"


def diff(before: LibraryState, after: LibraryState) -> list[Change]:
    """The changes of ids, contents, categories and pins between two states, in order of id."""
    old, new = ({one.id: one for one in state.texts} for state in (before, after))
    pairs = [Change(old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys(), key=_by_number)]
    return [pair for pair in pairs if _content_key(pair.before) != _content_key(pair.after)]


def _content_key(experience: Experience | None) -> tuple[str, ...] | None:
    return (experience.content, experience.category, experience.status) if experience else None


def _by_number(experience_id: str) -> tuple[int, str]:
    return (_number(experience_id), experience_id)


def _number(experience_id: str) -> int:
    """The number in an id such as ``G1-007``; 0 if there is none."""
    found = re.search(r"-(\d{1,9})$", experience_id)
    return int(found.group(1)) if found else 0


class Event(Record):
    """One line of the log: one transaction."""

    at: str
    format: int = FORMAT


class BeginEvent(Event):
    """The start of a run. Its first prompts use the library at this line."""

    event: Literal["begin"] = "begin"
    run: str


class Refusal(Record):
    """An operation that was not applied, and why (a short code and a sentence)."""

    operation: Operation
    reason: str
    message: str = ""


class StepEvent(Event):
    """A scored group: the experiences in its prompts, its results and the operations learned from it."""

    event: Literal["step"] = "step"
    run: str
    step: int
    problem_id: str
    epoch: int
    used: list[str]
    rollouts: int
    correct: int
    mean: float | None = None
    std: float | None = None
    operations: list[Operation] = Field(default_factory=list)
    refused: list[Refusal] = Field(default_factory=list)


class EditEvent(Event):
    """A manual change: ``add``, ``modify``, ``delete``, ``pin``, ``unpin``, ``forbid``, ``allow``."""

    event: Literal["edit"] = "edit"
    operations: list[Operation]
    note: str = ""


class RollbackEvent(Event):
    """The library of ``version`` is restored; ids assigned since then are not reused."""

    event: Literal["rollback"] = "rollback"
    version: str
    experiences: list[Experience]


class ImportEvent(Event):
    """The import of a library file that has no log."""

    event: Literal["import"] = "import"
    experiences: list[Experience]


LibraryEvent = BeginEvent | StepEvent | EditEvent | RollbackEvent | ImportEvent
EVENT: TypeAdapter[LibraryEvent] = TypeAdapter(Annotated[LibraryEvent, Field(discriminator="event")])


def reduce(state: LibraryState, event: LibraryEvent) -> LibraryState:
    """The state after an event. The operations of an event have already been checked."""
    match event:
        case BeginEvent():
            return state
        case ImportEvent() | RollbackEvent():
            return _restored(state, event.experiences)
        case StepEvent():
            state = _counted(state, event)
            evidence = Evidence(problem_id=event.problem_id, epoch=event.epoch, mean=event.mean, std=event.std)
            return with_operations(state, event.operations, event.at, evidence)
        case EditEvent():
            return with_operations(state, event.operations, event.at, None)


def with_operations(
    state: LibraryState, operations: Sequence[Operation], at: str, evidence: Evidence | None
) -> LibraryState:
    """The state after operations that have been checked.

    Args:
        state: the state before them.
        operations: in order; the id of an ``add`` is set.
        at: the time of the event, for new experiences.
        evidence: the group that the operations were learned from; None if they are manual.
    """
    if not operations:
        return state
    numbers = [_number(operation.id or "") + 1 for operation in operations]
    next_number = max([state.next_number, *numbers])
    if all(operation.op == "add" for operation in operations) and min(numbers) > state.next_number:
        added: dict[str, Experience] = {}  # the ids are new, so nothing else changes
        for operation in operations:
            _apply(added, operation, at, evidence)
        return replace(state, texts=(*state.texts, *added.values()), next_number=next_number)
    live = {one.id: one for one in state.texts}
    forbidden = {one.id: one for one in state.forbidden}
    for operation in operations:
        if operation.op == "forbid" and operation.id in live:
            forbidden[operation.id] = live.pop(operation.id)
        elif operation.op == "allow":
            forbidden.pop(operation.id or "", None)
        else:
            _apply(live, operation, at, evidence)
    counts = {key: count for key, count in state.counts.items() if key in live}
    return _state(live.values(), counts, next_number, forbidden.values())


def _apply(live: dict[str, Experience], operation: Operation, at: str, evidence: Evidence | None) -> None:
    known = live.get(operation.id or "")
    if operation.op == "add" and operation.id:
        live[operation.id] = Experience(
            id=operation.id,
            content=operation.content or "",
            category=operation.category,
            source_problem=evidence.problem_id if evidence else "",
            created_at=at,
            evidence=[evidence] if evidence else [],
        )
    elif known is None:
        return
    elif operation.op == "modify":
        proofs = [*known.evidence, *([evidence] if evidence else [])][-_KEPT_EVIDENCE:]
        changes = {
            "content": operation.content,
            "category": operation.category or known.category,
            "evidence": proofs,
        }
        live[known.id] = known.model_copy(update=changes)
    elif operation.op == "delete":
        del live[known.id]
    elif operation.op in ("pin", "unpin"):
        status = "pinned" if operation.op == "pin" else "active"
        live[known.id] = known.model_copy(update={"status": status})


def _counted(state: LibraryState, event: StepEvent) -> LibraryState:
    if not event.used or not event.rollouts:
        return state
    counts = dict(state.counts)
    for used in {one.id for one in state.texts}.intersection(event.used):
        rollouts, correct = counts.get(used, (0, 0))
        counts[used] = (rollouts + event.rollouts, correct + event.correct)
    return replace(state, counts=counts)


def _restored(state: LibraryState, experiences: Sequence[Experience]) -> LibraryState:
    """A state with these experiences, which are no longer forbidden. Uses are never undone: their counts are kept."""
    restored = [one for one in experiences if one.status != "deleted"]
    counts = {one.id: (one.uses.rollouts, one.uses.correct) for one in restored if one.uses.rollouts}
    counts |= {key: count for key, count in state.counts.items() if key in {one.id for one in restored}}
    texts = [one.model_copy(update={"uses": Uses()}) for one in restored]
    forbidden = [one for one in state.forbidden if one.id not in {text.id for text in texts}]
    return _state(texts, counts, max([state.next_number, *(_number(one.id) + 1 for one in experiences)]), forbidden)


def _state(
    texts: Iterable[Experience],
    counts: Mapping[str, tuple[int, int]],
    next_number: int,
    forbidden: Iterable[Experience],
) -> LibraryState:
    return LibraryState(tuple(texts), counts, next_number, tuple(forbidden))
