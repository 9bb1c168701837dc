"""The experience libraries, read again only after a change of their files."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.experience.events import GateEvent
from engine.experience.library import ExperienceLibrary
from engine.experience.state import LibraryState
from engine.storage.lines import FileStamp, file_stamp

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

    def open(self) -> ExperienceLibrary:
        """The library as it is now, read-only. A change without an entry in the log has the time of the file.

        Raises:
            InputError: its files are damaged.
            OSError: they cannot be read.
        """
        return ExperienceLibrary(
            self.path, read_only=True, clock=lambda: datetime.fromtimestamp(self.path.stat().st_mtime, UTC)
        )

    def state(self) -> LibraryState | None:
        """Its experiences as they are now; None if it cannot be read."""
        try:
            return _state_as_of(self, self.stamp())
        except (InputError, OSError):
            return None

    def texts(self) -> dict[str, str]:
        """Id -> text of its experiences, also of the retired and forbidden ones; empty if it cannot be read."""
        state = self.state()
        every = () if state is None else (*state.live, *state.retired, *state.forbidden)
        return {experience.id: experience.content for experience in every}

    def summary(self) -> dict[str, Any]:
        """What lists show of the library as it is now: version, numbers, time of its last event, newest gate first.

        ``error`` says why it cannot be read; empty if it can.
        """
        return _summary_as_of(self, self.stamp())


@functools.lru_cache(maxsize=64)
def _state_as_of(library: Library, stamp: Stamp) -> LibraryState:
    """Kept, as each page of a group shows texts of the library of its run."""
    return library.open().state


@functools.lru_cache(maxsize=4096)
def _summary_as_of(library: Library, stamp: Stamp) -> dict[str, Any]:
    try:
        opened = library.open()
        state, history = opened.state, opened.history()
    except (InputError, OSError) as error:
        return {"error": str(error), "gates": [], "version": ""}
    return {
        "error": "",
        "version": state.version,
        "experiences": len(state.live),
        "pinned": sum(experience.status == "pinned" for experience in state.live),
        "forbidden": len(state.forbidden),
        "changed": history[-1].event.at if history else "",
        "gates": [entry.event for entry in reversed(history) if isinstance(entry.event, GateEvent)],
    }
