"""Landlock: a process gives up the right to open files outside a list of places (Linux 5.13 or later).

It needs no privileges and no namespaces, so it works in containers in which the levels with namespaces do not.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Sequence

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on x86_64 and aarch64
_VERSION = 1
_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_RIGHTS_OF_FIRST_VERSION = (1 << 13) - 1  # the above, and making and removing entries of each kind

libc = ctypes.CDLL(None, use_errno=True)


def supported() -> bool:
    """Whether the kernel has Landlock and it is enabled."""
    return int(libc.syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION)) >= 1


def restrict(paths: Sequence[str], devices: Sequence[str]) -> None:
    """Refuse this thread, and the threads and programs it starts, all files except the given ones. It needs
    ``no_new_privs``. Descriptors that are open stay usable.

    Args:
        paths: files and folders that may be read and executed.
        devices: files that may be read and written.

    Raises:
        OSError: the kernel refuses it.
    """
    attributes = struct.pack("Q", _RIGHTS_OF_FIRST_VERSION)
    rules = check(libc.syscall(_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0))
    try:
        for path in paths:
            _allow(rules, path, _READ_FILE | _READ_DIR | _EXECUTE)
        for path in devices:
            _allow(rules, path, _READ_FILE | _WRITE_FILE)
        check(libc.syscall(_RESTRICT, rules, 0))
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                rights &= ~_READ_DIR
            rule = struct.pack("<Qi", rights, fd)
            check(libc.syscall(_ADD, rules, _BENEATH, rule, 0))
        finally:
            os.close(fd)


def check(result: int, action: str = "landlock") -> int:
    """The result of a system call; raise ``OSError`` with the last error number if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")
    return int(result)
