"""The records of a file that grows, as summaries: all of them, the current ones, and what pages compute of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Generic, Self

from engine.errors import InputError
from engine.records import Fusion, RolloutGroup
from engine.storage.append_log import writer_of
from engine.storage.lines import Line
from engine.storage.rollout_store import BrokenLine, RecordT, UnreadableLineError, ValueT, in_problem_order
from engine.storage.stored_records import RecordFile, SummaryT
from engine.storage.summaries import FusionSummary, GroupSummary, summarise_fusion, summarise_group

_SETTLED_S = 2.0
"""A last line without a newline is taken as cut off once the file has not changed for this long."""
_MAX_DIGITS = 9
_CHECKED_BYTES = 1 << 18
"""The clock is read after so many bytes: in some containers one reading takes as long as a line."""


class NotFoundError(InputError):
    """A page of a run, a group or a library that does not exist."""


class RecordIndex(Generic[SummaryT, RecordT]):
    """The records of one file. Reads only what was appended since the last call. May be used from several threads.

    Args:
        path: a file of records, also one that is being written.
        model: the record.
        summarise: makes the summary of a line.
        clock: processor time in seconds, by which a busy machine needs no more steps than a free one.
        now: the time of files, in seconds.
    """

    def __init__(
        self,
        path: Path,
        model: type[RecordT],
        summarise: Callable[[Line], SummaryT],
        clock: Callable[[], float] = time.thread_time,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._file = RecordFile(path, model, summarise)
        self._clock, self._now = clock, now
        self._summaries: list[SummaryT] = []
        self._latest: dict[Hashable, SummaryT] = {}
        self._by_line: dict[int, SummaryT] = {}
        self._version = 0
        self._memos: dict[str, tuple[int, Any]] = {}
        self._guard = threading.Lock()

    @property
    def broken(self) -> list[BrokenLine]:
        """The lines that are no records."""
        return self._file.broken

    def update(self, budget_s: float | None = None) -> Self:
        """Read what was appended; returns the index itself.

        Args:
            budget_s: stop after about this many seconds; None reads to the end.
        """
        deadline = None if budget_s is None else self._clock() + budget_s
        checked = 0
        with self._guard:
            if self._file.lines.replaced():
                self._version += 1
                for kept in (self._summaries, self.broken, self._latest, self._by_line):
                    kept.clear()
            for summary in self._file.read(to_the_end=self._is_settled()):
                self._version += 1
                self._summaries.append(summary)
                self._by_line[summary.line] = summary
                known = self._latest.get(summary.key)
                if known is None or summary.complete or not known.complete:
                    self._latest[summary.key] = summary
                if deadline is not None and self._file.lines.offset >= checked + _CHECKED_BYTES:
                    checked = self._file.lines.offset
                    if self._clock() > deadline:
                        break
        return self

    def progress(self) -> float:
        """The share of the file that was read, from 0 to 1."""
        try:
            size = self.path.stat().st_size
        except OSError:
            return 1.0
        return min(1.0, self._file.lines.offset / size) if size else 1.0

    def current(self) -> list[SummaryT]:
        """One record per key: the last complete one, else the last, in problem order."""
        with self._guard:
            return in_problem_order(self._latest.values(), lambda summary: summary.step)

    def all(self) -> list[SummaryT]:
        """Every record, also those that a later one replaces."""
        with self._guard:
            return list(self._summaries)

    def latest(self, key: Hashable) -> SummaryT | None:
        """The record of a key that no later one replaces; None if none was read."""
        return self._latest.get(key)

    def is_current(self, summary: SummaryT) -> bool:
        """Whether no later record replaces this one."""
        return self.latest(summary.key) is summary

    def memo(self, name: str, compute: Callable[[], ValueT]) -> ValueT:
        """What ``compute`` returns for the records that were read so far; computed again when there are more."""
        version = self._version
        known = self._memos.get(name)
        if known is None or known[0] != version:
            known = self._memos[name] = (version, compute())
        value: ValueT = known[1]
        return value

    def record(self, summary: SummaryT) -> RecordT:
        """The whole record, read from the file.

        Raises:
            NotFoundError: its line is no longer there, or cannot be read as a record.
        """
        try:
            return self._file.record(summary.place)
        except (UnreadableLineError, InputError, OSError) as error:
            raise NotFoundError(f"Line {summary.line} of {self.path} cannot be read", why=str(error)) from None

    def record_of_line(self, number: str) -> tuple[SummaryT, RecordT]:
        """The record of a line whose number is part of an address; the file is read up to it if it was not yet.

        Raises:
            NotFoundError: there is none, or it cannot be read.
        """
        line = int(number) if number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS else 0
        before = -1.0
        while line and line not in self._by_line and self.progress() > before:
            before = self.progress()
            self.update(1.0)
        summary = self._by_line.get(line)
        if summary is None:
            raise NotFoundError(
                f"Nothing in line {number[:20]} of {self.path}", fix="The list of the run has them all."
            )
        return summary, self.record(summary)

    def _is_settled(self) -> bool:
        try:
            changed = self.path.stat().st_mtime
        except OSError:
            return False
        return self._now() - changed > _SETTLED_S and writer_of(self.path) is None


def rollout_index(
    path: Path, tau: float = 0.05, **clocks: Callable[[], float]
) -> RecordIndex[GroupSummary, RolloutGroup]:
    """The groups of a generator's file, by problem and epoch; ``tau`` is for groups without stored statistics."""
    return RecordIndex(path, RolloutGroup, lambda line: summarise_group(line).with_tau(tau), **clocks)


def fusion_index(path: Path) -> RecordIndex[FusionSummary, Fusion]:
    """The fusions of a critic's file, by problem, epoch and generator."""
    return RecordIndex(path, Fusion, summarise_fusion)
