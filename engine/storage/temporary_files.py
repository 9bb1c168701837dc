"""Temporary files that take the place of another file. What a killed process left of them is used again or removed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

_WRITERS = 9
"""Names of temporary files: one more than the processes that may replace a file at a time."""


def new_beside(path: Path) -> tuple[int, Path]:
    """An empty file beside ``path``, which this process has locked: ``<name>.tmp``, or while that is in use another.

    The first that no process has locked is used, also if a killed process left it. Those after it are removed.
    """
    names = [path.with_name(f"{path.name}{number}.tmp") for number in ("", *(f".{one}" for one in range(2, _WRITERS)))]
    for place, temporary in enumerate(names, 1):
        try:
            fd = _locked(temporary, os.O_CREAT)
        except BlockingIOError:
            continue
        except OSError:
            break
        os.ftruncate(fd, 0)
        for left in names[place:]:
            _remove_unlocked(left)
        return fd, temporary
    own = path.with_name(f"{path.name}.{os.getpid()}.tmp")  # the name is a link, or the file system has no locks
    own.unlink(missing_ok=True)
    return os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), own


def _locked(path: Path, flags: int = 0) -> int:
    """The descriptor of a temporary file, with its lock.

    Raises:
        BlockingIOError: another process or thread writes it, or has just given it its name.
        OSError: it cannot be opened or locked.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), os.lstat(path)):
                return fd
        raise BlockingIOError(errno.EWOULDBLOCK, "renamed or removed before it was locked")
    except BaseException:
        os.close(fd)
        raise


def _remove_unlocked(temporary: Path) -> None:
    """Remove a temporary file, unless a process writes it: the lock, unlike a process id, ends with its process."""
    with contextlib.suppress(OSError):
        fd = _locked(temporary)
        try:
            temporary.unlink()
        finally:
            os.close(fd)
