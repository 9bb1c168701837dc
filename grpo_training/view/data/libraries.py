"""The experience libraries, read again only after a change of their files."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sized
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from engine.errors import InputError
from engine.experience.events import GateEvent
from engine.experience.library import ExperienceLibrary
from engine.storage.file_stamp import FileStamp, file_stamp

_OPEN = 8
"""Libraries that stay open: one of 1,000 steps takes 6 MB."""

Stamp = tuple[FileStamp | None, FileStamp | None]
"""Of the JSON file and of the log."""


@dataclass(frozen=True)
class Library:
    """An experience library: its JSON file, with the log of its changes beside it."""

    id: str
    name: str
    path: Path

    @property
    def shown_folder(self) -> str:
        """The name of the run that it belongs to, or that of its folder."""
        folder = self.path.parent
        return folder.parent.name if folder.name == "experiences" and folder.parent.name else folder.name

    def stamp(self) -> Stamp:
        """The identity of its files: it changes whenever one of them does."""
        return file_stamp(self.path), file_stamp(self.path.with_suffix(".ops.jsonl"))


@dataclass(frozen=True)
class LibrarySummary:
    """What lists show of a library.

    Args:
        version: of the library.
        experiences, pinned, forbidden: their numbers.
        changed: the time of its last event; empty without any.
        gates: its tests, newest first.
        error: why it cannot be read; empty if it can.
    """

    version: str = ""
    experiences: int = 0
    pinned: int = 0
    forbidden: int = 0
    changed: str = ""
    gates: tuple[GateEvent, ...] = ()
    error: str = ""


class LibraryIndex:
    """Summaries of all libraries, and the libraries that were opened last. May be used from several threads."""

    def __init__(self) -> None:
        self._summaries: dict[Path, tuple[Stamp, LibrarySummary]] = {}
        self._open: OrderedDict[Path, tuple[Stamp, ExperienceLibrary]] = OrderedDict()
        self._guard = threading.Lock()
        self.version = 0
        """It changes whenever a summary does."""

    def open(self, library: Library) -> ExperienceLibrary:
        """The library as it is now, read-only. Of one that has grown, only the new lines are read.

        Raises:
            InputError: its files are damaged.
            OSError: they cannot be read.
        """
        with self._guard:
            return self._opened(library, library.stamp())

    def summary(self, library: Library) -> LibrarySummary:
        """The summary of a library as it is now."""
        with self._guard:
            return self._summary(library)

    def summaries(self, libraries: Iterable[Library], budget_s: float | None = None) -> dict[str, LibrarySummary]:
        """Id -> summary, of those that were read before the time was over.

        Args:
            libraries: of which.
            budget_s: no other library is begun after this many seconds; one is always read. None: no limit.
        """
        deadline = None if budget_s is None else time.monotonic() + budget_s
        found: dict[str, LibrarySummary] = {}
        has_read = False
        with self._guard:
            for library in libraries:
                known, stamp = self._summaries.get(library.path), library.stamp()
                if known is not None and known[0] == stamp:
                    found[library.id] = known[1]
                elif not has_read or deadline is None or time.monotonic() < deadline:
                    found[library.id] = self._summary(library)
                    has_read = True
                elif known is not None:
                    found[library.id] = known[1]  # of a moment ago; the next refresh reads it
        return found

    def _summary(self, library: Library) -> LibrarySummary:
        stamp = library.stamp()
        known = self._summaries.get(library.path)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            summary = _summarise(self._opened(library, stamp))
        except (InputError, OSError) as error:
            summary = LibrarySummary(error=str(error))
        self._summaries[library.path] = (stamp, summary)
        self.version += 1
        return summary

    def _opened(self, library: Library, stamp: Stamp) -> ExperienceLibrary:
        known = self._open.pop(library.path, None)
        opened = None
        if known is not None and (known[0] == stamp or _has_grown(known[0], stamp)):
            opened = known[1] if known[0] == stamp or known[1].refresh() else None
        if opened is None:
            opened = open_read_only(library)
        self._open[library.path] = (stamp, opened)
        while len(self._open) > _OPEN:
            self._open.popitem(last=False)
        return opened


def share_read(known: Sized, libraries: Sized) -> float:
    """The share of libraries whose summaries are known; 1 if there are none."""
    return len(known) / len(libraries) if len(libraries) else 1.0


def open_read_only(library: Library) -> ExperienceLibrary:
    """Open a library.

    Raises:
        InputError: its files are damaged.
        OSError: they cannot be read.
    """
    return ExperienceLibrary(library.path, read_only=True, clock=lambda: _written_at(library.path))


def _written_at(path: Path) -> datetime:
    """The time of changes to the file that its log does not have yet, as those of another program."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _has_grown(before: Stamp, now: Stamp) -> bool:
    """Whether the log is the same file with lines added, so that the earlier lines need not be read again."""
    old, new = before[1], now[1]
    return old is not None and new is not None and old.inode == new.inode and old.size < new.size


def _summarise(library: ExperienceLibrary) -> LibrarySummary:
    state, history = library.state, library.history()
    return LibrarySummary(
        version=state.version,
        experiences=len(state.texts),
        pinned=sum(one.status == "pinned" for one in state.texts),
        forbidden=len(state.forbidden),
        changed=history[-1].event.at if history else "",
        gates=tuple(entry.event for entry in reversed(history) if isinstance(entry.event, GateEvent)),
    )
