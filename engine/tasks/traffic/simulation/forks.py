"""Functions that run in a fork of this process, with a time limit."""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

BRANCH_FAILED = "a branch failed"
"""Why a decision gives no row: one of its forks failed."""


class SimulationError(Exception):
    """SUMO refused a network, failed, or did not answer in time."""


def forked(function: Callable[[], Any], limit_s: float) -> Any:
    """Run a function in a fork of this process and return its value, which must be picklable.

    Raises:
        SimulationError: it failed, or did not end within ``limit_s`` seconds (it is killed then).
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the fork
        os.close(reading)
        run_in_fork(lambda: _answer(function, writing))
    os.close(writing)
    try:
        content = _read_all(reading, time.monotonic() + limit_s)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if content is None:
        raise SimulationError(f"a branch did not end within {limit_s:g} s")
    if not content:
        raise SimulationError("a branch crashed")
    kind, value = pickle.loads(content)  # noqa: S301 - written by our own fork
    if kind == "error":
        raise SimulationError(value)
    return value


def run_in_fork(function: Callable[[], object]) -> NoReturn:  # pragma: no cover - runs in the fork
    """Run a function and end this process, which is a fork: it must not return into the parent's code."""
    try:
        function()
    except BaseException:  # noqa: BLE001 - printed; the parent sees that no answer came
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _answer(function: Callable[[], Any], pipe: int) -> None:
    try:
        answer: tuple[str, Any] = ("value", function())
    except SimulationError as error:
        answer = ("error", str(error))
    with os.fdopen(pipe, "wb") as stream:
        stream.write(pickle.dumps(answer))


def _read_all(pipe: int, until: float) -> bytes | None:
    """All bytes until the other side closes; None where it does not close in time."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return None
        part = os.read(pipe, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
