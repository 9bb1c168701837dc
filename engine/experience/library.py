"""An agent's experience library on disk: a JSON file, and the log of how it came about.

The JSON file is the library: what a person or another program writes to it holds. The log
(``generator_1_experiences.ops.jsonl``) is its history, with what was measured. Each change is one line of it, synced to
disk before the JSON file is replaced. Every writer takes a lock, so processes may share a library, and a crash at any
point leaves a consistent one.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from engine.errors import InputError
from engine.experience.events import (
    BeginEvent,
    EditEvent,
    GateEvent,
    ImportEvent,
    LibraryEvent,
    StepEvent,
)
from engine.experience.file import LibraryRenderer, as_library, parse_library
from engine.experience.log import HistoryEntry, LibraryLog, StepResult
from engine.experience.proposals import review_proposals
from engine.experience.state import LibraryState, diff, kept_text, reduce, with_operations, with_retirements
from engine.experience.text_checks import LeakCheck, leaks_short_answer
from engine.records import Evidence, Operation, Problem
from engine.storage.append_log import replace_file

OF_OTHERS = "X"
"""The prefix of ids in the library of another program."""


class ExperienceLibrary:
    """The library of one agent.

    Args:
        json_path: for example ``data/grpo_experiences/generator_1_experiences.json``; need not exist. New ids begin as
            its name says: ``G1-001``, or ``C-001`` of the critic; those of a file with another name with ``X``.
        capacity: maximum number of experiences that the analyst can add up to.
        clock: time of the records.
        read_only: nothing is repaired, imported or written, and no lock is taken.

    Raises:
        InputError: the JSON file or the log is invalid; the message gives place and reason.
        LockHeldError: another process has held the library for 30 s.
    """

    def __init__(
        self,
        json_path: Path | str,
        capacity: int = 64,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        read_only: bool = False,
    ) -> None:
        self.json_path = Path(json_path)
        self.log_path = self.json_path.with_suffix(".ops.jsonl")
        self.notices: list[str] = []
        self.capacity = capacity
        self._clock, self._read_only = clock, read_only
        self._prefix = library_prefix(self.json_path.stem.removesuffix("_experiences"))
        self._review = functools.partial(review_proposals, prefix=self._prefix, capacity=capacity)
        self._log = LibraryLog(self.log_path)
        self._guard = threading.RLock()
        self._renderer = LibraryRenderer()
        self._last_rendered: tuple[LibraryState | None, bytes] = (None, b"")
        if read_only:
            self._log.read()
            self._take_edit(self._json_content())
        elif self.json_path.exists() or self.log_path.exists():
            with self._transaction(at_open=True):
                pass

    @property
    def state(self) -> LibraryState:
        """The library as last read by this object; the next commit reads what other processes wrote."""
        return self._log.state

    def history(self) -> list[HistoryEntry]:
        """All events so far, oldest first."""
        return list(self._log.entries)

    def recorded(self, run: str, step: int) -> StepResult | None:
        """The result of a step of a run; None if it is not recorded."""
        return self._log.results.get((run, step))

    def begin_run(self, start: BeginEvent) -> LibraryState:
        """Record the start of a run, once, with the time. Returns the state at the start, also after a restart."""
        with self._transaction():
            if start.run not in self._log.run_starts:
                self._commit(start.model_copy(update={"at": self._now()}))
            return self._log.run_starts[start.run]

    def commit_step(
        self,
        step: StepEvent,
        proposals: Sequence[Operation],
        problem: Problem,
        leaks_answer: LeakCheck = leaks_short_answer,
        *,
        on_trial: bool = False,
        keeps_problem: bool = False,
    ) -> StepResult:
        """Record a step and apply its valid proposals to the newest state.

        A step is recorded once; calling again with the same (run, step) returns the recorded result and changes
        nothing. When this returns, the step is on disk.

        Args:
            step: the results of the group; its time, operations and refusals are filled in.
            proposals: of the analyst.
            problem: of the group.
            leaks_answer: whether a text gives away the answer of the problem.
            on_trial: whether the experiences of the run are on trial.
            keeps_problem: keep the text of the problem with new experiences, to match them with later problems.

        Raises:
            LockHeldError: another process has held the library for 30 s.
            OSError: the disk is full or broken; the call may be repeated.
        """
        with self._transaction():
            key = (step.run, step.step)
            if key not in self._log.results:
                applied, refused = self._review(self.state, proposals, problem, leaks_answer, on_trial=on_trial)
                known = {"at": self._now(), "operations": applied, "refused": refused}
                if keeps_problem and applied:
                    known["problem_text"] = kept_text(problem)
                self._commit(with_retirements(self.state, step.model_copy(update=known)))
            return self._log.results[key]

    def edit(self, operation: Operation) -> LibraryState:
        """Apply the operation of a person.

        Args:
            operation: ``pin`` (a trial does not retire it), ``unpin``, ``remove``, or ``forbid`` (remove, and keep the
                analyst from adding it or a near-duplicate again).

        Raises:
            InputError: the library holds no such experience.
        """
        with self._transaction():
            if operation.id not in {entry.id for entry in self.state.live}:
                raise InputError(f"Cannot {operation.op} {operation.id}: The library holds no experience of this id")
            return self._commit(EditEvent(at=self._now(), operations=[operation])).after

    def add_cases(self, cases: Sequence[tuple[Problem, Operation]]) -> None:
        """Add solved problems as cases, as long as there is a place. One that has a case, or had one, is left out.

        Args:
            cases: problems, each with the addition of its case.
        """
        with self._transaction():
            state, at = self.state, self._now()
            for problem, case in cases:
                if not state.has_case_of(problem):
                    applied, _ = self._review(state, [case], problem, leaks_short_answer, on_trial=False)
                    source = Evidence(problem_id=problem.id, problem_text=kept_text(problem))
                    state = with_operations(state, applied, at, source)
            if state is not self.state:
                self._commit(ImportEvent(at=at, origin="other problems", experiences=list(state.live)))

    def record_gate(self, event: GateEvent) -> LibraryState:
        """Record the verdict of a gate.

        Raises:
            InputError: the library has changed since the gate has begun.
        """
        with self._transaction():
            if self.state.version != event.version:
                raise InputError(
                    f"{self.json_path} has changed during the gate",
                    why=f"Version {event.version} was tested, and it is {self.state.version} now.",
                    fix="Run the gate again. Answers without experiences are stored and asked for no second time.",
                )
            return self._commit(event).after

    @contextlib.contextmanager
    def _transaction(self, *, at_open: bool = False) -> Iterator[None]:
        """Hold the lock, with the newest log and JSON file read."""
        if self._read_only:
            raise RuntimeError("the library was opened read-only")
        with self._guard, self._log.file.hold():
            self._log.read()
            self._reconcile(at_open=at_open)
            yield

    def _commit(self, event: LibraryEvent) -> HistoryEntry:
        self._log.append(event)
        entry = self._log.entries[-1]
        if entry.after is not entry.before or not self.json_path.exists():
            replace_file(self.json_path, self._rendered())
        return entry

    def _rendered(self) -> bytes:
        """The content of the JSON file for the present state, kept until the state changes."""
        if self._last_rendered[0] is not self.state:
            self._last_rendered = self.state, self._renderer.render(self.state)
        return self._last_rendered[1]

    def _now(self) -> str:
        return self._clock().isoformat(timespec="seconds")

    def _reconcile(self, *, at_open: bool) -> None:
        """Record what a person or another program has written to the JSON file, or write it again after a crash."""
        content = self._json_content()
        if content == self._rendered():
            return
        try:
            self._take_edit(content)
        except InputError as error:
            if at_open:
                raise
            aside = self.json_path.with_name(f"{self.json_path.name}.rejected-{self._clock():%Y%m%dT%H%M%S}")
            self.json_path.replace(aside)
            self.notices.append(f"{error.what}; the file was moved to {aside.name} and written again as it was before")
        if self._log.entries:
            replace_file(self.json_path, self._rendered())

    def _take_edit(self, content: bytes) -> None:
        """Apply what the JSON file says that the log does not have; it is recorded unless the library is read-only.

        The content may be that before the last event: a crash happened after writing the log.
        """
        entries = self._log.entries
        if not content or (entries and content == LibraryRenderer().render(entries[-1].before)):
            return
        at = self._now()
        event = ImportEvent(
            at=at, experiences=as_library(parse_library(content, self.json_path), self.state, self._prefix, at)
        )
        if reduce(self.state, event).version == self.state.version:
            return
        is_first_reading = self._read_only and not entries
        (self._log.remember if self._read_only else self._log.append)(event)
        if not is_first_reading:
            kinds = Counter(change.kind for change in diff(entries[-1].before, entries[-1].after))
            changes = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "another order"
            self.notices.append(f"{self.json_path} was edited: {changes}")

    def _json_content(self) -> bytes:
        """The content of the JSON file; empty if it is missing or blank."""
        try:
            content = self.json_path.read_bytes()
        except FileNotFoundError:
            return b""
        return b"" if content.isspace() else content


def library_prefix(name: str) -> str:
    """The prefix of ids in a library: ``generator_1`` -> ``G1``, ``critic`` -> ``C``; :data:`OF_OTHERS` otherwise."""
    if name == "critic":
        return "C"
    match = re.fullmatch(r"generator_(\d{1,4})", name)
    return f"G{match.group(1)}" if match else OF_OTHERS
