"""A pool of zygotes for programs that run at the same time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from engine.sandbox.levels import Level
from engine.sandbox.zygote_process import Zygote


class ZygotePool:
    """At most ``size`` zygotes of one level, started on first use. Works from any thread."""

    def __init__(self, size: int, level: Level) -> None:
        self._level = level
        self._slots: queue.LifoQueue[Zygote | None] = queue.LifoQueue()
        for _ in range(size):
            self._slots.put(None)
        self._alive: set[Zygote] = set()
        self._guard = threading.Lock()

    @contextmanager
    def zygote(self) -> Iterator[Zygote]:
        """A zygote for exclusive use inside the block. A broken one is replaced.

        Raises:
            SandboxError: none can be started.
        """
        zygote = self._slots.get()
        try:
            if zygote is not None and not zygote.alive():
                self._retire(zygote)
                zygote = None
            if zygote is None:
                zygote = Zygote(self._level)
                with self._guard:
                    self._alive.add(zygote)
            yield zygote
        finally:
            if zygote is not None and zygote.dead:
                self._retire(zygote)
                zygote = None
            self._slots.put(zygote)

    def pids(self) -> list[int]:
        """The process ids of the running zygotes."""
        with self._guard:
            return [zygote.pid for zygote in self._alive if zygote.alive()]

    def close(self) -> None:
        """Kill all zygotes. The pool may be used again afterwards."""
        with self._guard:
            zygotes = list(self._alive)
        for zygote in zygotes:
            self._retire(zygote)

    def _retire(self, zygote: Zygote) -> None:
        zygote.close()
        with self._guard:
            self._alive.discard(zygote)
