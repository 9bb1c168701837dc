"""Ends calls: all of a client after a fatal error, and one that takes too long."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from engine.errors import FatalEndpointError

ResultT = TypeVar("ResultT")

_LOOK_S, _FEWEST_LOOKS = 20.0, 10


async def within(seconds: float, work: Coroutine[Any, Any, ResultT], look: Callable[[], object]) -> ResultT:
    """The result of work that may take a limited time.

    The time is counted in steps. One in which this process was stopped (SIGSTOP, a suspended machine) is not counted as
    longer than the others: what arrived meanwhile is read in the next one.

    Args:
        seconds: the limit.
        work: what to wait for.
        look: called after each step, of at most 20 s.

    Raises:
        TimeoutError: it takes longer.
    """
    task = asyncio.create_task(work)
    steps = max(_FEWEST_LOOKS, math.ceil(seconds / _LOOK_S))
    try:
        for _ in range(steps):
            await asyncio.wait({task}, timeout=seconds / steps)
            if task.done():
                return task.result()
            look()
        raise TimeoutError
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


class CancelScope:
    """Tracks the calls in progress and can cancel them all. For one event loop."""

    def __init__(self) -> None:
        self._fatal: FatalEndpointError | None = None
        self._closed = False
        self._calls: set[asyncio.Timeout] = set()

    def check(self) -> None:
        """Raise FatalEndpointError if the scope was cancelled, RuntimeError if it was closed."""
        if self._fatal is not None:
            raise FatalEndpointError(self._fatal.what, why=self._fatal.why, fix=self._fatal.fix)
        if self._closed:
            raise RuntimeError("the client is closed")

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Run a call inside the scope. :meth:`cancel` ends the call with the fatal error at its next suspension."""
        self.check()
        timeout = asyncio.timeout(None)  # no deadline; cancel() sets one
        self._calls.add(timeout)
        try:
            async with timeout:
                yield
        except TimeoutError:
            if timeout.expired():
                self.check()
            raise
        finally:
            self._calls.discard(timeout)

    def cancel(self, error: FatalEndpointError) -> FatalEndpointError:
        """End all calls with ``error``. Only the first error counts; it is returned."""
        if self._fatal is None:
            self._fatal = error
            for timeout in self._calls:
                timeout.reschedule(asyncio.get_running_loop().time())
        return self._fatal

    def close(self) -> None:
        """Refuse new calls. Calls in progress continue."""
        self._closed = True
