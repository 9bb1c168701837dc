"""An index of a file of records that grows with the file: a summary of each record, and where its line is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Generic, Self, TypeVar

from engine.errors import InputError
from engine.records import Record
from engine.storage.append_log import writer_of
from engine.storage.index_file import Unreadable
from engine.storage.indexed_log import IndexedLog
from engine.storage.lines import Line
from engine.storage.rollout_store import BrokenLine, UnreadableLineError, decode_line, in_problem_order
from engine.storage.summaries import Summary

_SETTLED_S = 2.0
"""A last line without a newline is taken as cut off once the file has not changed for this long."""
_MAX_DIGITS = 9


class NotFoundError(InputError):
    """A page of a run, a group or a library that does not exist."""


SummaryT = TypeVar("SummaryT", bound=Summary)
RecordT = TypeVar("RecordT", bound=Record)


class FileIndex(Generic[SummaryT, RecordT]):
    """The records of one file. Reads only what was appended since the last call. May be used from several threads.

    Args:
        path: a file of records, also one that is being written.
        model: the record.
        lines: the lines of the file as summaries.
        clock: monotonic time in seconds.
        now: the time of files, in seconds.
    """

    def __init__(
        self,
        path: Path,
        model: type[RecordT],
        lines: IndexedLog[SummaryT],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self.broken: list[BrokenLine] = []
        self._model, self._clock, self._now = model, clock, now
        self._reader = lines
        self._summaries: list[SummaryT] = []
        self._latest: dict[Hashable, SummaryT] = {}
        self._by_line: dict[int, SummaryT] = {}
        self._version = 0
        self._guard = threading.Lock()

    def update(self, budget_s: float | None = None) -> Self:
        """Read what was appended; returns the index itself.

        Args:
            budget_s: stop after about this many seconds; None reads to the end.
        """
        deadline = None if budget_s is None else self._clock() + budget_s
        with self._guard:
            if self._reader.replaced():
                self._clear()
            for line in self._reader.read(to_the_end=self._is_settled()):
                self._version += 1
                self._add(line)
                if deadline is not None and self._clock() > deadline:
                    break
        return self

    def progress(self) -> float:
        """The share of the file that was read, from 0 to 1."""
        try:
            size = self.path.stat().st_size
        except OSError:
            return 1.0
        return min(1.0, self._reader.offset / size) if size else 1.0

    def current(self) -> list[SummaryT]:
        """One record per key: the last complete one, else the last, in problem order."""
        with self._guard:
            return in_problem_order(self._latest.values(), lambda one: one.step)

    def all(self) -> list[SummaryT]:
        """Every record, also those that a later one replaces."""
        with self._guard:
            return list(self._summaries)

    def is_current(self, summary: SummaryT) -> bool:
        """Whether no later record replaces this one."""
        return self._latest.get(summary.key) is summary

    def find(self, line: int) -> SummaryT | None:
        """The record of a line; the file is read up to it if it was not yet. None if there is none."""
        before = -1.0
        while self._by_line.get(line) is None and self.progress() > before:
            before = self.progress()
            self.update(1.0)
        return self._by_line.get(line)

    def record(self, summary: SummaryT) -> RecordT:
        """The whole record, read from the file.

        Raises:
            UnreadableLineError: the line is no longer there, or holds what the summary did not look at and no
                reader takes.
        """
        try:
            with self.path.open("rb") as stream:
                stream.seek(summary.start)
                lines = [line for line in stream.read(summary.end - summary.start).split(b"\n") if line.strip()]
        except OSError as error:
            raise UnreadableLineError(str(error.strerror)) from None
        if not lines:
            raise UnreadableLineError("the file has changed")
        return decode_line(Line(summary.line, lines[-1].strip()), self._model)

    def record_of_line(self, number: str) -> tuple[SummaryT, RecordT]:
        """The record of a line whose number is part of an address.

        Raises:
            NotFoundError: there is none, or it cannot be read.
        """
        is_number = number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS
        summary = self.find(int(number)) if is_number else None
        if summary is None:
            raise NotFoundError(
                f"Nothing in line {number[:20]} of {self.path}", fix="The list of the run has them all."
            )
        try:
            return summary, self.record(summary)
        except UnreadableLineError as error:
            raise NotFoundError(f"Line {number} of {self.path} cannot be read", why=str(error)) from None

    def _is_settled(self) -> bool:
        try:
            changed = self.path.stat().st_mtime
        except OSError:
            return False
        return self._now() - changed > _SETTLED_S and writer_of(self.path) is None

    def _add(self, summary: SummaryT | Unreadable) -> None:
        if isinstance(summary, Unreadable):
            self.broken.append(BrokenLine(self.path, summary.line, summary.reason))
            return
        self._summaries.append(summary)
        self._by_line[summary.line] = summary
        known = self._latest.get(summary.key)
        if known is None or summary.complete or not known.complete:
            self._latest[summary.key] = summary

    def _clear(self) -> None:
        """The file was replaced."""
        self._version += 1
        for kept in (self._summaries, self.broken, self._latest, self._by_line):
            kept.clear()


def lines_beside(lines: Sequence[int], line: int) -> tuple[int | None, int | None]:
    """The lines before and after a line, of those that have a page; None at the ends, or for a line without a page."""
    if line not in lines:
        return None, None
    place = lines.index(line)
    return (lines[place - 1] if place else None), (lines[place + 1] if place + 1 < len(lines) else None)
