"""Lines of JSON: read from a file that another process may be writing, and encoded; and the identity of a file."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError

from engine.records import Record

MAX_LINE_BYTES = 64 << 20
"""Longer lines of records are reported and skipped, and those of datasets refused, which bounds the memory that a
damaged file takes. Rows of APPS and LiveCodeBench have many MiB."""

_CHUNK = 1 << 16
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""An escape that may be a lone surrogate; UTF-8 JSON cannot contain one in another way."""


@dataclass(frozen=True)
class Line:
    """One line of a file, numbered from 1. If it is invalid, ``fault`` is the reason and ``text`` is empty.

    ``start`` and ``end`` are where it is in the file, in bytes.
    """

    number: int
    text: bytes
    fault: str = ""
    start: int = 0
    end: int = 0


class LineReader:
    """Reads the lines of a growing file, each once, without a lock.

    A file that was replaced or truncated since the last call is read from its start again.

    Args:
        path: the file; it may be created later.

    Attributes:
        offset: where the last line that was read ends in the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self._inode = -1
        self._number = 0

    def read(self, *, to_the_end: bool = False) -> Iterator[Line]:
        """Yield the complete lines since the last call, without blank ones.

        Args:
            to_the_end: the file has no writer any more: a last line without a newline is yielded too, as a line with
                a fault if it is torn.
        """
        with contextlib.suppress(FileNotFoundError), self.path.open("rb", _CHUNK) as stream:
            if self.replaced():
                self.offset = self._number = 0
            self._inode = os.fstat(stream.fileno()).st_ino
            stream.seek(self.offset)
            while line := self._next(stream.readline, to_the_end):
                self.offset, self._number = line.end, line.number
                if line.fault or line.text:
                    yield line

    def replaced(self) -> bool:
        """Whether the file was deleted, replaced or truncated since the last read."""
        if self.offset == 0:
            return False
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return True
        return status.st_ino != self._inode or status.st_size < self.offset

    def _next(self, readline: Callable[[int], bytes], to_the_end: bool) -> Line | None:
        text = readline(MAX_LINE_BYTES)
        number, start = self._number + 1, self.offset
        end = start + len(text)
        if text.endswith(b"\n"):
            return Line(number, text.strip(), "", start, end)
        if len(text) == MAX_LINE_BYTES:
            while (chunk := readline(_CHUNK)) and not chunk.endswith(b"\n"):
                end += len(chunk)
            fault = f"longer than {MAX_LINE_BYTES >> 20} MiB"
            return Line(number, b"", fault, start, end + len(chunk)) if chunk or to_the_end else None
        if not text or not to_the_end:
            return None
        if is_json_object(text):
            return Line(number, text.strip(), "", start, end)
        return Line(number, b"", "the last line is cut off", start, end)


def is_json_object(text: bytes) -> bool:
    """Whether the bytes are one complete JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def without_lone_surrogates(value: Any, text: bytes) -> Any:
    """A value that was read from a text of JSON; half characters, which cannot be encoded, become ``?`` in it."""
    if not _HALF.search(text):
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def encode_line(record: Record) -> bytes:
    """Encode a record as one line of JSON. Lone surrogates in a model's text become ``?``."""
    try:
        return record.model_dump_json().encode()
    except PydanticSerializationError:
        return json.dumps(record.model_dump(), ensure_ascii=False).encode(errors="replace")


FileStamp = tuple[int, int, int]
"""Inode, size in bytes, and time of the last change in nanoseconds.

What was made from the content of a file holds as long as this is the same.
"""


def file_stamp(path: Path) -> FileStamp | None:
    """The identity of a file; None if it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
