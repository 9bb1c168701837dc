"""The experience libraries, read again only after a change of their files."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Sized
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from engine.errors import InputError
from engine.experience.events import GateEvent
from engine.experience.library import ExperienceLibrary
from engine.storage.file_stamp import FileStamp, file_stamp

Stamp = tuple[FileStamp | None, FileStamp | None]
"""Of the JSON file and of the log."""


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

    def open(self) -> ExperienceLibrary:
        """The library as it is now, read-only. A change without an entry in the log has the time of the file.

        Raises:
            InputError: its files are damaged.
            OSError: they cannot be read.
        """
        return _opened(self.path)

    def summary(self) -> LibrarySummary:
        """The summary of the library as it is now."""
        return _summary_as_of(self.path, self.stamp())


def summaries(libraries: Iterable[Library], budget_s: float | None = None) -> dict[str, LibrarySummary]:
    """Id -> summary, of those that were read before the time was over.

    Args:
        libraries: of which.
        budget_s: no other library is begun after this many seconds; one is always read. None: no limit.
    """
    deadline = None if budget_s is None else time.monotonic() + budget_s
    read: dict[str, LibrarySummary] = {}
    for library in libraries:
        before = libraries_read()
        read[library.id] = library.summary()
        if libraries_read() > before and deadline is not None and time.monotonic() >= deadline:
            break
    return read


def libraries_read() -> int:
    """How often a library was read for a summary."""
    return _summary_as_of.cache_info().misses


def share_read(known: Sized, libraries: Sized) -> float:
    """The share of libraries whose summaries are known; 1 if there are none."""
    return len(known) / len(libraries) if len(libraries) else 1.0


def _opened(path: Path) -> ExperienceLibrary:
    return ExperienceLibrary(path, read_only=True, clock=lambda: datetime.fromtimestamp(path.stat().st_mtime, UTC))


@functools.lru_cache(maxsize=4096)
def _summary_as_of(path: Path, stamp: Stamp) -> LibrarySummary:
    try:
        library = _opened(path)
        state, history = library.state, library.history()
    except (InputError, OSError) as error:
        return LibrarySummary(error=str(error))
    return LibrarySummary(
        version=state.version,
        experiences=len(state.texts),
        pinned=sum(experience.status == "pinned" for experience in state.texts),
        forbidden=len(state.forbidden),
        changed=history[-1].event.at if history else "",
        gates=tuple(entry.event for entry in reversed(history) if isinstance(entry.event, GateEvent)),
    )
