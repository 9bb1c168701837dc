"""Simulations in processes of their own, as libsumo holds one for each process, and one that hangs must be killed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from engine.errors import ConfigurationError, ScaffoldError
from engine.storage.installation import install_command
from engine.tasks.traffic.scenarios import SimulationOptions

_SERVER = "engine.tasks.traffic.simulation.server"
_ROOT = Path(__file__).resolve().parents[4]
_STDERR_SHOWN = 500
_STOP_POLL_S = 0.1

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")


class SimulationFailedError(ScaffoldError):
    """A simulation could not be started, failed, or did not answer in time."""


class SimulationError(Exception):
    """SUMO refused a network or failed. Raised in the process of a simulation."""


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


def simulate(
    run: str,
    options: SimulationOptions,
    *arguments: Any,
    limit_s: float,
    answer: Callable[[Any], Any] = lambda message: None,
) -> Any:
    """Do a run in a process of its own. Blocking, from any thread.

    Args:
        run: name of a function in :mod:`engine.tasks.traffic.simulation.runs`.
        options: of the simulation.
        arguments: further ones of the function.
        limit_s: longest time between two messages of the process; it is killed after it.
        answer: answers each message of the function; what it raises ends the run.

    Returns:
        the value of the function.

    Raises:
        SimulationFailedError: SUMO failed, the process crashed, or it was silent for longer than the limit.
    """
    name = Path(options.sumocfg).stem
    with (
        tempfile.TemporaryDirectory(prefix="simulation-", ignore_cleanup_errors=True) as folder,
        _server().connection() as here,
    ):
        pid = 0
        try:
            pid = here.recv()
            with _guard:
                _running.add(pid)
            here.send((folder, run, options, arguments))
            while True:
                if not here.poll(limit_s):
                    raise SimulationFailedError(
                        f"The simulation of {name} gave no sign of life for {limit_s:g} s and was stopped",
                        fix="Raise --time-limit if the network is large.",
                    )
                kind, value = here.recv()
                if kind == "value":
                    return value
                if kind == "error":
                    raise SimulationFailedError(
                        f"The simulation of {name} failed", why=f"{value} {_printed(folder)}".strip()
                    )
                here.send(answer(value))
        except (EOFError, ConnectionError):
            with _guard:
                _running.discard(pid)
            raise SimulationFailedError(f"The simulation of {name} crashed", why=_printed(folder)) from None
        finally:
            with _guard:
                if pid in _running:
                    _kill(pid)
                    _running.discard(pid)
            with contextlib.suppress(EOFError, ConnectionError):
                while True:  # until it has ended
                    here.recv()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has crashed
        os.kill(pid, signal.SIGKILL)


class _Server:
    """The process of :mod:`engine.tasks.traffic.simulation.server`."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", _SERVER, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )

    def connection(self) -> Connection:
        """A connection to a new fork."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"."], [theirs.fileno()])
        return Connection(ours.detach())


_servers: list[_Server] = []


def _server() -> _Server:
    with _guard:
        if not _servers or _servers[-1].process.poll() is not None:
            _servers.append(_Server())
        return _servers[-1]


def _printed(folder: str) -> str:
    """The errors that SUMO printed; if there are none, the end of all output."""
    path = Path(folder) / "printed"
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    errors = [line for line in text.splitlines() if line.startswith("Error:")]
    return " ".join(errors)[:_STDERR_SHOWN] or text[-_STDERR_SHOWN:].strip()


_guard = threading.Lock()
_running: set[int] = set()
"""Process ids of the simulations."""


class SimulationThreads(contextlib.AbstractContextManager["SimulationThreads"]):
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

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            while waiting := [future for future in self._futures if not future.done()]:
                self._on_stop()
                wait(waiting, timeout=_STOP_POLL_S)  # one may just be starting its process, so kill again
                with _guard:
                    for pid in _running:
                        _kill(pid)
        self._pool.shutdown()
