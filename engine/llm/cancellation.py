"""Ends calls: all of a client after a fatal error, and one that takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engine.errors import FatalEndpointError

_LATE_S = 0.25
_GRACE_S = 10.0


@asynccontextmanager
async def running_timeout(seconds: float) -> AsyncIterator[None]:
    """As ``asyncio.timeout``, except after a time in which this process was stopped (SIGSTOP, a suspended machine).

    The end of the time is then noticed late, and what arrived meanwhile was not read yet: there are up to ten seconds
    more to read it.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:

        def due(expected: float) -> None:
            if loop.time() - expected > _LATE_S:
                handles.append(schedule(min(seconds, _GRACE_S)))
            else:
                limit.reschedule(loop.time())

        def schedule(after: float) -> asyncio.TimerHandle:
            return loop.call_later(after, due, loop.time() + after)

        handles = [schedule(seconds)]
        try:
            yield
        finally:
            handles[-1].cancel()


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
        try:
            async with timeout:
                self._calls.add(timeout)
                try:
                    yield
                finally:
                    self._calls.discard(timeout)
        except TimeoutError:
            if timeout.expired():
                self.check()
            raise

    def cancel(self, error: FatalEndpointError) -> FatalEndpointError:
        """End all calls with ``error``. Only the first error counts; it is returned."""
        if self._fatal is None:
            self._fatal = error
            now = asyncio.get_running_loop().time()
            for timeout in self._calls:
                timeout.reschedule(now)
        return self._fatal

    def close(self) -> None:
        """Refuse new calls. Calls in progress continue."""
        self._closed = True
