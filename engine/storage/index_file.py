"""The index file of a log: frames with a chained checksum. See :mod:`engine.storage.indexed_log`."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar

import msgspec

from engine.storage.append_log import opened
from engine.storage.lines import MAX_LINE_BYTES

_VERSION = 1
_MAGIC = b"LogIndex"
_HEADER = struct.Struct(">8s16sQQqqI")
_FRAME = struct.Struct(">II")
_CHUNK = 1 << 20


class Entry(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A line of a log.

    Args:
        line: its number, from 1.
        start, end: where it is in the file, in bytes, with blank lines before it.
        digest: hash of its text without white space around it.
    """

    line: int
    start: int
    end: int
    digest: bytes = b""

    def where(self) -> dict[str, Any]:
        """The fields of any entry, to make another one of the same line."""
        return {"line": self.line, "start": self.start, "end": self.end, "digest": self.digest}


class Unreadable(Entry, frozen=True, kw_only=True, array_like=True, tag="unreadable"):
    """A line that is no record, and why."""

    reason: str


EntryT = TypeVar("EntryT", bound=Entry)


class LogState(NamedTuple):
    """What a log is recognised by: inode, size in bytes, times of change of its content and of its entry."""

    inode: int = 0
    size: int = 0
    modified_ns: int = 0
    changed_ns: int = 0


UNKNOWN = LogState()


class IndexFile(Generic[EntryT]):
    """Reads and extends an index file. No method raises for what is wrong with the file.

    A frame is length, CRC-32 and MessagePack of an entry. The CRC begins with the layout of the entries and goes on
    from frame to frame, so that of a damaged or torn file the frames before the damage are used. Two processes may use
    the file: one that finds it changed since it has read it does not write any more.

    Args:
        path: the file; it need not exist.
        model: the entries, beside :class:`Unreadable`; of a file with another layout nothing is used.
    """

    def __init__(self, path: Path, model: type[EntryT]) -> None:
        self.path = path
        self._layout = _layout_of(model)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[EntryT | Unreadable] = msgspec.msgpack.Decoder(model | Unreadable)
        self._stream: BinaryIO | None = None
        self._pending = bytearray()
        self._crc, self._end, self._header, self._size = 0, _HEADER.size, b"", 0
        self._is_writable = True

    def open(self) -> LogState:
        """Begin to read; the state of the log that the file was compared with, ``UNKNOWN`` without a usable file."""
        self.close()
        self._pending.clear()
        self._crc, self._end, self._header, self._size = zlib.crc32(self._layout), _HEADER.size, b"", 0
        self._is_writable = True
        try:
            self._stream = self.path.open("rb", _CHUNK)
            self._header = self._stream.read(_HEADER.size)
            self._size = os.fstat(self._stream.fileno()).st_size
        except OSError:
            self.close()
        state = self._state_of(self._header)
        if state is None:
            self.close()
        return state or UNKNOWN

    def close(self) -> None:
        """End reading: the frames that were not read yet do not count."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def read(self) -> Iterator[EntryT | Unreadable]:
        """The entries that were not read yet, to the end or the first that is damaged."""
        while (found := self._next()) is not None:
            entry, self._end, self._crc = found
            yield entry

    def next_if(self, place: Entry) -> EntryT | Unreadable | None:
        """The next entry if it is of this line; else None, and the entries after it do not count either."""
        found = self._next()
        if found is None:
            return None
        entry, end, crc = found
        if entry.where() != place.where():
            self.close()
            return None
        self._end, self._crc = end, crc
        return entry

    def is_of(self, state: LogState) -> bool:
        """Whether the file names this state of the log, or holds nothing to name it for."""
        return self._end == _HEADER.size or self._state_of(self._header) == state

    def add(self, entry: EntryT | Unreadable) -> None:
        """Add an entry after those that were read. It is written with :meth:`save`."""
        self.close()
        if not self._is_writable:
            return
        try:
            content = self._encoder.encode(entry)
        except (OverflowError, UnicodeEncodeError):  # an absurd number of a damaged line; frames cannot have a gap
            self.drop()
            return
        self._crc = zlib.crc32(content, self._crc)
        self._pending += _FRAME.pack(len(content), self._crc) + content

    def drop(self) -> None:
        """Leave out what was added since the file was written. Nothing can be added or written after it."""
        self._pending.clear()
        self._is_writable = False

    def save(self, state: LogState) -> None:
        """Write what was added, and the state of the log that all entries are of.

        It is not written on a full or read-only disk, or beside another process; then it never is by this object.
        """
        header = _HEADER.pack(_MAGIC, self._layout, *state, 0)[:-4]
        header += struct.pack(">I", zlib.crc32(header))
        is_cut = self._end < self._size
        if not self._is_writable or not (self._pending or is_cut or header != self._header):
            return
        self._is_writable = False
        with contextlib.suppress(OSError), opened(self.path, os.O_RDWR | os.O_CREAT) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (os.fstat(fd).st_size, os.pread(fd, _HEADER.size, 0)) == (self._size, self._header):
                self._write(fd, header)
                self._is_writable = True
        self._pending.clear()

    def _write(self, fd: int, header: bytes) -> None:
        """Frames first: after a crash between both, the header does not vouch for them."""
        try:
            os.ftruncate(fd, min(self._end, self._size))
            if self._size < _HEADER.size:
                _write_at(fd, bytes(_HEADER.size), 0)
            _write_at(fd, self._pending, self._end)
            _write_at(fd, header, 0)
        except OSError:
            os.ftruncate(fd, 0)  # the space belongs to the log
            raise
        self._end += len(self._pending)
        self._size, self._header = self._end, header

    def _next(self) -> tuple[EntryT | Unreadable, int, int] | None:
        """The next entry, where its frame ends, and the CRC there; it is read again until it is accepted."""
        if self._stream is None:
            return None
        try:
            self._stream.seek(self._end)
            length, crc = _FRAME.unpack(self._stream.read(_FRAME.size))
            content = self._stream.read(length) if length <= MAX_LINE_BYTES else b""
            if len(content) == length and zlib.crc32(content, self._crc) == crc:
                return self._decoder.decode(content), self._end + _FRAME.size + length, crc
        except (OSError, struct.error, msgspec.MsgspecError):
            pass
        self.close()
        return None

    def _state_of(self, header: bytes) -> LogState | None:
        if len(header) < _HEADER.size or zlib.crc32(header[:-4]) != int.from_bytes(header[-4:], "big"):
            return None
        magic, layout, *state, _ = _HEADER.unpack(header)
        return LogState(*state) if (magic, layout) == (_MAGIC, self._layout) else None


def _write_at(fd: int, content: bytes | bytearray, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def _layout_of(model: type[Entry]) -> bytes:
    text = json.dumps([_VERSION, msgspec.json.schema(model), msgspec.json.schema(Unreadable)], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
