"""One fatal fault ends every call of a client: the later ones at their start, the waiting ones at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engine.errors import FatalEndpointError


class CancelScope:
    """Knows the calls under way and can end them all. For one event loop."""

    def __init__(self) -> None:
        self._fatal: FatalEndpointError | None = None
        self._closed = False
        self._scopes: set[asyncio.Timeout] = set()

    def check(self) -> None:
        """Raise if the switch was pulled (FatalEndpointError) or closed (RuntimeError)."""
        if self._fatal is not None:
            raise FatalEndpointError(self._fatal.what, why=self._fatal.why, fix=self._fatal.fix)
        if self._closed:
            raise RuntimeError("the client is closed")

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """What runs inside ends with the fatal error as soon as the switch is pulled, whatever it waits for."""
        self.check()
        scope = asyncio.timeout(None)  # a deadline that is never set, but by pulling the switch
        try:
            async with scope:
                self._scopes.add(scope)
                try:
                    yield
                finally:
                    self._scopes.discard(scope)
        except TimeoutError:
            if scope.expired():
                self.check()
            raise

    def pull(self, error: FatalEndpointError) -> FatalEndpointError:
        """End all calls with ``error``; a second one changes nothing. Returns the one that holds."""
        if self._fatal is None:
            self._fatal = error
            now = asyncio.get_running_loop().time()
            for scope in self._scopes:
                scope.reschedule(now)
        return self._fatal

    def close(self) -> None:
        """Later calls are refused; those under way go on."""
        self._closed = True
