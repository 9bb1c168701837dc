"""Worker processes from the side of their parent: start one, read its messages within a time limit, end it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from engine.errors import ConfigurationError, ScaffoldError
from engine.storage.installation import install_command

_ROOT = Path(__file__).resolve().parents[4]
_STDERR_SHOWN = 500
_STOP_POLL_S = 0.1

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")


class SimulationFailedError(ScaffoldError):
    """A simulation could not be started, failed, or did not answer in time."""


def require_sumo() -> None:
    """Check that SUMO's Python packages are installed.

    Raises:
        ConfigurationError: they are not.
    """
    missing = [name for name in ("libsumo", "sumo", "sumolib") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"SUMO is not installed: {', '.join(missing)}",
            fix=install_command("traffic"),
        )


class SimulationProcess:
    """One worker process.

    Args:
        job: what the worker is to do, see :mod:`engine.tasks.traffic.simulation.jobs`.
        limit_s: longest time between two messages; the process is killed after it.
    """

    def __init__(self, job: Mapping[str, Any], limit_s: float = 60.0) -> None:
        self.job, self.limit_s = job, limit_s
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._folder = tempfile.TemporaryDirectory(prefix="simulation-", ignore_cleanup_errors=True)
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by close
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.tasks.traffic.simulation.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            start_new_session=True,  # its forks are ended with it
            # of a worker that is killed, its temporary files are removed here
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": self._folder.name},
        )
        with _guard:
            _running.add(self)
        threading.Thread(target=self._read, daemon=True).start()
        self.send(job)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the worker and remove its files."""
        self.kill()
        with _guard:
            _running.discard(self)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        """The worker's process id, which is also that of its group."""
        return self._process.pid

    def kill(self) -> None:
        """Kill the worker and its forks; whoever reads its messages sees that it has ended. From any thread."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def send(self, message: Any) -> None:
        """Send one line to the worker. A worker that has ended is reported by :meth:`messages`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def messages(self) -> Iterator[dict[str, Any]]:
        """The worker's messages until it ends.

        Raises:
            SimulationFailedError: the worker reports an error, crashes, or is silent for longer than the limit.
        """
        while True:
            try:
                line = self._lines.get(timeout=self.limit_s)
            except queue.Empty:
                raise SimulationFailedError(
                    f"The simulation of {self._name} gave no sign of life for {self.limit_s:g} s and was stopped",
                    fix="Raise --time-limit if the network is large.",
                ) from None
            if line is None:
                if self._process.wait() != 0:
                    raise SimulationFailedError(f"The simulation of {self._name} crashed", why=self._stderr())
                return
            message = json.loads(line)
            if "error" in message:
                raise SimulationFailedError(
                    f"The simulation of {self._name} failed", why=f"{message['error']} {self._stderr()}".strip()
                )
            yield message

    def answer(self, request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            SimulationFailedError: as of :meth:`messages`, or the worker has ended.
        """
        self.send(request)
        for message in self.messages():
            return message
        raise SimulationFailedError(f"The simulation of {self._name} has ended")

    @property
    def _name(self) -> str:
        return Path(self.job["options"]["sumocfg"]).stem

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError):  # closed while it was read
            for line in self._process.stdout:
                if line.endswith("\n"):  # else it was killed while it wrote
                    self._lines.put(line)
        self._lines.put(None)

    def _stderr(self) -> str:
        """The errors that SUMO printed; if there are none, the end of all output."""
        self._errors.seek(0)
        text = self._errors.read()
        errors = [line for line in text.splitlines() if line.startswith("Error:")]
        return " ".join(errors)[:_STDERR_SHOWN] or text[-_STDERR_SHOWN:].strip()


_guard = threading.Lock()
_running: set[SimulationProcess] = set()


class SimulationThreads:
    """Threads that run simulations. If the block ends with an error, also Ctrl-C, every simulation is killed first.

    Args:
        count: simulations at the same time.
        on_stop: ends what the threads wait for besides a simulation.
    """

    def __init__(self, count: int, on_stop: Callable[[], None] = lambda: None) -> None:
        self._pool = ThreadPoolExecutor(count)
        self._on_stop = on_stop
        self._futures: list[Future[Any]] = []

    def submit(
        self, function: Callable[_Arguments, _Value], *values: _Arguments.args, **options: _Arguments.kwargs
    ) -> Future[_Value]:
        """Run a function in one of the threads."""
        future = self._pool.submit(function, *values, **options)
        self._futures.append(future)
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._on_stop()
            while left := [future for future in self._futures if not future.done()]:
                wait(left, timeout=_STOP_POLL_S)  # one may just be starting its process, so kill again
                with _guard:
                    for process in _running:
                        process.kill()
        self._pool.shutdown()
