"""Hedged requests: one that takes unusually long is sent a second time, and the first reply counts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from statistics import quantiles
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

_KEPT = 256
_NEEDED = 20
"""Requests of a kind that must have been answered before one of them is sent again."""
_PARTS = 1000


class LatencyRecord:
    """The seconds of the newest replies to each kind of request."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[object, ...], deque[float]] = {}

    def add(self, kind: tuple[object, ...], seconds: float) -> None:
        """Record a reply."""
        self._seconds.setdefault(kind, deque(maxlen=_KEPT)).append(seconds)

    def quantile(self, kind: tuple[object, ...], share: float) -> float | None:
        """The seconds in which this share of the replies arrived; None as long as too few are known."""
        seconds = self._seconds.get(kind, ())
        if len(seconds) < _NEEDED:
            return None
        return quantiles(seconds, n=_PARTS, method="inclusive")[min(_PARTS - 2, max(0, round(share * _PARTS) - 1))]


async def first_success(
    first: asyncio.Task[ResultT],
    start_second: Callable[[], Coroutine[Any, Any, ResultT]],
    succeeded: Callable[[ResultT], bool],
    delay_s: float,
    sleep: Callable[[float], Awaitable[None]],
) -> ResultT:
    """The result of ``first``, or of a second try if that succeeds earlier. The loser is cancelled.

    Args:
        first: the first try. It continues if the caller is cancelled.
        start_second: the second try; begun if ``first`` takes longer than ``delay_s``. An error of it is ignored.
        succeeded: whether a result is one, and not a failure after which the other try is waited for.
        delay_s: seconds from now.
        sleep: as ``asyncio.sleep``.

    Raises:
        the error of ``first``.
    """
    second: asyncio.Future[Any] = asyncio.ensure_future(sleep(delay_s))
    try:
        await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
        if first.done():
            return first.result()
        second = asyncio.ensure_future(start_second())
        await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
        if not first.done() and not _is_success(second, succeeded):
            await asyncio.wait({first})
        if first.done() and not _is_success(first, succeeded):
            await asyncio.wait({second})
        if first.done() and (_is_success(first, succeeded) or not _is_success(second, succeeded)):
            return first.result()
        first.cancel()
        await asyncio.wait({first})
        return second.result()  # type: ignore[no-any-return]
    finally:
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)


def _is_success(attempt: asyncio.Future[Any], succeeded: Callable[[Any], bool]) -> bool:
    return attempt.done() and not attempt.cancelled() and not attempt.exception() and succeeded(attempt.result())
