"""An index of a critic's results that grows with the file: a summary of each fusion, and where its line is."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.records import Fusion
from engine.storage.append_log import Line, LineReader, writer_of
from engine.storage.rollout_store import BrokenLine, UnreadableLineError, decode_line

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class FusionSummary:
    """What the list of fusions needs of one.

    Args:
        line: number of its line in the file, from 1.
        start, end: where the line is in the file, in bytes.
        added: ``r_fusion`` - 0.5, half the mean lead over the best input and over the majority; None if not measured.
        complete: whether it has a reward.
    """

    line: int
    start: int
    end: int
    problem_id: str
    problem: str
    epoch: int
    generator: str
    is_correct: bool | None
    answer: str
    total: float | None
    added: float | None
    merged: str
    complete: bool

    @property
    def key(self) -> tuple[str, int, str]:
        """A later complete fusion of the same problem, epoch and generator replaces this one."""
        return self.problem_id, self.epoch, self.generator


class FusionIndex:
    """The fusions of one file. Reads only what was appended since the last call. May be used from several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.broken: list[BrokenLine] = []
        self._reader = LineReader(path)
        self._by_line: dict[int, FusionSummary] = {}
        self._latest: dict[tuple[str, int, str], FusionSummary] = {}
        self._guard = threading.Lock()

    def update(self, budget_s: float | None = None) -> None:
        """Read what was appended, for about ``budget_s`` seconds; None reads to the end."""
        deadline = None if budget_s is None else time.monotonic() + budget_s
        with self._guard:
            if self._reader.replaced():
                for kept in (self.broken, self._by_line, self._latest):
                    kept.clear()
            start = self._reader.offset
            for line in self._reader.read(to_the_end=writer_of(self.path) is None):
                self._add(line, start, self._reader.offset)
                start = self._reader.offset
                if deadline is not None and time.monotonic() > deadline:
                    break

    def progress(self) -> float:
        """The share of the file that was read, from 0 to 1."""
        try:
            size = self.path.stat().st_size
        except OSError:
            return 1.0
        return min(1.0, self._reader.offset / size) if size else 1.0

    def current(self) -> list[FusionSummary]:
        """One fusion per problem, epoch and generator: the last with a reward, else the last, by first appearance."""
        with self._guard:
            return list(self._latest.values())

    def find(self, line: int) -> FusionSummary | None:
        """The fusion of a line; the file is read up to it if it was not yet. None if there is none."""
        before = -1.0
        while self.summary(line) is None and self.progress() > before:
            before = self.progress()
            self.update(1.0)
        return self.summary(line)

    def summary(self, line: int) -> FusionSummary | None:
        """The fusion of a line; None if there is none (yet)."""
        return self._by_line.get(line)

    def fusion(self, summary: FusionSummary) -> Fusion:
        """The whole fusion, read from the file.

        Raises:
            UnreadableLineError: the line is no longer there.
        """
        try:
            with self.path.open("rb") as stream:
                stream.seek(summary.start)
                lines = [line for line in stream.read(summary.end - summary.start).split(b"\n") if line.strip()]
        except OSError as error:
            raise UnreadableLineError(str(error.strerror)) from None
        if not lines:
            raise UnreadableLineError("the file has changed")
        return decode_line(Line(summary.line, lines[-1].strip()), Fusion)

    def _add(self, line: Line, start: int, end: int) -> None:
        try:
            summary = summarise_fusion(decode_line(line, Fusion), line.number, start, end)
        except UnreadableLineError as error:
            self.broken.append(BrokenLine(self.path, line.number, str(error)))
            return
        self._by_line[summary.line] = summary
        known = self._latest.get(summary.key)
        if known is None or summary.complete or not known.complete:
            self._latest[summary.key] = summary


def summarise_fusion(fusion: Fusion, line: int, start: int, end: int) -> FusionSummary:
    """The summary of a fusion."""
    added = fusion.rewards.r_fusion
    return FusionSummary(
        line=line,
        start=start,
        end=end,
        problem_id=fusion.problem_id,
        problem=fusion.problem_text[:200],
        epoch=fusion.epoch,
        generator=fusion.generator_id,
        is_correct=fusion.is_correct,
        answer=(fusion.final_answer or "")[:120],
        total=fusion.rewards.r_total,
        added=None if added is None else added - 0.5,
        merged=fusion.merged or "",
        complete=fusion.outcome.carries_reward,
    )
