"""The executor of a Ray cluster. Each worker is an actor; one that ends is replaced, and others take its items."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import os
import queue
import signal
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from engine.errors import ConfigurationError, IncompleteRunError, ScaffoldError
from engine.executor.work import Executor, ItemT, ResultT, WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.executor.work import Worker, WorkerDescription

MOST_LOSSES = 5
"""An item whose workers ended this many times is given up: it may be what ends them."""
DRAIN_S = 75.0
"""Seconds for which the end of a pool waits for its workers; a client drains its requests for up to 60 s."""
_AHEAD = 1
"""Items that wait at a worker, so that it is not idle while a result travels."""
_CONTROL = "control"
"""Calls of this group do not wait for the items in work."""


class RayExecutor(Executor):
    """A Ray cluster.

    Args:
        address: ``HOST:PORT`` of the cluster; None: the one that ``RAY_ADDRESS`` names or that this machine belongs to,
            else a Ray on this machine that lives as long as this object.

    Raises:
        ConfigurationError: the cluster cannot be reached, or has another version of Ray or Python.
    """

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
            raise ConfigurationError(
                f"Cannot use the Ray cluster {address or 'of this machine'}",
                why=(str(error).strip() or type(error).__name__).splitlines()[0],
                fix="Check `ray status` on this machine. It has to be a node of the cluster "
                "(ray start --address=HOST:6379), with the same versions of Python and Ray as the other nodes.",
            ) from error
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

    def pool(
        self,
        description: WorkerDescription[ItemT, ResultT],
        workers: int,
        *,
        in_flight: int = 1,
        lost: Callable[[int], object] | None = None,
    ) -> RayPool[ItemT, ResultT]:
        """As the base class says. Each worker reserves one CPU; workers beyond the CPUs start when a node joins."""
        return RayPool(description, workers, in_flight=in_flight, lost=lost)

    def beside_driver(self, kind: type[Any], *arguments: Any) -> ActorHandle:
        """An object in a process of its own on the node of this process, whose files it can open.

        It ends with this process. Any worker may call it. Its methods run one at a time, as one that does not wait
        takes half the processor time of an asynchronous one.

        Args:
            kind: its class.
            arguments: of the class.
        """
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor = ray.remote(kind).options(num_cpus=0, scheduling_strategy=here)
        return ActorHandle(actor.remote(*arguments))


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


@dataclass(eq=False)
class _Job:
    """An item, the future of its caller, and how many of its workers ended."""

    item: Any
    future: Future[Any]
    losses: int = 0


@dataclass(eq=False)
class _Member:
    """A worker of a pool."""

    handle: Any
    number: int
    is_ready: bool = False
    is_lost: bool = False
    jobs: set[_Job] = field(default_factory=set)


class RayPool(WorkerPool[ItemT, ResultT], Generic[ItemT, ResultT]):
    """Actors that are opened from one description.

    A worker gets items when it is ready. When it ends (its process was killed, its node left), its items go to the
    others and a replacement is asked for, which starts as soon as a node has a free CPU. One thread does all of this;
    the futures of Ray only give it events.

    Args:
        description: opens a worker; it travels by pickle.
        workers: how many.
        in_flight: items that a worker works on at once.
        lost: called with the number of a worker that ended.
    """

    def __init__(
        self,
        description: WorkerDescription[ItemT, ResultT],
        workers: int,
        *,
        in_flight: int = 1,
        lost: Callable[[int], object] | None = None,
    ) -> None:
        self._description, self._workers, self._in_flight, self._lost = description, workers, in_flight, lost
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._members: dict[int, _Member] = {}
        self._by_load: list[tuple[int, int, int, _Member]] = []  # a heap; an entry with another load than now is stale
        self._ticket = itertools.count()  # makes entries different, as workers have no order
        self._queue: deque[_Job] = deque()
        self._started = self._failed_starts = 0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="ray-pool", daemon=True)

    def __enter__(self) -> RayPool[ItemT, ResultT]:
        self._packed = ray.put(self._description)
        for _ in range(self._workers):
            self._start()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._events.put(None)
        self._thread.join()
        for job in self._queue:
            job.future.cancel()
        members = list(self._members.values())
        closing = [_control(member.handle.close) for member in members if member.is_ready]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=DRAIN_S)
        for member in members:
            ray.kill(member.handle)
            for job in member.jobs:
                job.future.cancel()

    def submit(self, item: ItemT) -> Future[ResultT]:
        """As the base class says."""
        job = _Job(item, Future())
        self._events.put(partial(self._take, job))
        return job.future

    def places(self) -> dict[int, tuple[str, int]]:
        """Number of each worker that is ready -> its node and process id."""
        ready = [member for member in list(self._members.values()) if member.is_ready]
        places = ray.get([_control(member.handle.place) for member in ready])
        return {member.number: place for member, place in zip(ready, places, strict=True)}

    def _work(self) -> None:
        while (event := self._events.get()) is not None:
            event()

    def _start(self) -> None:
        number = self._started
        self._started += 1
        actor = ray.remote(concurrency_groups={_CONTROL: 2})(_Actor).options(
            num_cpus=1, max_concurrency=self._in_flight, scheduling_strategy="SPREAD"
        )
        member = _Member(actor.remote(os.getcwd(), self._packed, number), number)
        self._members[number] = member
        self._when_done(_control(member.handle.open), partial(self._opened, member))

    def _when_done(self, reference: Any, handle: Callable[[Future[Any]], None]) -> None:
        """Call ``handle`` in the thread of the pool when a result has arrived."""
        reference.future().add_done_callback(lambda done: self._events.put(partial(handle, done)))

    def _opened(self, member: _Member, done: Future[Any]) -> None:
        error = done.exception() or done.result()
        if isinstance(error, RayActorError):
            self._failed_starts += 1
            if self._failed_starts == MOST_LOSSES:  # in a row: the next ones would fail too
                self._fail_all(
                    IncompleteRunError(
                        f"{MOST_LOSSES} workers ended before they could work",
                        why=str(error).strip(),
                        fix="Check that every node has this project and its packages, in the same versions.",
                    )
                )
                return
            self._replace(member)
        elif error is not None:  # what the work needs is missing there, as it would be for every item
            self._fail_all(error)
        else:
            self._failed_starts = 0
            member.is_ready = True
            self._load_changed(member)
            self._dispatch()

    def _take(self, job: _Job) -> None:
        if self._error is not None:
            _fail(job, self._error)
            return
        self._queue.append(job)
        self._dispatch()

    def _dispatch(self) -> None:
        while self._queue and (member := self._least_loaded()) is not None:
            job = self._queue.popleft()
            if not job.losses and not job.future.set_running_or_notify_cancel():
                continue
            member.jobs.add(job)
            self._load_changed(member)
            self._when_done(member.handle.run.remote(job.item), partial(self._ended, member, job))

    def _least_loaded(self) -> _Member | None:
        """The ready worker with the fewest items, if it can take one more."""
        while self._by_load:
            load, _, _, member = self._by_load[0]
            if not member.is_lost and load == len(member.jobs):
                return member if load < self._in_flight + _AHEAD else None
            heapq.heappop(self._by_load)
        return None

    def _load_changed(self, member: _Member) -> None:
        heapq.heappush(self._by_load, (len(member.jobs), member.number, next(self._ticket), member))
        if len(self._by_load) > 4 * len(self._members) + 64:  # mostly stale
            ready = [one for one in self._members.values() if one.is_ready]
            self._by_load = [(len(one.jobs), one.number, next(self._ticket), one) for one in ready]
            heapq.heapify(self._by_load)

    def _ended(self, member: _Member, job: _Job, done: Future[Any]) -> None:
        member.jobs.discard(job)
        error = done.exception()
        if isinstance(error, RayActorError):
            self._again(job)
            self._replace(member)
        else:
            self._load_changed(member)
            result = done.result() if error is None else error
            if isinstance(result, BaseException):
                _fail(job, result)
            elif not job.future.done():
                job.future.set_result(result)
        self._dispatch()

    def _replace(self, member: _Member) -> None:
        """Start another worker in the place of one that ended. The calls that it had fail on their own."""
        if member.is_lost:
            return
        member.is_lost = True
        del self._members[member.number]
        ray.kill(member.handle)  # it may be alive behind a broken connection
        if self._lost is not None:
            self._lost(member.number)
        self._start()

    def _again(self, job: _Job) -> None:
        """Put an item whose worker ended at the head of the queue."""
        job.losses += 1
        if job.losses < MOST_LOSSES:
            self._queue.appendleft(job)
            return
        _fail(
            job,
            IncompleteRunError(
                f"The workers of one item ended {job.losses} times",
                why="They were killed, perhaps for lack of memory, or their nodes left.",
                fix="See `ray status` and the logs of Ray on the nodes, then run the same command again.",
            ),
        )

    def _fail_all(self, error: BaseException) -> None:
        self._error = error
        for job in (*self._queue, *(job for member in self._members.values() for job in member.jobs)):
            _fail(job, error)
        self._queue.clear()


def _control(method: Any) -> Any:
    """Call a method of a worker that does not wait for the items in work."""
    return method.options(concurrency_group=_CONTROL).remote()


def _fail(job: _Job, error: BaseException) -> None:
    if not job.future.done():
        job.future.set_exception(error)


class _Actor:
    """A worker in its own process on a node of the cluster.

    Args:
        folder: of the command; relative paths mean the same files here, where the node has it.
        description: opens the worker.
        number: its number in the pool.
    """

    def __init__(self, folder: str, description: WorkerDescription[Any, Any], number: int) -> None:
        with contextlib.suppress(OSError):
            os.chdir(folder)
        self._description, self._number = description, number
        self._worker: Worker[Any, Any] | None = None

    def open(self) -> ScaffoldError | None:
        """Open the worker; the error if that is not possible on this node."""
        try:
            self._worker = self._description.open(self._number)
        except ScaffoldError as error:
            node = ray.util.get_node_ip_address()
            return type(error)(f"{error.what} (on the node {node})", why=error.why, fix=error.fix)
        return None

    def run(self, item: Any) -> Any:
        """Work on an item. An error that a person is to read is returned, as Ray wraps what is raised."""
        if self._worker is None:
            raise RuntimeError("the worker was not opened")
        try:
            return self._worker.run(item)
        except ScaffoldError as error:
            return error

    def close(self) -> None:
        """Close the worker."""
        if self._worker is not None:
            self._worker.close()

    def place(self) -> tuple[str, int]:
        """The node and the process id."""
        return ray.get_runtime_context().get_node_id(), os.getpid()
