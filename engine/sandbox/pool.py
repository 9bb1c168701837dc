"""Pools of processes, each of which works for one caller at a time."""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar


class Member(Protocol):
    """A process of a pool."""

    def alive(self) -> bool:
        """Whether it can work."""

    def close(self) -> None:
        """Kill it."""


MemberT = TypeVar("MemberT", bound=Member)


class ProcessPool(Generic[MemberT]):
    """At most ``size`` processes, started on first use and killed when this process exits. Works from any thread.

    Args:
        size: further callers wait.
        start: starts a process.
    """

    def __init__(self, size: int, start: Callable[[], MemberT]) -> None:
        self._start = start
        self._slots: queue.LifoQueue[MemberT | None] = queue.LifoQueue()
        for _ in range(size):
            self._slots.put(None)
        self._started: set[MemberT] = set()
        self._guard = threading.Lock()
        self._owner = os.getpid()
        atexit.register(self.close)

    @contextmanager
    def member(self) -> Iterator[MemberT]:
        """A process for exclusive use inside the block. One that has ended is replaced.

        Raises:
            Exception: what ``start`` raises.
        """
        member = self._slots.get()
        try:
            if member is not None and not member.alive():
                self._retire(member)
                member = None
            if member is None:
                member = self._start()
                with self._guard:
                    self._started.add(member)
            yield member
        finally:
            if member is not None and not member.alive():
                self._retire(member)
                member = None
            self._slots.put(member)

    def running(self) -> list[MemberT]:
        """The processes that can work."""
        with self._guard:
            return [member for member in self._started if member.alive()]

    def close(self) -> None:
        """Kill all processes. The pool may be used again afterwards."""
        if os.getpid() != self._owner:  # a forked child must not kill its parent's processes
            return
        with self._guard:
            members = list(self._started)
        for member in members:
            self._retire(member)

    def _retire(self, member: MemberT) -> None:
        member.close()
        with self._guard:
            self._started.discard(member)
