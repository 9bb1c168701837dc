"""The log of an experience library: a file of events, and the states that they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from engine.errors import InputError
from engine.experience.events import EVENT, BeginEvent, LibraryEvent, Refusal, StepEvent
from engine.experience.state import EMPTY, LibraryState, reduce
from engine.records import FORMAT, Operation
from engine.storage.append_log import AppendLog
from engine.storage.lines import Line, LineReader, encode_line

_LOCK_WAIT_S = 30.0
"""A commit takes milliseconds; a longer wait means that the other process hangs."""


@dataclass(frozen=True)
class StepResult:
    """The library after a step, and the applied and refused proposals of the step."""

    problem_id: str
    epoch: int
    state: LibraryState
    applied: Sequence[Operation]
    refused: Sequence[Refusal]


@dataclass(frozen=True)
class HistoryEntry:
    """One event with the states before and after it; ``number`` is its line in the log, from 1."""

    number: int
    event: LibraryEvent
    before: LibraryState
    after: LibraryState


class LibraryLog:
    """The events of a log, as last read. Not thread-safe.

    Args:
        path: the file; need not exist.

    Attributes:
        file: its lock is that which every writer takes.
        entries: all events so far, oldest first.
        results: (run, step) -> what the step has changed.
        run_starts: run -> the state at its start.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[HistoryEntry] = []
        self.results: dict[tuple[str, int], StepResult] = {}
        self.run_starts: dict[str, LibraryState] = {}
        self.file = AppendLog(path, wait_s=_LOCK_WAIT_S)
        self._reader = LineReader(path)

    @property
    def state(self) -> LibraryState:
        """The library after the last event."""
        return self.entries[-1].after if self.entries else EMPTY

    def read(self) -> None:
        """Apply the lines that were written since the last call, by any process.

        Raises:
            InputError: the file was replaced, or has an invalid line.
        """
        if self._reader.replaced():
            raise InputError(
                f"{self.path} was replaced or truncated while it was in use",
                why="Another program changed the library, so that its state is not the one that this command has read.",
                fix="Start the command again; it reads the file as it is now. If lines are missing that you need, put "
                "the file back from a copy before that.",
            )
        for line in self._reader.read():
            self.remember(_event(line, self.path))

    def append(self, event: LibraryEvent) -> None:
        """Write an event to the disk and apply it. The lock must be held, and the newest lines read."""
        self.file.append(encode_line(event))
        self.read()

    def remember(self, event: LibraryEvent) -> None:
        """Apply an event. One that is not in the file is forgotten with this object."""
        before = self.state
        entry = HistoryEntry(len(self.entries) + 1, event, before, reduce(before, event))
        self.entries.append(entry)
        if isinstance(event, StepEvent):
            result = StepResult(event.problem_id, event.epoch, entry.after, event.operations, event.refused)
            self.results.setdefault((event.run, event.step), result)
        elif isinstance(event, BeginEvent):
            self.run_starts.setdefault(event.run, entry.after)


def _event(line: Line, path: Path) -> LibraryEvent:
    try:
        event = EVENT.validate_json(line.text)
    except ValidationError as error:
        why = line.fault or str(error)
    else:
        if event.format <= FORMAT:
            return event
        why = f"format {event.format} was written by a newer version; this one reads up to {FORMAT}"
    raise InputError(
        f"Invalid line in a library log: {path}, line {line.number}",
        why=why,
        fix="Correct the line, or move the log away: the JSON file next to it is then imported.",
    )
