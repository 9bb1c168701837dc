"""The identity of a file: what was made from its content holds as long as this is the same."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class FileStamp(NamedTuple):
    """Inode, size in bytes, and time of the last change in nanoseconds."""

    inode: int
    size: int
    changed_ns: int


def file_stamp(path: Path) -> FileStamp | None:
    """The identity of a file; None if it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return FileStamp(status.st_ino, status.st_size, status.st_mtime_ns)
