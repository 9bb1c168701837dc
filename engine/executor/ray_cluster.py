"""The executor of a Ray cluster."""

from __future__ import annotations

import logging
import os
import signal
import threading
from concurrent.futures import Future
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from engine.errors import ConfigurationError, first_line
from engine.executor.ray_pool import RayPool
from engine.executor.work import Executor


class RayExecutor(Executor):
    """A Ray cluster.

    Args:
        address: ``HOST:PORT`` of the cluster; None: the one that ``RAY_ADDRESS`` names or that this machine belongs to,
            else a Ray on this machine that lives as long as this object.

    Raises:
        ConfigurationError: the cluster cannot be reached, or has another version of Ray or Python.
    """

    pool = RayPool

    def __init__(self, address: str | None = None) -> None:
        self._is_own = not ray.is_initialized()
        if not self._is_own:
            return
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
            raise _unusable(f"the Ray cluster {address or 'of this machine'}", error) from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's own one would skip the orderly end of a run

    @property
    def cpus(self) -> int:
        """The CPUs of all nodes."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    @property
    def hosts(self) -> set[str]:
        """The addresses of the nodes."""
        return {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}

    def close(self) -> None:
        """Leave the cluster."""
        if self._is_own:
            ray.shutdown()

    def beside_driver(self, kind: type[Any], *arguments: Any) -> ActorHandle:
        """An object in a process of its own on the node of this process, whose files it can open.

        It ends with this process. Any worker may call it. Its methods run one at a time, as one that does not wait
        takes half the processor time of an asynchronous one.

        Args:
            kind: its class.
            arguments: of the class.

        Raises:
            ConfigurationError: the cluster starts no process on this node, or the object cannot be made.
        """
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor = ray.remote(kind).options(num_cpus=0, scheduling_strategy=here).remote(*arguments)
        try:
            ray.get(actor.__ray_ready__.remote())
        except RayError as error:
            raise _unusable(f"{kind.__name__} on the Ray cluster", error) from error
        return ActorHandle(actor)


class ActorHandle:
    """Calls an actor from any process of the cluster; picklable."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method; the future of its result."""
        future: Future[Any] = getattr(self._actor, method).remote(*arguments).future()
        return future

    def end(self) -> None:
        """End the actor."""
        ray.kill(self._actor)


def _unusable(what: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"Cannot use {what}",
        why=first_line(error),
        fix="Check `ray status` on this machine. It has to be a node of the cluster (ray start --address=HOST:6379), "
        "with the same versions of Python and Ray as the other nodes. RAY_AUTH_MODE (token or disabled) has to be the "
        "same for all nodes and for this command.",
    )
