"""An index of a rollouts file that grows with the file: a summary of each group, and where its line is."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from engine.records import RolloutGroup
from engine.statistics.groups import DeadRewardWatch
from engine.storage.append_log import Line, LineReader, writer_of
from engine.storage.rollout_store import BrokenLine, UnreadableLineError, decode_line
from grpo_training.viewer.data.rows import GroupSummary, summarise

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.statistics.groups import ComponentSummary

ValueT = TypeVar("ValueT")

_SETTLED_S = 2.0
"""A last line without a newline is taken as cut off once the file has not changed for this long."""


class RolloutIndex:
    """The groups of one file. Reads only what was appended since the last call. May be used from several threads.

    Args:
        path: a rollouts file, also one that is being written.
        tau: for groups without stored statistics.
        clock: monotonic time in seconds.
        now: the time of files, in seconds.
    """

    def __init__(
        self,
        path: Path,
        tau: float = 0.05,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self.groups: list[GroupSummary] = []
        self.broken: list[BrokenLine] = []
        self._tau, self._clock, self._now = tau, clock, now
        self._reader = LineReader(path)
        self._texts: dict[str, str] = {}
        self._latest: dict[tuple[str, int], GroupSummary] = {}
        self._by_line: dict[int, GroupSummary] = {}
        self._watch, self._watched = DeadRewardWatch(), 0
        self._version = 0
        self._memos: dict[str, tuple[int, Any]] = {}
        self._guard = threading.Lock()

    def update(self, budget_s: float | None = None) -> None:
        """Read what was appended.

        Args:
            budget_s: stop after about this many seconds; None reads to the end.
        """
        deadline = None if budget_s is None else self._clock() + budget_s
        with self._guard:
            if self._reader.replaced():
                self._clear()
            start = self._reader.offset
            for line in self._reader.read(to_the_end=self._is_settled()):
                self._version += 1
                self._add(line, start, self._reader.offset)
                start = self._reader.offset
                if deadline is not None and self._clock() > deadline:
                    break

    def progress(self) -> float:
        """The share of the file that was read, from 0 to 1."""
        try:
            size = self.path.stat().st_size
        except OSError:
            return 1.0
        return min(1.0, self._reader.offset / size) if size else 1.0

    def current(self) -> list[GroupSummary]:
        """One group per problem and epoch: the last complete one, else the last, in order of first appearance."""
        with self._guard:
            return list(self._latest.values())

    def all(self) -> list[GroupSummary]:
        """Every group, also those that a later one replaces."""
        with self._guard:
            return list(self.groups)

    def is_current(self, group: GroupSummary) -> bool:
        """Whether no later group replaces this one."""
        return self._latest.get(group.key) is group

    def find(self, line: int) -> GroupSummary | None:
        """The group of a line; the file is read up to it if it was not yet. None if there is none."""
        before = -1.0
        while self.summary(line) is None and self.progress() > before:
            before = self.progress()
            self.update(1.0)
        return self.summary(line)

    def summary(self, line: int) -> GroupSummary | None:
        """The group of a line; None if there is none (yet)."""
        return self._by_line.get(line)

    def group(self, summary: GroupSummary) -> RolloutGroup:
        """The whole group, read from the file.

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
        return decode_line(Line(summary.line, lines[-1].strip()), RolloutGroup)

    def memo(self, name: str, compute: Callable[[], ValueT]) -> ValueT:
        """What ``compute`` returns for the groups that were read so far; computed again when there are more."""
        version = self._version
        known = self._memos.get(name)
        if known is None or known[0] != version:
            known = self._memos[name] = (version, compute())
        value: ValueT = known[1]
        return value

    def dead_rewards(self) -> list[ComponentSummary]:
        """The reward components that do not vary now, or did not for a while."""
        with self._guard:
            for group in self.groups[self._watched :]:
                if group.complete:
                    self._watch.feed({name: one.as_values() for name, one in group.components.items()})
            self._watched = len(self.groups)
            return [summary for summary in self._watch.summary() if summary.alarms]

    def _is_settled(self) -> bool:
        try:
            changed = self.path.stat().st_mtime
        except OSError:
            return False
        return self._now() - changed > _SETTLED_S and writer_of(self.path) is None

    def _add(self, line: Line, start: int, end: int) -> None:
        try:
            group = summarise(line, start, end, self._tau, self._texts)
        except UnreadableLineError as error:
            self.broken.append(BrokenLine(self.path, line.number, str(error)))
            return
        self.groups.append(group)
        self._by_line[group.line] = group
        known = self._latest.get(group.key)
        if known is None or group.complete or not known.complete:
            self._latest[group.key] = group

    def _clear(self) -> None:
        self._version += 1
        for kept in (self.groups, self.broken, self._texts, self._latest, self._by_line):
            kept.clear()
        self._watch, self._watched = DeadRewardWatch(), 0
