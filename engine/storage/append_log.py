"""Append-only JSON Lines files that survive a crash at any byte. One writer at a time.

A last line without a newline is valid if it is a complete JSON object (no proper prefix of one is). Otherwise it is
torn: readers skip it, and the next writer removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from engine.errors import InputError, LockHeldError, ScaffoldError
from engine.records import timestamp
from engine.storage.lines import MAX_LINE_BYTES, is_json_object

_POLL_S = 0.005
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What writing to a full disk, or beyond a limit, ends with."""
_sync = os.fdatasync if hasattr(os, "fdatasync") else os.fsync  # fdatasync does not exist on macOS


class FileChangedError(ScaffoldError, OSError):
    """A file was deleted, moved, replaced or truncated by another program while it was being written."""


class AppendLog:
    """The writer of a file.

    Args:
        path: the file; its directory is created if needed, and the file with the first line. The lock file
            ``<name>.lock`` is next to it.
        wait_s: how many seconds ``hold`` waits for another writer.
        sleep: as ``time.sleep``.
        clock: monotonic time in seconds.

    Attributes:
        held: whether this object holds the lock.
    """

    def __init__(
        self,
        path: Path,
        *,
        wait_s: float = 0.2,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._wait_s, self._sleep, self._clock = wait_s, sleep, clock
        self._fd: int | None = None
        self._size: int | None = None
        """The size of the file after the last append of this holder."""
        self.held = False
        self._guard = threading.RLock()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the file's lock for the block. A torn last line is repaired first.

        Raises:
            LockHeldError: another process, or another object of this process, holds the lock.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Closing the lock file releases the lock; deleting it would allow two writers.
        with opened(_lock_path(self.path), os.O_RDWR | os.O_CREAT) as lock:
            self._acquire(lock)
            command = shlex.join(sys.argv)[:200]
            holder = f"process {os.getpid()} on {socket.gethostname()} ({command}), since {timestamp()}"
            with named_if_full(self.path):
                os.ftruncate(lock, 0)
                os.pwrite(lock, holder.encode(errors="replace"), 0)
            self.held = True
            try:
                if self.path.exists():
                    self._open()
                yield
                self.check()
            finally:
                self._close()
                os.ftruncate(lock, 0)

    def delete(self) -> None:
        """Delete the file. Only inside ``hold``; nothing can be appended after it."""
        self._close()
        self.path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raise FileChangedError if the file was deleted, moved, replaced or truncated since the last append."""
        with self._guard:
            if self._fd is None or self._size is None:
                return
            written = os.fstat(self._fd)
            try:
                change = "" if os.path.samestat(written, self.path.stat()) else "replaced"
            except (FileNotFoundError, NotADirectoryError):
                change = "deleted or moved"
            if not change and written.st_size < self._size:
                change = "truncated"
            if change:
                raise FileChangedError(
                    f"{self.path} was {change} while it was in use",
                    why="The results of this run were in it.",
                    fix="Put the file back if it was moved. Then run the same command again; replies that are in the "
                    "journal are not requested again.",
                )

    def append(self, *lines: bytes) -> None:
        """Append lines with one write and one sync. Only inside ``hold``; from any thread.

        Raises:
            InputError: a line is too long; the file is unchanged.
            OSError: the disk is full or broken; the file is unchanged.
            FileChangedError: the file was deleted, moved, replaced or truncated since the last append.
        """
        for line in lines:
            if b"\n" in line:
                raise ValueError("a line must not contain a newline")
            if len(line) >= MAX_LINE_BYTES:
                raise InputError(
                    f"{self.path}: a line has at most {MAX_LINE_BYTES - 1} bytes, got {len(line)}",
                    why="A problem and all replies to it are one line.",
                    fix="Lower --rollouts or --max-tokens, or leave --logprobs out.",
                )
        with self._guard:
            if not self.held:
                raise RuntimeError("append outside of hold()")
            fd = self._open()
            self.check()
            start = os.fstat(fd).st_size
            try:
                content = b"".join(line + b"\n" for line in lines)
                write_all(fd, content)
                _sync(fd)
            except OSError as error:
                os.ftruncate(fd, start)
                error.filename = error.filename or str(self.path)
                raise
            self._size = start + len(content)

    def _acquire(self, lock: int) -> None:
        deadline = self._clock() + self._wait_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._clock() >= deadline:
                    raise LockHeldError(
                        f"{self.path} is locked by another process",
                        why=f"The lock is held by {_holder_text(lock)}.",
                        fix="Wait for that process or stop it, or use another directory.",
                    ) from None
                self._sleep(_POLL_S)
            else:
                return

    def _open(self) -> int:
        if self._fd is None:
            is_new = not self.path.exists()
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            if is_new:
                sync_directory(self.path.parent)
            _repair(self._fd)
        return self._fd

    def _close(self) -> None:
        with self._guard:
            self.held = False
            if self._fd is not None:
                os.close(self._fd)
                self._fd = self._size = None


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A descriptor of a file or a directory, which is closed at the end of the block."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


def writer_of(path: Path) -> str | None:
    """A description of the process that holds the file's lock; None if it is not locked. Never waits."""
    with contextlib.suppress(FileNotFoundError), opened(_lock_path(path), os.O_RDONLY) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # writers retry for a moment: this does not disturb them
        except BlockingIOError:
            return _holder_text(lock)
    return None


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: after a crash it has the old or the new content."""
    with replacement(path) as stream:
        stream.write(content)


def write_file(path: Path, content: bytes) -> None:
    """Replace a file as :func:`replace_file` does; its folder is made if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content)


@contextlib.contextmanager
def replacement(path: Path) -> Iterator[BinaryIO]:
    """A file beside ``path`` that takes its place when the block ends without an error, and else is deleted.

    Of several writers each has a file of its own, and the last one to end counts.

    Raises:
        OSError: it cannot be written; the error names ``path``.
    """
    temporary = path.with_name(f"{path.name}.{os.urandom(4).hex()}.tmp")
    with named_if_full(path, temporary):
        try:
            with temporary.open("wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    sync_directory(path.parent)


@contextlib.contextmanager
def named_if_full(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Let the error of a full disk name ``path``, and not ``temporary`` or no file."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL or (temporary is not None and error.filename == str(temporary)):
            error.filename = str(path)
        raise


def sync_directory(directory: Path) -> None:
    """Sync the entries of a directory to disk."""
    with opened(directory, os.O_RDONLY) as fd:
        os.fsync(fd)


def _repair(fd: int) -> None:
    """Add the missing newline to a complete last line; remove a torn one."""
    size = os.fstat(fd).st_size
    if size == 0:
        return
    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as content:
        start = content.rfind(b"\n") + 1
        is_complete = size - start < MAX_LINE_BYTES and is_json_object(content[start:])
    if start == size:
        return
    if is_complete:
        write_all(fd, b"\n")
    else:
        os.ftruncate(fd, start)
    os.fsync(fd)


def write_all(fd: int, content: bytes) -> None:
    """Write the whole content to a descriptor."""
    view = memoryview(content)
    while view:  # a full disk or a signal may cause a partial write
        view = view[os.write(fd, view) :]


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _holder_text(lock: int) -> str:
    holder = os.pread(lock, 4096, 0).decode(errors="replace")
    return holder or "an unknown process (it has just started or just ended)"
