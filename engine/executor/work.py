"""The interface of executors: descriptions of workers, workers, and pools of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
ItemT_contra = TypeVar("ItemT_contra", contravariant=True)
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Worker(Protocol[ItemT_contra, ResultT_co]):
    """Does one kind of work. It holds what is expensive to open: a client, a sandbox pool, a simulator."""

    def run(self, item: ItemT_contra) -> ResultT_co:
        """Work on one item. It may be called again with the same item after a worker ended, so it stores nothing.

        Raises:
            ScaffoldError: the run has to stop.
        """

    def close(self) -> None:
        """Finish what is in flight and close what was opened."""


class WorkerDescription(Protocol[ItemT_contra, ResultT_co]):
    """A picklable description of a worker."""

    def open(self, number: int) -> Worker[ItemT_contra, ResultT_co]:
        """Open a worker, in the process in which it works.

        Args:
            number: distinguishes the workers of a pool, replacements included.

        Raises:
            ScaffoldError: something that the work needs is missing on this machine.
        """


@dataclass(eq=False)
class ItemPool(ABC, Generic[ItemT, ResultT]):
    """Workers that are opened from one description. A context manager, whose end closes the workers.

    Args:
        description: opens a worker; picklable.
        workers: how many.
        in_flight: items that one worker works on at once, for work that waits more than it computes.
        lost: called, in any thread, with the number of a worker that ended and is replaced.
    """

    description: WorkerDescription[ItemT, ResultT]
    workers: int
    _: KW_ONLY
    in_flight: int = 1
    lost: Callable[[int], object] | None = None

    @abstractmethod
    def __enter__(self) -> ItemPool[ItemT, ResultT]:
        """Start the workers."""

    @abstractmethod
    def __exit__(self, *error: object) -> None:
        """Close the workers; what was not started is cancelled."""

    @abstractmethod
    def submit(self, item: ItemT) -> Future[ResultT]:
        """Work on an item in the background. Results come in any order.

        The future raises what the work raised, or IncompleteRunError if its workers ended without a result.
        """


class Executor(ABC):
    """A place where work runs. A context manager.

    Attributes:
        pool: the class of its pools, which makes one.
    """

    pool: ClassVar[type[ItemPool[Any, Any]]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Leave the place."""

    @property
    @abstractmethod
    def cpus(self) -> int:
        """How many CPUs the place has for work."""
