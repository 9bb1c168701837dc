"""Steps overlap inside a window; their results are committed in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeVar

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


async def run_in_window(
    steps: Iterable[StepT] | AsyncIterator[StepT],
    window: int,
    work: Callable[[int, StepT], Awaitable[ResultT]],
    commit: Callable[[int, StepT, ResultT], bool | Awaitable[bool]],
    *,
    patience: Callable[[], float | None] = lambda: None,
) -> int:
    """Work on up to ``window`` steps at once. Step k starts as soon as step k - window is committed.

    Later steps up to k - 1 may be committed as well by then, depending on timing. For results that do not depend on
    timing, give ``work`` the state as it was after step k - window, not the newest one.

    Args:
        steps: the steps in order; an async iterator may yield them over time.
        window: the maximum number of steps in flight.
        work: does step number k; called concurrently.
        commit: takes the result of step k; called once per step, in order, and never while an earlier call is awaited.
            If it returns False the run halts: steps in flight complete (their requests are paid for), nothing new
            starts and nothing more is committed.
        patience: the seconds after which the first step in flight is late; None: it never is. While it is late, further
            steps start beyond the window, as long as less than ``window`` others are worked on.

    Returns:
        the number of committed steps.

    Raises:
        the first exception of any step, at once, after cancelling the others; and any exception of ``commit``.
    """
    arriving = steps if isinstance(steps, AsyncIterator) else as_they_come(steps)
    clock = asyncio.get_running_loop().time
    running: dict[int, tuple[StepT, asyncio.Task[ResultT]]] = {}
    began: dict[int, float] = {}
    committed = started = 0
    arrival: asyncio.Task[StepT] | None = None
    committing: asyncio.Future[bool] | None = None
    exhausted = halted = False
    try:
        while True:
            while not halted and committing is None and committed in running and running[committed][1].done():
                step, task = running[committed]
                outcome = commit(committed, step, task.result())
                if isinstance(outcome, bool):
                    del running[committed], began[committed]
                    halted, committed = not outcome, committed + outcome
                else:
                    committing = asyncio.ensure_future(outcome)
            if halted:
                await asyncio.gather(*(task for _, task in running.values()))
                return committed
            late_in: float | None = None
            if arrival is None and not exhausted:
                has_room = started < committed + window
                limit = None if has_room or committing is not None else patience()
                if limit is not None and started < committed + max(_BEYOND * window, _AT_LEAST):
                    late_in = began[committed] + limit - clock()
                    at_work = sum(not task.done() for number, (_, task) in running.items() if number != committed)
                    has_room = late_in <= 0 and at_work < window
                if has_room:
                    arrival = asyncio.ensure_future(_next(arriving))
            # Completed steps may queue behind a slow one; waiting on them as well would return at once.
            waiting: set[asyncio.Future[Any]] = {task for _, task in running.values() if not task.done()}
            waiting |= {future for future in (arrival, committing) if future is not None}
            if not waiting:
                return committed
            timeout = late_in if late_in is not None and late_in > 0 else None
            await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for _, task in running.values():
                if task.done():
                    task.result()
            if arrival is not None and arrival.done():
                try:
                    step = arrival.result()
                except StopAsyncIteration:
                    exhausted = True
                else:
                    running[started] = (step, asyncio.ensure_future(work(started, step)))
                    began[started] = clock()
                    started += 1
                arrival = None
            if committing is not None and committing.done():
                del running[committed], began[committed]
                halted, committed = not committing.result(), committed + committing.result()
                committing = None
    finally:
        pending: list[asyncio.Future[Any]] = [task for _, task in running.values()]
        pending += [future for future in (arrival, committing) if future is not None]
        for future in pending:
            future.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


async def as_they_come(steps: Iterable[StepT]) -> AsyncIterator[StepT]:
    """The steps as an asynchronous iterator."""
    for step in steps:
        yield step


async def _next(steps: AsyncIterator[StepT]) -> StepT:
    return await steps.__anext__()
