"""Verifies replies in parallel: in processes, or with one worker in a thread of this process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.task import Task
from engine.tasks.registry import load_task
from grpo_training.scoring.verdicts import Verdict, verify

if TYPE_CHECKING:
    from engine.records import Completion, Problem


@dataclass(frozen=True)
class Verified:
    """A verdict, and the seconds that it took."""

    verdict: Verdict
    seconds: float


class VerificationPool:
    """Workers that verify replies of one task. Use as a context manager.

    Args:
        task: the task, with its options.
        place: where a worker process finds it: its name, ``FILE.py:NAME`` or ``MODULE:NAME``.
        workers: number of processes; with 1 the work is done in this process.
    """

    def __init__(self, task: Task, place: str, workers: int) -> None:
        self._task, self._place, self._workers = task, place, workers

    def __enter__(self) -> VerificationPool:
        options = self._task.check_options
        values = None if options is None else options.model_dump()  # its class may be of a user's file
        self._executor: Executor
        if self._workers == 1:
            self._executor = ThreadPoolExecutor(1, initializer=_use, initargs=(self._task,))
        else:
            self._executor = ProcessPoolExecutor(
                self._workers,
                mp_context=multiprocessing.get_context("spawn"),  # a fork would copy threads and open pools
                initializer=_start_worker,
                initargs=(self._place, values),
            )
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def submit(self, problem: Problem, completion: Completion) -> Future[Verified]:
        """Verify a reply in the background."""
        return self._executor.submit(_verify, problem, completion)


_worker = threading.local()
"""The task of this worker, as ``task``."""


def _use(task: Task) -> None:
    _worker.task = task


def _start_worker(place: str, options: dict[str, Any] | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the command, which ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    task = load_task(place)
    defaults = task.check_options
    _use(task if defaults is None else task.with_check_options(type(defaults).model_validate(options)))


def _end_with_parent() -> None:
    """End this process when the command was killed; a worker would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _verify(problem: Problem, completion: Completion) -> Verified:
    start = time.monotonic()
    verdict = verify(_worker.task, problem, completion)
    return Verified(verdict, time.monotonic() - start)
