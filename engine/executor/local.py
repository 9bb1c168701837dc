"""The executor of this machine: a thread of this process, or child processes."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import threading
from concurrent.futures import Executor as FutureExecutor
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Generic

from engine.errors import IncompleteRunError
from engine.executor.work import Executor, ItemPool, ItemT, ResultT, Worker, WorkerDescription


class LocalPool(ItemPool[ItemT, ResultT], Generic[ItemT, ResultT]):
    """Workers on this machine. One works in threads of this process; of several, each is a process of its own.

    Such a process has one item at a time. One that ends is not replaced: what killed it on this machine would kill the
    next one too. So ``lost`` is never called.
    """

    _own: Worker[ItemT, ResultT] | None = None
    _executor: FutureExecutor

    def __enter__(self) -> LocalPool[ItemT, ResultT]:
        if self.workers == 1:
            self._own = self.description.open(0)
            self._executor = ThreadPoolExecutor(self.in_flight)
        else:
            self._executor = ProcessPoolExecutor(
                self.workers,
                mp_context=multiprocessing.get_context("spawn"),  # a fork would copy threads and open pools
                initializer=_start_process,
                initargs=(self.description,),
            )
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
        if self._own is not None:
            self._own.close()

    def submit(self, item: ItemT) -> Future[ResultT]:
        """As the base class says."""
        try:
            inner = self._executor.submit(_run if self._own is None else self._own.run, item)
        except BrokenProcessPool as error:
            raise _ended() from error
        outer: Future[ResultT] = Future()
        inner.add_done_callback(lambda done: _hand_over(done, outer))
        return outer


class LocalExecutor(Executor):
    """This machine."""

    pool = LocalPool

    @property
    def cpus(self) -> int:
        """The CPUs that this process may use."""
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def close(self) -> None:
        """Nothing: a pool ends its own workers."""


def _hand_over(done: Future[Any], outer: Future[Any]) -> None:
    """Give the result of a future to the one that the caller holds."""
    if done.cancelled():
        outer.cancel()
        return
    error = done.exception()
    if isinstance(error, BrokenProcessPool):
        error = _ended()
    if not outer.set_running_or_notify_cancel():
        return
    if error is None:
        outer.set_result(done.result())
    else:
        outer.set_exception(error)


def _ended() -> IncompleteRunError:
    return IncompleteRunError(
        "A worker process ended",
        why="It was killed, perhaps for lack of memory.",
        fix="Run the same command again, with fewer --workers if memory is short.",
    )


_worker: Worker[Any, Any] | Exception | None = None
"""The worker of this process, or why there is none."""


def _start_process(description: WorkerDescription[Any, Any]) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the command, which ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _worker = description.open(os.getpid())
    except Exception as error:  # noqa: BLE001 - an initializer that raises breaks the pool without the reason
        _worker = error
    else:
        atexit.register(_worker.close)


def _end_with_parent() -> None:
    """End this process when the command was killed; a worker would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(item: Any) -> Any:
    if isinstance(_worker, Exception):
        raise _worker
    if _worker is None:
        raise RuntimeError("the worker was not opened")
    return _worker.run(item)
