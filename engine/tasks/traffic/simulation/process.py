"""Simulations in processes of their own, as libsumo holds one for each process, and one that hangs must be killed."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from engine.errors import ConfigurationError, ScaffoldError
from engine.storage.installation import install_command
from engine.tasks.traffic.scenarios import SimulationOptions

_RUNS = "engine.tasks.traffic.simulation.runs"
_PROCESSES = multiprocessing.get_context("forkserver")  # a simulation starts as a fork that has imported libsumo
_PROCESSES.set_forkserver_preload([_RUNS])
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
    here, there = _PROCESSES.Pipe()
    with here, tempfile.TemporaryDirectory(prefix="simulation-", ignore_cleanup_errors=True) as folder:
        process = _PROCESSES.Process(target=_in_process, args=(there, folder, run, options, arguments), daemon=True)
        process.start()
        there.close()
        with _guard:
            _running.add(process)
        try:
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
            raise SimulationFailedError(f"The simulation of {name} crashed", why=_printed(folder)) from None
        finally:
            process.kill()
            process.join()
            with _guard:
                _running.discard(process)


def _in_process(
    connection: Connection, folder: str, run: str, options: SimulationOptions, arguments: tuple[Any, ...]
) -> None:
    """Do a run, and send its messages and its value to the parent. What is printed goes to a file of ``folder``."""
    with (Path(folder) / "printed").open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    tempfile.tempdir = folder  # removed by the parent, also if this process is killed

    def tell(message: Any) -> Any:
        connection.send(("message", message))
        return connection.recv()

    try:
        value = getattr(importlib.import_module(_RUNS), run)(tell, options, *arguments)
    except SimulationError as error:
        connection.send(("error", str(error)))
    else:
        connection.send(("value", value))


def _printed(folder: str) -> str:
    """The errors that SUMO printed; if there are none, the end of all output."""
    path = Path(folder) / "printed"
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    errors = [line for line in text.splitlines() if line.startswith("Error:")]
    return " ".join(errors)[:_STDERR_SHOWN] or text[-_STDERR_SHOWN:].strip()


_guard = threading.Lock()
_running: set[BaseProcess] = set()


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
            while waiting := [future for future in self._futures if not future.done()]:
                self._on_stop()
                wait(waiting, timeout=_STOP_POLL_S)  # one may just be starting its process, so kill again
                with _guard:
                    for process in _running:
                        process.kill()
        self._pool.shutdown()
