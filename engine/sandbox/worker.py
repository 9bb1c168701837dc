"""Worker processes that can be killed, for jobs that may not terminate: symbolic algebra on text from a model."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.records import Outcome
from engine.sandbox.pool import ProcessPool

_ROOT = Path(__file__).resolve().parents[2]
_MAX_REPLY_BYTES = 1 << 20
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
"""The threads of a library that wait for each other use processor time, the more the more cores the machine has."""
WALL_PER_CPU = 20
"""Seconds for each second of processor time, for a job that waits, or a machine that does much else."""
_WAITS = 10
"""Waits that make up a time limit. Of the time in which this process is stopped (Ctrl-Z), at most one wait counts."""


@dataclass(frozen=True)
class WorkResult:
    """The result of a job.

    ``OK`` with a value, ``MODEL_FAULT`` if it raised, ``VERIFIER_TIMEOUT`` if it was killed, or ``INFRA_FAULT`` if no
    worker could be started and prepared, which says nothing about the job.
    """

    outcome: Outcome
    value: Any = None
    error: str = ""


class KillablePool:
    """Runs ``module:function(payload)`` in child processes that are killed after a time limit.

    Works from any thread. A worker is one interpreter that runs jobs one after another; a killed worker is replaced.
    Its address space is limited, it writes no files and no core dumps, and it inherits no descriptors except its
    pipes. It is not isolated otherwise: it has no limit of processor time besides the time limit of each job, and it
    could use the network and read files. So only functions of our own run in it; they take and return JSON values.

    Args:
        size: maximum number of workers; further callers wait.
        memory_mb: address-space limit of a worker, in MiB.
        start_timeout_s: wall-clock seconds for a worker's start with the import of a job's module.
    """

    def __init__(self, size: int = 2, memory_mb: int = 2048, start_timeout_s: float = 30.0) -> None:
        self._start_timeout_s = start_timeout_s
        self._workers = ProcessPool(size, lambda: _Worker(memory_mb))

    def run(self, function: str, payload: Any, timeout_s: float = 2.0) -> WorkResult:
        """Run one job.

        Args:
            function: ``"engine.some.module:name"``. It never comes from a model.
            payload: a JSON value.
            timeout_s: seconds of processor time, of all its threads, after which the worker is killed. Its start and
                the import of the function's module are not counted. Libraries compute in one thread. The worker is
                killed too after ``WALL_PER_CPU`` times as many wall-clock seconds.

        Returns:
            the function's JSON value or its failure. An error of the job is returned, not raised.
        """
        with self._workers.member() as worker:
            try:
                error = worker.load(function, self._start_timeout_s)
                if error:
                    return WorkResult(Outcome.INFRA_FAULT, error=f"the worker did not start: {error}")
                job = {"function": function, "payload": payload, "cpu_s": timeout_s}
                return worker.call(job, timeout_s * WALL_PER_CPU)
            except BaseException:
                worker.close()
                raise

    def close(self) -> None:
        """Kill all workers. The pool may be used again afterwards."""
        self._workers.close()


class _Worker:
    """One child process. It reads a request per line and writes a reply per line."""

    def __init__(self, memory_mb: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.sandbox.worker_process", str(memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", **_ONE_THREAD},
            start_new_session=True,
        )
        self._is_closed = False
        self._loaded: set[str] = set()

    def alive(self) -> bool:
        """Whether it can run another job."""
        return not self._is_closed

    def load(self, function: str, timeout_s: float) -> str:
        """Import the module of a function, unless it was. The error if that fails; the worker is then killed."""
        if function in self._loaded:
            return ""
        result = self.call({"function": function}, timeout_s)
        if result.outcome is not Outcome.OK:
            self.close()
            return result.error
        self._loaded.add(function)
        return ""

    def call(self, job: Mapping[str, Any], wall_s: float) -> WorkResult:
        """Send one job and wait for its result. A worker that takes too long or is broken is killed."""
        line = self._exchange(json.dumps(job).encode() + b"\n", wall_s)
        if line is None:
            self.close()
            return WorkResult(Outcome.VERIFIER_TIMEOUT, error=f"killed after {wall_s:g} s")
        if not line:
            self.close()
            if self._process.returncode == -signal.SIGPROF:
                error = f"killed after {job['cpu_s']:g} s of processor time"
                return WorkResult(Outcome.VERIFIER_TIMEOUT, error=error)
            return WorkResult(Outcome.MODEL_FAULT, error="the worker died (out of memory?)")
        reply = json.loads(line)
        if "error" in reply:
            return WorkResult(Outcome.MODEL_FAULT, error=reply["error"])
        return WorkResult(Outcome.OK, value=reply["value"])

    def _exchange(self, request: bytes, wall_s: float) -> bytes | None:
        """Write a line and read a line: None after the time limit, empty if the child has exited."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("a worker without pipes")
        answered, expired = threading.Event(), threading.Event()
        threading.Thread(target=self._kill_late, args=(wall_s, answered, expired), daemon=True).start()
        try:
            stdin.write(request)
            stdin.flush()
            line = stdout.readline(_MAX_REPLY_BYTES)
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        finally:
            answered.set()
        if expired.is_set():
            return None
        return line if line.endswith(b"\n") else b""

    def _kill_late(self, wall_s: float, answered: threading.Event, expired: threading.Event) -> None:
        """Kill the child if there is no answer in time."""
        if not any(answered.wait(wall_s / _WAITS) for _ in range(_WAITS)):
            expired.set()
            self.close()

    def close(self) -> None:
        """Kill the process group and reap the child."""
        self._is_closed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:  # its number may be another process's after it was reaped
                os.killpg(self._process.pid, 9)
        self._process.wait()


_shared: KillablePool | None = None
_shared_guard = threading.Lock()


def shared_pool() -> KillablePool:
    """The pool of this process; created at the first call."""
    global _shared
    with _shared_guard:
        if _shared is None:
            _shared = KillablePool()
        return _shared
