"""Workers on a Ray cluster. Each one is an actor; one that ends is replaced, and others take its items."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic

import ray
from ray.exceptions import RayActorError

from engine.errors import IncompleteRunError, ScaffoldError
from engine.executor.work import ItemPool, ItemT, ResultT, Worker, WorkerDescription

MOST_LOSSES = 5
"""An item whose workers ended this many times is given up: it may be what ends them."""
DRAIN_S = 75.0
"""Seconds for which the end of a pool waits for its workers; a client drains its requests for up to 60 s."""
_AHEAD = 1
"""Calls that wait at a worker, so that it is not idle while a result travels."""
_CALL_S = 0.1
"""Seconds of work that a call is to have, many times what the call itself costs. Then the worker returns the rest."""
_MOST_ITEMS = 32
"""Items of one call."""
_CONTROL = "control"
"""Calls of this group do not wait for the items in work."""


@dataclass(eq=False)
class _Job:
    """An item, the future of its caller, whether a worker was given it, and how many of its workers ended."""

    item: Any
    future: Future[Any]
    is_started: bool = False
    losses: int = 0


@dataclass(eq=False)
class _Member:
    """A worker of a pool, with the items that it was given in each call."""

    handle: Any
    number: int
    is_ready: bool = False
    is_lost: bool = False
    calls: list[list[_Job]] = field(default_factory=list)

    @property
    def jobs(self) -> list[_Job]:
        """The items that it was given."""
        return [job for call in self.calls for job in call]


@dataclass(eq=False)
class RayPool(ItemPool[ItemT, ResultT], Generic[ItemT, ResultT]):
    """Actors that are opened from one description.

    Each reserves one CPU; those beyond the CPUs start when a node joins. A worker gets items when it is ready. When it
    ends (its process was killed, its node left), its items go to the others and a replacement is asked for, which
    starts as soon as a node has a free CPU. One thread does all of this; the futures of Ray only give it events.

    A call costs more than an item of a few milliseconds, so such items travel several in a call. Items of a worker that
    works on several at once, and those whose worker ended, travel alone.
    """

    def __post_init__(self) -> None:
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._members: dict[int, _Member] = {}
        self._by_load: list[tuple[int, int, int, _Member]] = []  # a heap; an entry with another load than now is stale
        self._ticket = itertools.count()  # makes entries different, as workers have no order
        self._queue: deque[_Job] = deque()
        self._started = self._failed_starts = 0
        self._size = 1
        """Items of the next call."""
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="ray-pool", daemon=True)

    def __enter__(self) -> RayPool[ItemT, ResultT]:
        self._packed = ray.put(self.description)
        for _ in range(self.workers):
            self._start()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._events.put(None)
        self._thread.join()
        for job in self._queue:
            _cancel(job)
        members = list(self._members.values())
        closing = [_control(member.handle.close) for member in members if member.is_ready]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=DRAIN_S)
        for member in members:
            ray.kill(member.handle)
            for job in member.jobs:
                _cancel(job)

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
            num_cpus=1, max_concurrency=self.in_flight, scheduling_strategy="SPREAD"
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
            if member.calls and self._is_alone(self._queue[0]):
                return  # until a worker has nothing else
            jobs = self._take_jobs()
            if jobs:
                member.calls.append(jobs)
                self._load_changed(member)
                result = member.handle.run.remote([job.item for job in jobs])
                self._when_done(result, partial(self._ended, member, jobs))

    def _is_alone(self, job: _Job) -> bool:
        """Whether a worker is to have nothing else meanwhile, so that it is known what ends it."""
        return job.losses > 0 and self.in_flight == 1

    def _load(self, member: _Member) -> int:
        """The calls of a worker, or as many as it can have."""
        is_full = any(self._is_alone(job) for job in member.jobs[:1])
        return self.in_flight + _AHEAD if is_full else len(member.calls)

    def _take_jobs(self) -> list[_Job]:
        """The items of the next call. The last items are divided among the workers."""
        jobs: list[_Job] = []
        size = min(self._size, -(-len(self._queue) // len(self._members)))
        while self._queue and len(jobs) < size and not (jobs and self._queue[0].losses):
            job = self._queue.popleft()
            if not job.is_started and not job.future.set_running_or_notify_cancel():
                continue
            job.is_started = True
            jobs.append(job)
            if job.losses:
                break
        return jobs

    def _least_loaded(self) -> _Member | None:
        """The ready worker with the fewest calls, if it can take one more."""
        while self._by_load:
            load, _, _, member = self._by_load[0]
            if not member.is_lost and load == self._load(member):
                return member if load < self.in_flight + _AHEAD else None
            heapq.heappop(self._by_load)
        return None

    def _load_changed(self, member: _Member) -> None:
        heapq.heappush(self._by_load, (self._load(member), member.number, next(self._ticket), member))
        if len(self._by_load) > 4 * len(self._members) + 64:  # mostly stale
            ready = [one for one in self._members.values() if one.is_ready]
            self._by_load = [(self._load(one), one.number, next(self._ticket), one) for one in ready]
            heapq.heapify(self._by_load)

    def _ended(self, member: _Member, jobs: list[_Job], done: Future[Any]) -> None:
        error = done.exception()
        if isinstance(error, RayActorError):
            self._replace(member)
            for job in jobs:
                job.losses += 1
            self._again(jobs)
        else:
            member.calls.remove(jobs)
            self._load_changed(member)
            results, seconds = ([error] * len(jobs), 0.0) if error is not None else done.result()
            self._adapt(len(jobs), seconds)
            for job, result in zip(jobs, results, strict=False):
                if isinstance(result, BaseException):
                    _fail(job, result)
                elif not job.future.done():
                    job.future.set_result(result)
            self._again(jobs[len(results) :])
        self._dispatch()

    def _adapt(self, items: int, seconds: float) -> None:
        """Change the size of the next calls by the time that one took."""
        if seconds > _CALL_S:
            self._size = max(1, self._size // 2)
        elif self.in_flight == 1 and items == self._size and seconds < _CALL_S / 2:
            self._size = min(2 * self._size, _MOST_ITEMS)

    def _replace(self, member: _Member) -> None:
        """Start another worker in the place of one that ended. The calls that it had fail on their own."""
        if member.is_lost:
            return
        member.is_lost = True
        del self._members[member.number]
        ray.kill(member.handle)  # it may be alive behind a broken connection
        if self.lost is not None:
            self.lost(member.number)
        self._start()

    def _again(self, jobs: Sequence[_Job]) -> None:
        """Put items at the head of the queue, except those whose workers ended too often."""
        for job in reversed(jobs):
            if job.losses < MOST_LOSSES:
                self._queue.appendleft(job)
                continue
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


def _cancel(job: _Job) -> None:
    if not job.future.cancel():  # a worker was given it
        _fail(job, CancelledError())


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

    def run(self, items: list[Any]) -> tuple[list[Any], float]:
        """Work on items until they are done or the time of a call is over, on one at least.

        Returns:
            a result for each item in turn, and the seconds of work. An error that a person is to read is a result, as
            Ray wraps what is raised.
        """
        if self._worker is None:
            raise RuntimeError("the worker was not opened")
        started, results = time.monotonic(), []
        for item in items:
            try:
                results.append(self._worker.run(item))
            except ScaffoldError as error:
                results.append(error)
            if (seconds := time.monotonic() - started) > _CALL_S:
                break
        return results, seconds

    def close(self) -> None:
        """Close the worker."""
        if self._worker is not None:
            self._worker.close()

    def place(self) -> tuple[str, int]:
        """The node and the process id."""
        return ray.get_runtime_context().get_node_id(), os.getpid()
