"""Worker processes that can be killed, for jobs that may not terminate: symbolic algebra on text from a model."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import queue
import resource
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from engine.records import Outcome

_ROOT = Path(__file__).resolve().parents[2]
_COLD_START_S = 30.0
_MAX_REPLY_BYTES = 1 << 20


@dataclass(frozen=True)
class WorkResult:
    """The result of a job.

    ``OK`` with a value, ``MODEL_FAULT`` if it raised, ``VERIFIER_TIMEOUT`` if it was killed, or ``INFRA_FAULT`` if no
    worker could be started, which says nothing about the job.
    """

    outcome: Outcome
    value: Any = None
    error: str = ""


class WorkerPool:
    """Runs ``module:function(payload)`` in child processes that are killed after a time limit.

    Works from any thread. A worker is one interpreter that runs jobs one after another; a killed worker is replaced.
    Its address space is limited, it writes no files and no core dumps, and it inherits no descriptors except its
    pipes. It is not isolated otherwise: it has no limit of processor time besides the time limit of each job, and it
    could use the network and read files. So only this package's own functions run in it; they take and return JSON
    values.

    Args:
        size: maximum number of workers; further callers wait.
        memory_mb: address-space limit of a worker, in MiB.
        packages: prefixes of the names of allowed modules.
    """

    def __init__(self, size: int = 2, memory_mb: int = 2048, packages: tuple[str, ...] = ("engine.",)) -> None:
        self._memory_mb, self._packages = memory_mb, packages
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(size):
            self._idle.put(None)
        self._alive: set[_Worker] = set()
        self._guard = threading.Lock()
        self._owner = os.getpid()
        atexit.register(self.close)

    def run(self, function: str, payload: Any, timeout_s: float = 2.0) -> WorkResult:
        """Run one job.

        Args:
            function: ``"engine.some.module:name"``.
            payload: a JSON value.
            timeout_s: wall-clock seconds after which the worker is killed; its start is not counted.

        Returns:
            the function's JSON value or its failure. An error of the job is returned, not raised.

        Raises:
            ValueError: the function is not in one of the pool's packages.
        """
        if not function.startswith(self._packages):
            raise ValueError(f"not a function of {', '.join(self._packages)}: {function!r}")
        worker = self._idle.get()
        try:
            if worker is None or worker.dead:
                worker = self._spawn()
            result = worker.call(function, payload, timeout_s)
        except BaseException:
            if worker is not None:
                self._retire(worker)
                worker = None
            raise
        finally:
            if worker is not None and worker.dead:
                self._retire(worker)
                worker = None
            self._idle.put(worker)
        return result

    def close(self) -> None:
        """Kill all workers. The pool may be used again afterwards."""
        if os.getpid() != self._owner:  # a forked child must not kill its parent's workers
            return
        with self._guard:
            workers = list(self._alive)
        for worker in workers:
            self._retire(worker)

    def _spawn(self) -> _Worker:
        worker = _Worker(self._memory_mb)
        with self._guard:
            self._alive.add(worker)
        return worker

    def _retire(self, worker: _Worker) -> None:
        worker.kill()
        with self._guard:
            self._alive.discard(worker)


class _Worker:
    """One child process. It reads a request per line and writes a reply per line."""

    def __init__(self, memory_mb: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.sandbox.worker", str(memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
        self.dead = False
        self._warm = False

    def call(self, function: str, payload: Any, timeout_s: float) -> WorkResult:
        """Send one job and wait for its result. A worker that takes too long or is broken is killed."""
        if not self._warm:
            if self._exchange(b"\n", _COLD_START_S) is None:
                self.kill()
                return WorkResult(Outcome.INFRA_FAULT, error="the worker did not start")
            self._warm = True
        request = json.dumps({"function": function, "payload": payload}).encode() + b"\n"
        line = self._exchange(request, timeout_s)
        if line is None:
            self.kill()
            return WorkResult(Outcome.VERIFIER_TIMEOUT, error=f"killed after {timeout_s:g} s")
        if not line:
            self.kill()
            return WorkResult(Outcome.MODEL_FAULT, error="the worker died (out of memory?)")
        reply = json.loads(line)
        if "error" in reply:
            return WorkResult(Outcome.MODEL_FAULT, error=reply["error"])
        return WorkResult(Outcome.OK, value=reply["value"])

    def _exchange(self, request: bytes, timeout_s: float) -> bytes | None:
        """Write a line and read a line: None after the time limit, empty if the child has exited."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("a worker without pipes")
        done = threading.Event()
        timer = threading.Timer(timeout_s, self._expire, args=(done,))
        timer.daemon = True
        timer.start()
        try:
            stdin.write(request)
            stdin.flush()
            line = _read_line(stdout)
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        finally:
            timer.cancel()
        return None if done.is_set() else line

    def _expire(self, done: threading.Event) -> None:
        done.set()
        self.kill()

    def kill(self) -> None:
        """Kill the process group and reap the child."""
        self.dead = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, 9)
        self._process.wait()


def _read_line(stream: IO[bytes]) -> bytes:
    line = stream.readline(_MAX_REPLY_BYTES)
    return line if line.endswith(b"\n") else b""


_shared: WorkerPool | None = None
_shared_guard = threading.Lock()


def shared_pool() -> WorkerPool:
    """The pool of this process; created at the first call."""
    global _shared
    with _shared_guard:
        if _shared is None:
            _shared = WorkerPool()
        return _shared


def _serve(memory_mb: int) -> None:
    """The main loop of a worker. Modules are imported on demand; the printed output of jobs is discarded."""
    limit = memory_mb << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (64, 64)) if os.geteuid() else None
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    sys.setrecursionlimit(5000)
    for line in sys.stdin.buffer:
        reply: dict[str, Any] = {"value": None}
        if line.strip():
            try:
                job = json.loads(line)
                module, _, name = job["function"].partition(":")
                reply = {"value": getattr(importlib.import_module(module), name)(job["payload"])}
                text = json.dumps(reply)
            except Exception as error:  # noqa: BLE001 - the parent receives the error as data
                text = json.dumps({"error": f"{type(error).__name__}: {error}"[:2000]})
        else:
            text = json.dumps(reply)
        replies.write(text.encode() + b"\n")


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
