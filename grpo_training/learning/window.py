"""Order and speed together: steps overlap inside a window, their results are committed in order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

StepT = TypeVar("StepT")
ResultT = TypeVar("ResultT")


async def run_in_window(
    steps: AsyncIterator[StepT],
    window: int,
    work: Callable[[int, StepT], Awaitable[ResultT]],
    commit: Callable[[int, StepT, ResultT], bool],
) -> int:
    """Work on up to ``window`` steps at once; step k starts when step k - window is committed.

    So what a step sees is fixed by its place, not by the network's timing: everything that steps up to
    k - window committed, nothing of later ones.

    Args:
        steps: the steps in their order; may arrive over time.
        window: steps in flight at most.
        work: does a step; runs concurrently.
        commit: takes a step's result; called in order, once each. Where it returns False the run halts: what
            is in flight (and paid for) ends, nothing new starts, nothing more is committed.

    Returns:
        how many steps were committed.

    Raises:
        whatever the first failing step raised, at once; the others are cancelled. What ``commit`` raises.
    """
    running: dict[int, tuple[StepT, asyncio.Task[ResultT]]] = {}
    committed = started = 0
    arrival: asyncio.Task[StepT] | None = None
    exhausted = halted = False
    try:
        while True:
            if arrival is None and not (exhausted or halted) and started < committed + window:
                arrival = asyncio.ensure_future(_next(steps))
            if halted:
                await asyncio.gather(*(task for _, task in running.values()))
                return committed
            # What is done waits for its turn behind a straggler: to wait on it too would never pause.
            waiting: set[asyncio.Future[Any]] = {task for _, task in running.values() if not task.done()}
            if arrival is not None:
                waiting.add(arrival)
            if not waiting:
                return committed
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for _, begun in running.values():
                if begun.done():
                    begun.result()
            if arrival is not None and arrival.done():
                try:
                    step = arrival.result()
                except StopAsyncIteration:
                    exhausted = True
                else:
                    running[started] = (step, asyncio.ensure_future(work(started, step)))
                    started += 1
                arrival = None
            while not halted and committed in running and running[committed][1].done():
                step, task = running.pop(committed)
                halted = not commit(committed, step, task.result())
                committed += not halted
    finally:
        pending: list[asyncio.Future[Any]] = [task for _, task in running.values()]
        pending += [arrival] if arrival else []
        for left in pending:
            left.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


async def _next(steps: AsyncIterator[StepT]) -> StepT:
    return await steps.__anext__()
