"""The worker processes that verify replies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from engine.records import Completion, Problem
from engine.task import Task
from engine.task_protocols import HasCheckOptions
from engine.tasks.registry import load_task
from grpo_training.score_rollouts.verdicts import StoredVerdict, verify

_task: Task | None = None
"""The task of this worker process."""


def open_pool(task: Task, reference: str, workers: int) -> Executor:
    """A pool whose workers run :func:`verify_reply`. One worker is a thread of this process.

    Args:
        task: with its options.
        reference: where a process finds the task: its name, ``FILE.py:NAME`` or ``MODULE:NAME``.
        workers: number of processes.
    """
    global _task
    if workers == 1:
        _task = task
        return ThreadPoolExecutor(1)
    options = task.check_options.model_dump() if isinstance(task, HasCheckOptions) else None
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),  # a fork would copy threads and open pools
        initializer=_start_process,
        initargs=(reference, options),
    )


def verify_reply(asked: tuple[Problem, Completion]) -> StoredVerdict:
    """Verify a reply to a problem in this worker."""
    assert _task is not None
    return verify(_task, *asked)


def _start_process(reference: str, options: Mapping[str, Any] | None) -> None:
    global _task
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the command, which ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _task = load_task(reference)
    if isinstance(_task, HasCheckOptions):
        _task = _task.with_check_options(type(_task.check_options).model_validate(options))


def _end_with_parent() -> None:
    """End this process when the command was killed; a worker would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
