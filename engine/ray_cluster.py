"""Calls of functions as tasks of a Ray cluster: for checks that take more processors than one machine has.

Ray chooses the node, gives a call whose worker or node ended to another one, and queues what has no free processor.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError, RayTaskError

from engine.errors import ConfigurationError, IncompleteRunError, ScaffoldError, first_line

ResultT = TypeVar("ResultT")

_RETRIES = 4
"""A call whose workers ended this many times and once more is given up: it may be what ends them."""


class RayCluster(contextlib.AbstractContextManager["RayCluster"]):
    """A Ray cluster. A context manager, whose end leaves the cluster.

    Args:
        address: ``HOST:PORT`` of the cluster; None: the one that ``RAY_ADDRESS`` names or that this machine belongs to,
            else a Ray on this machine that lives as long as this object.

    Raises:
        ConfigurationError: the cluster cannot be reached, or has another version of Ray or Python.
    """

    def __init__(self, address: str | None = None) -> None:
        self._is_own = not ray.is_initialized()
        if self._is_own:
            _connect(address)
        self._call = ray.remote(num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD")(_call)

    def __exit__(self, *error: object) -> None:
        if self._is_own:
            ray.shutdown()

    def submit(self, function: Callable[..., ResultT], *arguments: Any) -> Future[ResultT]:
        """Call a function of a module on a node, in a process that has one processor.

        The call may be made more than once: another worker makes it again if its own has ended.

        Returns:
            a future of the result. It raises the ScaffoldError that the function has raised, and IncompleteRunError if
            the workers of the call ended too often.
        """
        future: Future[ResultT] = Future()
        done = self._call.remote(os.getcwd(), function, arguments).future()
        done.add_done_callback(lambda done: _hand_over(done, future))
        return future


def _connect(address: str | None) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(
            address=address,
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
        raise ConfigurationError(
            f"Cannot use the Ray cluster {address or 'of this machine'}",
            why=first_line(error),
            fix="Check `ray status` on this machine. It has to be a node of the cluster (ray start --address="
            "HOST:6379), with the same versions of Python and Ray as the other nodes. RAY_AUTH_MODE (token or "
            "disabled) has to be the same for all nodes and for this command.",
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)  # Ray's own one would skip the orderly end of a run


def _call(folder: str, function: Callable[..., ResultT], arguments: tuple[Any, ...]) -> ResultT | ScaffoldError:
    """What a worker does. An error that a person is to read is a result, as Ray wraps what is raised.

    Args:
        folder: of the command; relative paths mean the same files here, where the node has it.
        function, arguments: the call.
    """
    with contextlib.suppress(OSError):
        os.chdir(folder)
    try:
        return function(*arguments)
    except ScaffoldError as error:
        node = ray.util.get_node_ip_address()
        return type(error)(f"{error.what} (on the node {node})", why=error.why, fix=error.fix)


def _hand_over(done: Future[Any], future: Future[Any]) -> None:
    """Give the result of Ray's future to the one that the caller has."""
    if not future.set_running_or_notify_cancel():
        return
    error = done.exception()
    if isinstance(error, RayError) and not isinstance(error, RayTaskError):
        error = IncompleteRunError(
            "The Ray cluster has lost the work on an answer",
            why=first_line(error),
            fix="See `ray status` and the logs of Ray on the nodes, then run the same command again.",
        )
    elif error is None and isinstance(done.result(), ScaffoldError):
        error = done.result()
    if error is None:
        future.set_result(done.result())
    else:
        future.set_exception(error)
