"""An agent's library on disk: a log of events, and beside it the JSON file that the log reduces to.

The log (``generator_1_experiences.ops.jsonl``) is the truth. Each change is one line of it, on the disk before
the JSON file is replaced, under a lock that every writer takes; so processes may share a library, and a crash
at any byte leaves a whole one. The JSON file is what people and other programs read; what a person edits in it
is taken into the log as an edit.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from engine.errors import InputError
from engine.experience.file import EditedFile, parse_library, render_library
from engine.experience.state import (
    EMPTY,
    EVENT,
    BeginEvent,
    EditEvent,
    ImportEvent,
    LibraryEvent,
    LibraryState,
    RollbackEvent,
    StepEvent,
    reduce,
    review_proposals,
)
from engine.records import GroupStats, Operation, Problem, Refusal
from engine.storage.append_log import AppendLog, Line, LineReader, encode_line, replace_file

_LOCK_WAIT_S = 30.0
"""A commit takes milliseconds; who waits longer waits for a process that hangs."""


@dataclass(frozen=True)
class StepOutcome:
    """A scored group, as far as a library wants to know it.

    Args:
        run: the id of the run; with ``step`` it makes the commit unique.
        step: the number of the group in its run, in problem order.
        problem: the problem that was asked.
        epoch: how often the data set was gone through before.
        used: ids of the experiences that stood in the group's prompts.
        rollouts: the number of scored rollouts.
        correct: how many of them were right.
        stats: the statistics of the group.
    """

    run: str
    step: int
    problem: Problem
    epoch: int
    used: Sequence[str]
    rollouts: int
    correct: int
    stats: GroupStats | None = None


@dataclass(frozen=True)
class StepResult:
    """The library right after a step, and what became of the step's proposals."""

    problem_id: str
    epoch: int
    state: LibraryState
    applied: tuple[Operation, ...]
    refused: tuple[Refusal, ...]


@dataclass(frozen=True)
class HistoryEntry:
    """One event with the states around it; ``number`` is its line in the log, from 1."""

    number: int
    event: LibraryEvent
    before: LibraryState
    after: LibraryState


class ExperienceLibrary:
    """The library of one agent.

    Args:
        json_path: for example ``data/grpo_experiences/generator_1_experiences.json``; need not be there.
        prefix: of its ids: ``G1`` gives ``G1-001``.
        capacity: the most experiences that the analyst can fill it to.
        clock: gives the time for the records.
        read_only: look only: nothing is mended, imported or written, and no lock is taken.

    Raises:
        InputError: the JSON file or the log cannot be used; says where and why.
        LockHeldError: another process has held the library for half a minute.
    """

    def __init__(
        self,
        json_path: Path | str,
        prefix: str = "G1",
        capacity: int = 64,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        read_only: bool = False,
    ) -> None:
        self.json_path = Path(json_path)
        self.log_path = self.json_path.with_suffix(".ops.jsonl")
        self.notices: list[str] = []
        self._prefix, self._capacity, self._clock, self._read_only = prefix, capacity, clock, read_only
        self._log = AppendLog(self.log_path, wait_s=_LOCK_WAIT_S)
        self._reader = LineReader(self.log_path)
        self._guard = threading.RLock()
        self._history: list[HistoryEntry] = []
        self._results: dict[tuple[str, int], StepResult] = {}
        self._states: dict[str, dict[int, LibraryState]] = {}
        if read_only:
            self._catch_up()
            self._look_at_json()
        elif self.json_path.exists() or self.log_path.exists():
            with self._transaction(at_open=True):
                pass

    # -------------------------------------------------------------- reading

    @property
    def state(self) -> LibraryState:
        """The library as this object last saw it; the next commit takes in what others wrote."""
        return self._history[-1].after if self._history else EMPTY

    def history(self) -> list[HistoryEntry]:
        """All events so far, oldest first."""
        return list(self._history)

    def states_by_step(self, run: str) -> Mapping[int, LibraryState]:
        """The library right after each step of a run (-1: where it began), as a view that grows with it.

        Events of other runs and of people are in it as they came.
        """
        return MappingProxyType(self._states.setdefault(run, {}))

    def recorded(self, run: str, step: int) -> StepResult | None:
        """What a step of a run came to; None where it is not recorded yet."""
        return self._results.get((run, step))

    def at_version(self, version: str) -> LibraryState:
        """The last state of that version.

        Args:
            version: its 12 hex digits, or at least the first 4 where they are clear.

        Raises:
            InputError: there is none, or more than one.
        """
        found = {}
        for state in (EMPTY, *(entry.after for entry in self._history)):
            if state.version == version or (len(version) >= 4 and state.version.startswith(version)):
                found[state.version] = state
        if len(found) == 1:
            return next(iter(found.values()))
        what = f"{'More than one' if found else 'No'} version {version} in {self.log_path}"
        raise InputError(what, why=" ".join(found), fix="`history` lists the versions.")

    # -------------------------------------------------------------- writing

    def begin_run(self, run: str) -> LibraryState:
        """Mark where a run begins, once; also after a restart this is the state its first prompts may know."""
        with self._transaction():
            if -1 not in self._states.get(run, {}):
                self._commit(BeginEvent(at=self._now(), run=run))
            return self._states[run][-1]

    def commit_step(self, step: StepOutcome, proposals: Sequence[Operation] = ()) -> StepResult:
        """Record a step and apply what holds of its proposals, against the newest state of all writers.

        A step of a run is recorded once; the same (run, step) again gives what was recorded and changes
        nothing. When this returns, the step is on the disk.

        Raises:
            LockHeldError: another process has held the library for half a minute.
            OSError: the disk is full or broken; the same call is safe to make again.
        """
        with self._transaction():
            key = (step.run, step.step)
            if key not in self._results:
                self._commit(self._step_event(step, proposals))
            return self._results[key]

    def edit(self, operations: Sequence[Operation], note: str = "") -> LibraryState:
        """Apply a person's operations (``add``, ``modify``, ``delete``, ``pin``, ``unpin``), all or none.

        Raises:
            InputError: one of them cannot be applied; says why.
        """
        with self._transaction():
            review = review_proposals(
                self.state, operations, prefix=self._prefix, capacity=self._capacity, problem=None, by_person=True
            )
            if review.refused:
                refusal = review.refused[0]
                name = refusal.operation.id or "a new experience"
                raise InputError(f"Cannot {refusal.operation.op} {name}: {refusal.message}")
            return self._commit(EditEvent(at=self._now(), operations=list(review.applied), note=note)).after

    def pin(self, experience_id: str) -> LibraryState:
        """Keep an experience from being changed or deleted by the analyst."""
        return self.edit([Operation(op="pin", id=experience_id)])

    def unpin(self, experience_id: str) -> LibraryState:
        """Take a pin away."""
        return self.edit([Operation(op="unpin", id=experience_id)])

    def rollback(self, version: str) -> LibraryState:
        """Make the library what it was in a version. The events since then stay in the log, their ids used."""
        with self._transaction():
            target = self.at_version(version)
            event = RollbackEvent(at=self._now(), version=target.version, experiences=list(target.experiences))
            return self._commit(event).after

    # -------------------------------------------------------------- the log and the file

    @contextlib.contextmanager
    def _transaction(self, *, at_open: bool = False) -> Iterator[None]:
        """Alone with the files, and up to date with them."""
        if self._read_only:
            raise RuntimeError("the library was opened to look only")
        with self._guard, self._log.hold():
            self._catch_up()
            self._take_in_json(at_open=at_open)
            yield

    def _catch_up(self) -> None:
        """Reduce the lines that were written since the last look, by whomever."""
        if self._reader.replaced():
            raise InputError(f"{self.log_path} was moved away or cut short while it was in use")
        for line in self._reader.read():
            self._remember(_event(line, self.log_path))

    def _remember(self, event: LibraryEvent) -> HistoryEntry:
        before = self.state
        entry = HistoryEntry(len(self._history) + 1, event, before, reduce(before, event))
        self._history.append(entry)
        if isinstance(event, StepEvent):
            result = StepResult(
                event.problem_id, event.epoch, entry.after, tuple(event.operations), tuple(event.refused)
            )
            self._results.setdefault((event.run, event.step), result)
            self._states.setdefault(event.run, {}).setdefault(event.step, entry.after)
        elif isinstance(event, BeginEvent):
            self._states.setdefault(event.run, {}).setdefault(-1, entry.after)
        return entry

    def _commit(self, event: LibraryEvent) -> HistoryEntry:
        self._log.append(encode_line(event))
        self._catch_up()
        entry = self._history[-1]
        if entry.after is not entry.before or not self.json_path.exists():
            replace_file(self.json_path, render_library(entry.after))
        return entry

    def _step_event(self, step: StepOutcome, proposals: Sequence[Operation]) -> StepEvent:
        review = review_proposals(
            self.state, proposals, prefix=self._prefix, capacity=self._capacity, problem=step.problem
        )
        return StepEvent(
            at=self._now(),
            run=step.run,
            step=step.step,
            problem_id=step.problem.id,
            epoch=step.epoch,
            used=list(step.used),
            rollouts=step.rollouts,
            correct=step.correct,
            mean=step.stats.mean if step.stats else None,
            std=step.stats.std if step.stats else None,
            operations=list(review.applied),
            refused=list(review.refused),
        )

    def _now(self) -> str:
        return self._clock().isoformat(timespec="seconds")

    def _take_in_json(self, *, at_open: bool) -> None:
        """Settle a JSON file that is not what the log says: a crash, a file without log, or a person's edit."""
        content = self._json_content()
        if content == render_library(self.state):
            return
        is_behind = bool(self._history) and content == render_library(self._history[-1].before)
        if content is None or is_behind:  # a crash came between the log and the file: the log wins
            if self._history:
                replace_file(self.json_path, render_library(self.state))
            return
        try:
            file = parse_library(content, self.json_path)
            event: ImportEvent | EditEvent | None
            event = self._edit_event(file) if self._history else self._import_event(file)
        except InputError as error:
            if at_open:
                raise
            aside = self.json_path.with_name(f"{self.json_path.name}.rejected-{self._clock():%Y%m%dT%H%M%S}")
            self.json_path.replace(aside)
            self.notices.append(f"{error.what}; it was moved to {aside.name}, and the log's library stands")
            event = None
        if event is not None:
            self._log.append(encode_line(event))
            self._catch_up()
            self.notices.append(_notice(event, self.json_path))
        replace_file(self.json_path, render_library(self.state))

    def _import_event(self, file: EditedFile) -> ImportEvent:
        return ImportEvent(at=self._now(), experiences=file.as_import(self._prefix, self._now()))

    def _edit_event(self, file: EditedFile) -> EditEvent | None:
        operations = file.as_edits(self.state)
        if not operations:
            return None
        review = review_proposals(
            self.state, operations, prefix=self._prefix, capacity=self._capacity, problem=None, by_person=True
        )
        if review.refused:
            refusal = review.refused[0]
            raise InputError(
                f"The edits in {self.json_path} cannot be taken in",
                why=f"{refusal.operation.id or 'A new experience'}: {refusal.message}",
                fix="Mend the entry, or delete the JSON file: the log beside it holds the library.",
            )
        return EditEvent(at=self._now(), operations=list(review.applied), note=f"edited in {self.json_path.name}")

    def _look_at_json(self) -> None:
        """For who only looks: what the file without log holds, or a word about edits that wait."""
        content = self._json_content()
        if content is None or content == render_library(self.state):
            return
        if not self._history:
            self._remember(self._import_event(parse_library(content, self.json_path)))
        elif content != render_library(self._history[-1].before):
            self.notices.append(f"{self.json_path} was changed by hand; the next run takes that in")

    def _json_content(self) -> bytes | None:
        try:
            content = self.json_path.read_bytes()
        except FileNotFoundError:
            return None
        return content if content.strip() else None


def library_prefix(name: str) -> str:
    """The prefix of the ids of a library: ``generator_1`` -> ``G1``, ``critic`` -> ``C``.

    Raises:
        InputError: no library is called so.
    """
    if name == "critic":
        return "C"
    if found := re.fullmatch(r"generator_(\d{1,4})", name):
        return f"G{found.group(1)}"
    raise InputError(f"No library is called {name}", fix="It is generator_<number> or critic.")


def _event(line: Line, path: Path) -> LibraryEvent:
    why = line.fault
    if not why:
        try:
            return EVENT.validate_json(line.text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            why = f"{'.'.join(str(part) for part in first['loc'])} {first['msg']}".strip()
    raise InputError(
        f"The log of a library is damaged: {path}, line {line.number}",
        why=why,
        fix="Mend the line, or move the log away: then the JSON file beside it is imported as it stands.",
    )


def _notice(event: ImportEvent | EditEvent, path: Path) -> str:
    if isinstance(event, ImportEvent):
        return f"{path}: {len(event.experiences)} experiences were imported"
    return f"{path}: {len(event.operations)} edits by hand were taken in"
