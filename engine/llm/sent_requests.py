"""The requests that were sent and are not answered yet. They outlive their callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any


class SentRequests:
    """The requests in flight, by the journal keys of their samples."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def add(self, keys: Iterable[str], task: asyncio.Task[Any]) -> None:
        """Add a request until it ends."""
        added = dict.fromkeys(keys, task)
        self._tasks |= added

        def forget(_: asyncio.Task[Any]) -> None:
            for key in added:
                if self._tasks.get(key) is task:
                    del self._tasks[key]
            if not task.cancelled():
                task.exception()  # marked as retrieved: the caller may have been cancelled

        task.add_done_callback(forget)

    def tasks_of(self, keys: Iterable[str]) -> list[asyncio.Task[Any]]:
        """The requests for these samples, each once."""
        return list(dict.fromkeys(self._tasks[key] for key in keys if key in self._tasks))

    async def drain(self, seconds: float, tell: Callable[[str], None]) -> None:
        """Let the requests end, so that their replies are stored; cancel those that take longer than ``seconds``."""
        left = set(self._tasks.values())
        try:
            if left and seconds > 0:
                tell(
                    f"waiting for {len(left)} requests in flight, at most {seconds:.0f} s, to keep their replies "
                    "(Ctrl-C again: do not wait)"
                )
                await asyncio.wait(left, timeout=seconds)
        finally:
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
