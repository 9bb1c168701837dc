"""Steps overlap inside a window; their results are taken in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeVar

USUAL = 8
"""The largest W where it is not known how many requests the endpoint takes."""
_SMALLEST, _SHARE = 2, 8
"""The least window, and the part of the steps that it is: an eighth."""
_PER_SLOT = 4
"""Problems of the window per slot, so that a slow reply or the analyst of one problem leaves no slot unused."""
_BEYOND, _AT_LEAST = 2, 20
"""After a late first step, steps are begun up to so many windows from it, or so many steps if that is more. They have
the library of then, so on a slow server, where some step is always late, more of them would leave most prompts without
what was learned."""
_WITHOUT_LEARNING = 64
"""W of a run that learns nothing: its prompts do not depend on W, so only the endpoint limits what is in flight."""

StepT = TypeVar("StepT")
ResultT = TypeVar("ResultT")


def default_window(slots: int | None, steps: int | None, *, learns: bool = True) -> int:
    """W of a run that does not set it. It depends on nothing that is measured, so equal runs have equal results.

    It is an eighth of the steps, so that most of the run has the experiences of other steps, and at most what the
    endpoint takes.

    Args:
        slots: requests in flight that the endpoint is known to take; None: unknown.
        steps: number of steps in all epochs; None: unknown.
        learns: whether experiences are learned in the run; without that W is at least 64.
    """
    if not learns:
        return max(_WITHOUT_LEARNING, _PER_SLOT * (slots or 0))
    if steps is None:
        return USUAL
    most = USUAL if slots is None else _PER_SLOT * slots
    return max(_SMALLEST, min(most, round(steps / _SHARE)))


async def in_window(
    steps: Iterable[StepT],
    window: int,
    work: Callable[[StepT], Awaitable[ResultT]],
    *,
    patience: Callable[[], float | None] = lambda: None,
) -> AsyncGenerator[tuple[StepT, ResultT], None]:
    """Work on up to ``window`` steps at once, and yield each with its result, in order.

    Step k begins as soon as the body of the caller's loop is done with step k - window. Later steps up to k - 1 may be
    done as well by then, depending on timing. For results that do not depend on timing, give ``work`` the state as it
    was after step k - window, not the newest one.

    Args:
        steps: the steps in order; each is taken when it begins.
        window: the maximum number of steps in flight.
        work: called concurrently.
        patience: the seconds after which the first step in flight is late; None: it never is. While it is late, further
            steps begin beyond the window, as long as less than ``window`` others are worked on.

    Raises:
        the first exception of any step, at once, after cancelling the others. An iteration that is closed before its
        end (use ``contextlib.aclosing``) cancels them too.
    """
    arriving, clock = iter(steps), asyncio.get_running_loop().time
    running: deque[tuple[StepT, asyncio.Future[ResultT], float]] = deque()

    def begin(most: int) -> bool:
        before = len(running)
        running.extend((step, asyncio.ensure_future(work(step)), clock()) for step in islice(arriving, max(0, most)))
        return len(running) > before

    try:
        while True:
            begin(window - len(running))
            if not running:
                return
            step, first, began = running[0]
            while not first.done():
                for _, task, _ in running:
                    if task.done():
                        task.result()  # raises what it has failed with
                # Those that are done wait behind a slow one; waiting for them as well would return at once.
                pending = [task for _, task, _ in running if not task.done()]
                limit = patience() if len(running) < max(_BEYOND * window, _AT_LEAST) else None
                late_in = None if limit is None else began + limit - clock()
                if late_in is not None and late_in <= 0:
                    if len(pending) <= window and begin(1):
                        continue
                    late_in = None  # until one of the others is done
                await asyncio.wait(pending, timeout=late_in, return_when=asyncio.FIRST_COMPLETED)
            running.popleft()
            yield step, first.result()
    finally:
        for _, task, _ in running:
            task.cancel()
        await asyncio.gather(*(task for _, task, _ in running), return_exceptions=True)
