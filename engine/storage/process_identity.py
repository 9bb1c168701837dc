"""Which process wrote a row of a shared file, and whether it is still running."""

from __future__ import annotations

import os
import socket
from typing import NamedTuple


class ProcessIdentity(NamedTuple):
    """A process, with enough detail to tell whether it is still running."""

    machine: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> ProcessIdentity:
        """This process."""
        try:  # process ids are unique only within one PID namespace
            namespace = os.readlink("/proc/self/ns/pid")
        except OSError:
            namespace = ""
        return cls(f"{socket.gethostname()}/{namespace}", os.getpid(), _start_time(os.getpid()))

    @property
    def alive(self) -> bool:
        """Whether this process runs on this machine. A reused process id has another start time."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return not self.started or _start_time(self.pid) in (self.started, "")


def _start_time(pid: int) -> str:
    """When a process started, in the kernel's clock ticks; empty if that cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
