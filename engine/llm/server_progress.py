"""Whether a server works while its requests wait: by its metrics page, or by its replies to other requests."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable, Iterator
from datetime import timedelta

from engine.api_manager import Endpoint
from engine.llm.wire.server_metrics import ServerMetrics, fetch_metrics

_WATCH_AFTER_S = 10.0
"""Requests must be in flight for this long before the page is read: fast servers are not asked for it."""
_POLL_S = 5.0
_WINDOW_S = 60.0
"""Tokens per second are those of this time."""


class ServerProgress:
    """Watches one server while requests to it are in flight. For one event loop, whose time it uses.

    A server makes progress when it reads or generates tokens between two looks at its metrics page, and, if its
    endpoint has ``queues_requests``, when it answers any request. An endpoint that says nothing makes none.

    Args:
        endpoint: the server.
        queue: called with the running and the waiting sequences while the server has a queue.
    """

    def __init__(self, endpoint: Endpoint, queue: Callable[[int, int], None]) -> None:
        self._endpoint, self._queue = endpoint, queue
        # With a short timeout there must be several looks before it ends.
        self._watch_after_s = min(_WATCH_AFTER_S, endpoint.timeout_s / 8)
        self._poll_s = min(_POLL_S, endpoint.timeout_s / 8)
        self._moved_at = -math.inf
        self._in_flight = 0
        self._has_page: bool | None = None
        self._had_queue = False
        self._looks: deque[tuple[float, ServerMetrics]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """While a request is in flight, read the metrics page from time to time."""
        self._in_flight += 1
        if self._in_flight == 1 and self._has_page is not False and self._task is None:
            self._timer = asyncio.get_running_loop().call_later(self._watch_after_s, self._start)
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def replied(self) -> None:
        """Record a reply. It is progress only of a server that is known to work through a queue."""
        if self._endpoint.queues_requests:
            self._moved_at = asyncio.get_running_loop().time()

    def left_s(self) -> float:
        """Seconds for which a request still waits although its ``timeout_s`` is over; 0 or less: none."""
        return self._moved_at + self._endpoint.timeout_s - asyncio.get_running_loop().time()

    def tokens_per_s(self) -> float | None:
        """Generated tokens per second in the last minute; None if the server does not say, or stands still."""
        if len(self._looks) < 2:
            return None
        (first_at, first), (last_at, last) = self._looks[0], self._looks[-1]
        made = last.completion_tokens - first.completion_tokens
        return made / (last_at - first_at) if made > 0 and last_at > first_at else None

    def describe(self, tokens: int) -> str:
        """One line about a server that works; empty if it is not known to.

        Args:
            tokens: expected tokens of a reply.
        """
        pace = self.tokens_per_s()
        if pace is None or self.left_s() <= 0:
            return ""
        now = self._looks[-1][1]
        text = f"{self._endpoint.shown_url} is working: {pace:.0f} tokens/s"
        if now.running is None or now.waiting is None:
            return text
        seconds = (now.running + now.waiting) * tokens / pace
        about = timedelta(seconds=max(1, round(min(seconds, 1e9))))
        return (
            f"{text}, {now.running} sequences run there and {now.waiting} wait; about {about} for these, with {tokens} "
            "tokens each"
        )

    async def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _start(self) -> None:
        self._timer = None
        self._looks.clear()  # the server may have been idle since
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        try:
            while self._in_flight and self._has_page is not False:
                with contextlib.suppress(OSError):  # a server under load may not answer in time
                    self._look(await fetch_metrics(self._endpoint.base_url))
                await asyncio.sleep(self._poll_s)
        finally:
            self._task = None

    def _look(self, seen: ServerMetrics | None) -> None:
        now = asyncio.get_running_loop().time()
        if seen is None:
            self._has_page = self._has_page or False  # a page that was there once comes back
            return
        self._has_page = True
        last = self._looks[-1][1] if self._looks else None
        if last is not None and seen.completion_tokens < last.completion_tokens:  # it was started again
            self._looks.clear()
        elif last is not None and (
            seen.completion_tokens > last.completion_tokens or seen.prompt_tokens > last.prompt_tokens
        ):
            self._moved_at = now
        self._looks.append((now, seen))
        while now - self._looks[0][0] > _WINDOW_S and len(self._looks) > 2:
            self._looks.popleft()
        # One look may fall into the moment in which new requests have arrived.
        has_queue = bool(seen.waiting)
        if has_queue and self._had_queue and seen.running is not None and seen.waiting is not None:
            self._queue(seen.running, seen.waiting)
        self._had_queue = has_queue
