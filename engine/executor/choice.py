"""Chooses the executor by the value of ``--executor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import ConfigurationError, InputError
from engine.executor.work import Executor

if TYPE_CHECKING:
    from engine.executor.ray_cluster import RayExecutor

PROCESS = "process"
RAY = "ray"

EXECUTOR_HELP = (
    "where the work runs: process (this machine), ray (the Ray cluster that this machine belongs to, else a Ray that "
    "is started for the run), or ray:HOST:PORT"
)


def check_executor(name: str) -> str:
    """The name, if it is the name of an executor.

    Raises:
        InputError: it is not.
    """
    kind, _, address = name.partition(":")
    if kind not in (PROCESS, RAY) or (kind == PROCESS and name != PROCESS) or (name != kind and not address):
        raise InputError(f"Unknown executor {name!r}", fix="Use process, ray or ray:HOST:PORT.")
    if address.startswith("ray:"):
        raise InputError(
            f"The executor {name!r} is a Ray Client address",
            why="The command writes files that its workers use, so it has to run on a node of the cluster.",
            fix="Run it on the head node, or join the cluster with `ray start --address=HOST:6379`, and use ray.",
        )
    return name


def is_cluster(name: str) -> bool:
    """Whether the executor is a Ray cluster."""
    return name != PROCESS


def open_executor(name: str) -> Executor:
    """The executor with a name. A context manager.

    Args:
        name: ``process``, ``ray`` or ``ray:ADDRESS``.

    Raises:
        InputError: there is no such executor.
        ConfigurationError: Ray is not installed, or the cluster cannot be reached.
    """
    if is_cluster(check_executor(name)):
        return open_cluster(name)
    from engine.executor.local import LocalExecutor  # multiprocessing, which the settings do not need

    return LocalExecutor()


def open_cluster(name: str) -> RayExecutor:
    """As :func:`open_executor`, for ``ray`` and ``ray:ADDRESS``."""
    try:
        from engine.executor.ray_cluster import RayExecutor  # loads Ray, which only this choice needs
    except ImportError as error:
        raise ConfigurationError(
            f"--executor {name} needs Ray",
            why=str(error),
            fix="Install it: make ray, or pip install 'scaffold-grpo[ray]'.",
        ) from None
    return RayExecutor(name.partition(":")[2] or None)
