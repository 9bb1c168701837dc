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
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.errors import ConfigurationError, ScaffoldError

_ROOT = Path(__file__).resolve().parents[4]
_STDERR_SHOWN = 500


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
            fix="Run `make traffic`, or: pip install 'scaffold-grpo[traffic]'",
        )


class SimulationProcess:
    """One worker process.

    Args:
        job: what the worker is to do, see :mod:`engine.tasks.traffic.simulation.jobs`.
        limit_s: longest time between two messages; the process is killed after it.
    """

    def __init__(self, job: Mapping[str, Any], limit_s: float = 60.0) -> None:
        self._job, self._limit_s = job, limit_s
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.tasks.traffic.simulation.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,  # its forks are ended with it
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        threading.Thread(target=self._read, daemon=True).start()
        self.send(self._job)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

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
                line = self._lines.get(timeout=self._limit_s)
            except queue.Empty:
                raise SimulationFailedError(
                    f"The simulation of {self._name} gave no sign of life for {self._limit_s:g} s and was stopped",
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

    @property
    def _name(self) -> str:
        return Path(self._job["options"]["sumocfg"]).stem

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError):  # closed while it was read
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put(None)

    def _stderr(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-_STDERR_SHOWN:].strip()
