"""The lines of a log as summaries, which are kept in an index beside it.

The log is the truth. The index, ``<name>.index``, only saves the decoding of lines; it may be deleted at any time. If
the log is as it was when the index was last compared with it (inode, size, times of change), the entries are taken as
they are. Else the lines are read and compared with the hashes of the entries: from the first line that differs, because
the log was edited, replaced, truncated or appended to, the lines are summarised anew.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic

from engine.storage.index_file import UNKNOWN, Entry, EntryT, IndexFile, LogState, Unreadable
from engine.storage.lines import Line, LineReader
from engine.storage.rollout_store import UnreadableLineError

SAVE_BYTES = 4 << 20
"""The index is written after so many bytes of the log, so that a small log has none."""
_SETTLED_NS = 2_000_000_000
"""A log that was changed this recently may change again with the same time of change."""


class IndexedLog(Generic[EntryT]):
    """The lines of a growing log, each once, in order.

    Args:
        path: the log; it may be created later.
        model: the summary of a line.
        summarise: makes the summary of a line at a place; raises ``UnreadableLineError`` if it is no record.
        save_bytes: the index is written after so many bytes of the log.
        now_ns: the time of files, in nanoseconds.
    """

    def __init__(
        self,
        path: Path,
        model: type[EntryT],
        summarise: Callable[[Line, Entry], EntryT],
        *,
        save_bytes: int = SAVE_BYTES,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.path = path
        self._summarise, self._save_bytes, self._now_ns = summarise, save_bytes, now_ns
        self._lines = LineReader(path)
        self._index = IndexFile(path.with_name(path.name + ".index"), model)
        self._has_begun = self._is_trusted = self._is_indexed = False
        self._new_bytes = 0
        """Bytes of the log whose entries are added to the index and not written."""
        self._state, self._inode = UNKNOWN, 0

    @property
    def offset(self) -> int:
        """Where the last line that was read ends in the log, in bytes."""
        return self._lines.offset

    def replaced(self) -> bool:
        """Whether the log was deleted, replaced or truncated since the last read."""
        return self._lines.replaced()

    def read(self, *, to_the_end: bool = False) -> Iterator[EntryT | Unreadable]:
        """Yield the lines since the last call. The caller may leave the iteration; the next call goes on.

        Args:
            to_the_end: the log has no writer any more: a last line without a newline is yielded too.
        """
        if not self._has_begun or self._lines.replaced():
            self._begin()
        if self._is_trusted:
            for entry in self._index.read():
                self._lines.move_to(entry.line, entry.end, self._inode)
                yield entry
            self._is_trusted = False
        start = self._lines.offset
        for line in self._lines.read(to_the_end=to_the_end):
            if self._lines.offset <= start:  # replaced since it was looked at
                start, self._is_indexed = 0, False
            place = Entry(line=line.number, start=start, end=self._lines.offset, digest=digest_of(line.text))
            start = place.end
            yield self._entry(line, place)
        if self._new_bytes >= self._save_bytes or not self._index.is_of(self._state):
            self._save()
        if to_the_end and self._new_bytes:  # few; they need not stay in memory for lines that may never come
            self._index.drop()
            self._is_indexed, self._new_bytes = False, 0

    def _begin(self) -> None:
        """Begin with the first line. Only a state from before the first read vouches for what is read."""
        self._has_begun, self._is_indexed, self._new_bytes = True, True, 0
        self._state = _state_of(self.path)
        self._inode = self._state.inode
        self._lines.move_to(0, 0, self._inode)
        self._is_trusted = self._index.open() == self._state != UNKNOWN
        if self._now_ns() - max(self._state.modified_ns, self._state.changed_ns) < _SETTLED_NS:
            self._state = UNKNOWN

    def _entry(self, line: Line, place: Entry) -> EntryT | Unreadable:
        known = self._index.next_if(place)
        if known is not None:
            return known
        made: EntryT | Unreadable
        try:
            made = self._summarise(line, place)
        except UnreadableLineError as error:
            reason = str(error).encode(errors="replace").decode()
            made = Unreadable(**place.where(), reason=reason)
        self._is_indexed = self._is_indexed and line.is_ended  # what follows belongs to the same line
        if self._is_indexed:
            self._index.add(made)
            self._new_bytes += place.end - place.start
            if self._new_bytes >= self._save_bytes:
                self._save()
        return made

    def _save(self) -> None:
        self._index.save(self._state)
        self._new_bytes = 0


def digest_of(text: bytes) -> bytes:
    """The hash of a line, by which a changed one is recognised."""
    return hashlib.blake2b(text, digest_size=16).digest()


def _state_of(path: Path) -> LogState:
    try:
        status = path.stat()
    except OSError:
        return UNKNOWN
    return LogState(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
