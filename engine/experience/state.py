"""The state of an experience library, and what an event makes of it. Pure functions."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from engine.experience.events import (
    BeginEvent,
    ChoiceRecord,
    EditEvent,
    GateEvent,
    ImportEvent,
    LibraryEvent,
    Miss,
    StepEvent,
)
from engine.experience.trial import Trials, trial_of
from engine.records import Evidence, Experience, ExperienceKind, Operation, Problem, Uses

_PROBLEM_CHARACTERS = 2000
_MISSES = 200


@dataclass(frozen=True)
class LibraryState:
    """A library at one point in the log, without deleted experiences.

    Most steps change only the use counts, so these are stored separately and merged on access.

    Args:
        live: the experiences, oldest first, without uses.
        counts: id -> (rollouts, correct rollouts) of the experiences that were used.
        next_number: number of the next id; it never decreases, so ids are not reused.
        forbidden: experiences that a person took out for good: the analyst cannot add them or near-duplicates again.
        retired: experiences that were measured and do not help; the same holds for them.
        trials: what was measured of the experiences.
        choice: which experiences went into a prompt in the last run; None: it is not recorded.
        unused_replies: replies of the analyst in a row of which nothing could be used.
        gate: the last test of the library as a whole.
        rejected: versions that a gate has found to harm, and none has adopted since.
        misses: the last problems with wrong answers.
    """

    live: tuple[Experience, ...]
    counts: Mapping[str, tuple[int, int]]
    next_number: int
    forbidden: tuple[Experience, ...] = ()
    retired: tuple[Experience, ...] = ()
    trials: Trials = field(default_factory=Trials)
    choice: ChoiceRecord | None = None
    unused_replies: int = 0
    gate: GateEvent | None = None
    rejected: frozenset[str] = frozenset()
    misses: tuple[Miss, ...] = ()

    @functools.cached_property
    def version(self) -> str:
        """Hash of ids, contents, categories and pins: 12 hex digits. Times and uses do not change it."""
        fields = [[entry.id, entry.content, entry.category, entry.status] for entry in self.live]
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:12]

    def of_kind(self, kind: ExperienceKind) -> list[Experience]:
        """The experiences of a kind, without uses."""
        return [experience for experience in self.live if experience.kind == kind]

    def has_case_of(self, problem: Problem) -> bool:
        """Whether there is a case of a problem, or was one that was taken out."""
        experiences = (*self.live, *self.retired, *self.forbidden)
        return any(experience.kind == "case" and comes_from(experience, problem) for experience in experiences)

    @property
    def experiences(self) -> tuple[Experience, ...]:
        """The experiences, oldest first."""
        return tuple(map(self.with_uses, self.live))

    @property
    def is_rejected(self) -> bool:
        """Whether a gate has found that the library as it is now harms."""
        return self.version in self.rejected

    @property
    def helpful(self) -> tuple[Experience, ...]:
        """The experiences to answer problems with. A library that a gate has rejected has only the pinned ones."""
        return tuple(experience for experience in self.tested if experience.status == "pinned" or not self.is_rejected)

    @property
    def tested(self) -> tuple[Experience, ...]:
        """The experiences that a gate tests: without those that measurably do not help.

        One that was never measured counts as helpful, and so does a pinned one. See :meth:`Trials.is_used` for lessons
        beside cases.
        """
        has_cases = bool(self.choice and self.choice.cases and self.of_kind("case"))
        return tuple(entry for entry in self.live if entry.status == "pinned" or self.trials.is_used(entry, has_cases))

    def least_promising(self, kind: ExperienceKind = "lesson") -> str | None:
        """The id of the experience of a kind that a full library replaces; None if each may still help."""
        return self.trials.least_promising(entry for entry in self.of_kind(kind) if entry.status != "pinned")

    def get(self, experience_id: str) -> Experience | None:
        """The experience with this id."""
        return next((self.with_uses(experience) for experience in self.live if experience.id == experience_id), None)

    def with_uses(self, experience: Experience) -> Experience:
        """An experience of the library with its use counts and the figures of its trial."""
        if experience.id not in self.counts and experience.id not in self.trials.by_id:
            return experience
        rollouts, correct = self.counts.get(experience.id, (0, 0))
        uses = Uses(rollouts=rollouts, correct=correct)
        return experience.model_copy(update={"uses": uses, "trial": self.trials.figures(experience.id)})


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
    """The changes of experiences between two states, without uses and trials, in order of id."""
    old, new = ({experience.id: experience for experience in state.live} for state in (before, after))
    ids = sorted(old.keys() | new.keys(), key=lambda name: (number_of(name), name))
    return [Change(old.get(name), new.get(name)) for name in ids if old.get(name) != new.get(name)]


def number_of(experience_id: str) -> int:
    """The number in an id such as ``G1-007``; 0 if there is none."""
    match = re.search(r"-(\d{1,9})$", experience_id)
    return int(match.group(1)) if match else 0


def reduce(state: LibraryState, event: LibraryEvent) -> LibraryState:
    """The state after an event. The operations of an event have already been checked."""
    match event:
        case BeginEvent():
            trials = state.trials.of_run(state.live, event.model, event.task_file)
            return replace(state, trials=trials, choice=event.choice or state.choice)
        case GateEvent():
            return replace(state, gate=event, rejected=_rejected(state.rejected, event))
        case ImportEvent():
            return _replaced(state, event.experiences)
        case StepEvent():
            state = _measured(_counted(state, event), event)
            if event.miss is not None:
                state = replace(state, misses=(*state.misses, event.miss)[-_MISSES:])
            evidence = Evidence.model_validate(event, from_attributes=True)
            return with_operations(state, event.operations, event.at, evidence)
        case EditEvent():
            return with_operations(state, event.operations, event.at, None)


def _rejected(versions: frozenset[str], event: GateEvent) -> frozenset[str]:
    """The rejected versions after a gate; one that proves nothing changes none."""
    if event.verdict == "not_proven":
        return versions
    return versions | {event.version} if event.verdict == "rejected" else versions - {event.version}


def with_operations(
    state: LibraryState, operations: Sequence[Operation], at: str, evidence: Evidence | None
) -> LibraryState:
    """The state after operations that have been checked.

    Args:
        state: the state before them.
        operations: in order: ``add``, whose id is set, ``retire``, ``remove``, ``forbid``, ``pin`` or ``unpin``.
        at: the time of the event, for new experiences.
        evidence: the group that the operations were learned from; None if they are manual.
    """
    if not operations:
        return state
    numbers = [number_of(operation.id or "") + 1 for operation in operations]
    live = {experience.id: experience for experience in state.live}
    forbidden = {experience.id: experience for experience in state.forbidden}
    retired = {experience.id: experience for experience in state.retired}
    for operation in operations:
        name = operation.id or ""
        if operation.op == "add":
            live[name] = Experience(
                id=name,
                content=operation.content or "",
                kind=operation.kind,
                category=operation.category,
                source_problem=evidence.problem_id if evidence else "",
                created_at=at,
                evidence=[*([evidence] if evidence else []), *_further_evidence(state, operation)],
            )
        elif name not in live:
            continue
        elif operation.op in ("pin", "unpin"):
            live[name] = live[name].model_copy(update={"status": "pinned" if operation.op == "pin" else "active"})
        elif operation.op == "remove":
            del live[name]
        elif operation.op == "forbid":
            forbidden[name] = live.pop(name)
        elif operation.op == "retire":
            retired[name] = live.pop(name)
    return replace(
        state,
        live=tuple(live.values()),
        counts={key: count for key, count in state.counts.items() if key in live},
        next_number=max([state.next_number, *numbers]),
        forbidden=tuple(forbidden.values()),
        retired=tuple(retired.values()),
        trials=state.trials.only(live.keys() | retired.keys()),
    )


def _further_evidence(state: LibraryState, operation: Operation) -> list[Evidence]:
    """The problems that an instruction was learned from."""
    texts = {miss.problem_id: miss.text for miss in state.misses if miss.problem_id in operation.sources}
    return [Evidence(problem_id=name, problem_text=texts.get(name, "")) for name in operation.sources]


def _counted(state: LibraryState, event: StepEvent) -> LibraryState:
    if not event.used or not event.rollouts:
        return state
    counts = dict(state.counts)
    for name in {experience.id for experience in state.live}.intersection(event.used):
        rollouts, correct = counts.get(name, (0, 0))
        half = event.trial.halves.get(name) if event.trial else None
        if event.trial is None or half is None:
            counts[name] = (rollouts + event.rollouts, correct + event.correct)
        else:
            counts[name] = (rollouts + event.trial.rollouts[half], correct + event.trial.correct[half])
    return replace(state, counts=counts)


def _measured(state: LibraryState, event: StepEvent) -> LibraryState:
    """The state with what a group measures, and with the replies of the analyst that could not be used counted."""
    if event.asked:
        has_lesson = any(operation.op != "retire" and operation.kind == "lesson" for operation in event.operations)
        state = replace(state, unused_replies=0 if has_lesson else state.unused_replies + 1)
    if event.trial is None or event.trial.difference is None:
        return state
    # An experience is not measured with the problems that it was learned from: it may know their answers.
    live = {experience.id: experience for experience in state.live}
    halves = {
        name: half
        for name, half in event.trial.halves.items()
        if name in live and event.problem_id not in sources_of(live[name])
    }
    if not halves:
        return state
    kinds = {name: live[name].kind for name in halves if live[name].kind != "instruction"}  # of these there are two
    trials = state.trials.with_group(event.trial.difference, halves, event.trial.likeness, kinds)
    return replace(state, trials=trials)


def with_retirements(state: LibraryState, event: StepEvent) -> StepEvent:
    """A step with the experiences that it refutes retired."""
    if event.trial is None or (after := reduce(state, event)).trials.groups == state.trials.groups:
        return event
    unpinned = (experience for experience in after.live if experience.status != "pinned")
    retired = [Operation(op="retire", id=name) for name in after.trials.refuted(unpinned)]
    return event.model_copy(update={"operations": [*event.operations, *retired]}) if retired else event


def sources_of(experience: Experience) -> set[str]:
    """The ids of the problems that an experience was learned from."""
    return {experience.source_problem, *(proof.problem_id for proof in experience.evidence)} - {""}


def texts_of_sources(experience: Experience) -> set[str]:
    """The texts of these problems, as far as they are kept; see :func:`kept_text`."""
    return {proof.problem_text for proof in experience.evidence} - {""}


def kept_text(problem: Problem) -> str:
    """What a library keeps of the text of a problem, to compare later problems with it."""
    return problem.text[:_PROBLEM_CHARACTERS]


def comes_from(experience: Experience, problem: Problem) -> bool:
    """Whether an experience was learned from a problem: from one with its id, or with its text."""
    return problem.id in sources_of(experience) or kept_text(problem) in texts_of_sources(experience)


def _replaced(state: LibraryState, experiences: Sequence[Experience]) -> LibraryState:
    """A state with these experiences instead, which are no longer forbidden or retired.

    Uses and trials are never undone: those of the state are kept, and those in the records fill the gaps. The trial of
    an experience does not hold for another text.
    """
    ids = {record.id for record in experiences}
    contents = {record.id: record.content for record in experiences}
    counts = {record.id: (record.uses.rollouts, record.uses.correct) for record in experiences if record.uses.rollouts}
    counts |= {key: count for key, count in state.counts.items() if key in ids}
    known = (*state.live, *state.retired)
    others = {entry.id for entry in known if contents.get(entry.id, entry.content) != entry.content}
    measured = {record.id: trial_of(record.trial) for record in experiences if record.trial and record.id not in others}
    trials = state.trials.only((ids | {entry.id for entry in state.retired}) - others)
    return replace(
        state,
        live=tuple(record.model_copy(update={"uses": Uses(), "trial": None}) for record in experiences),
        counts=counts,
        next_number=max([state.next_number, *(number_of(record.id) + 1 for record in experiences)]),
        forbidden=tuple(entry for entry in state.forbidden if entry.id not in ids),
        retired=tuple(entry for entry in state.retired if entry.id not in ids),
        trials=replace(trials, by_id=measured | dict(trials.by_id)),
    )
