"""Where the problems of a task come from, and how training problems are selected from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from engine.records import Problem


@dataclass(frozen=True)
class HubDataset:
    """A dataset on the Hugging Face hub.

    Args:
        repository: for messages, ``owner/name``.
        arguments: positional arguments of ``datasets.load_dataset``.
        options: keyword arguments of ``datasets.load_dataset``.
        has_own_ids: whether the ``id`` of a row identifies the problem; if not, problems are numbered by position and
            the ``id`` is kept as ``source_id``.
    """

    repository: str
    arguments: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    has_own_ids: bool = True


@dataclass(frozen=True)
class WebDataset:
    """A small dataset at a fixed address, which needs no package.

    Args:
        url: JSON Lines, or the reply of ``/rows`` of the hub's dataset viewer.
        revision: commit that the rows are of.
        fault: what is wrong with rows that are not those of this revision; empty if they are.
    """

    url: str
    revision: str
    fault: Callable[[Sequence[Mapping[str, Any]]], str]


@dataclass(frozen=True)
class Dataset:
    """Where the problems of a dataset name come from: the first that is given and that has them.

    The order is a generator, a file, the web, the hub.

    Args:
        generate: makes the problems; the argument is their number, None for the dataset's own choice.
        files: names of the file in the data folders.
        web: used if there is no such file.
        hub: used if there is neither, through the package ``datasets``.
        read_row: reads a row, as :meth:`Task.problem_from_row` (the default). None for a row of another part.
        described: the rows that belong to it, for a message.
        drops_unusable_rows: leave unusable rows out, as published datasets have some; else the first is an error.
    """

    generate: Callable[[int | None], list[Problem]] | None = None
    files: tuple[str, ...] = ()
    web: WebDataset | None = None
    hub: HubDataset | None = None
    read_row: Callable[[Mapping[str, Any], str], Problem | None] | None = None
    described: str = ""
    drops_unusable_rows: bool = False


class DataPreparation(BaseModel, ABC):
    """How ``prepare_data`` selects the training problems of a task. The fields are flags of ``prepare_data``."""

    @abstractmethod
    def datasets(self) -> Mapping[str, str]:
        """The datasets to read, each with the flag that leaves it out; empty if there is none."""

    @abstractmethod
    def fault(self, problem: Problem) -> tuple[str, str] | None:
        """Why a problem cannot be used, as a short code and a sentence; None if it can. Blocking; from any thread."""

    @abstractmethod
    def row(self, problem: Problem) -> dict[str, Any]:
        """The problem as a row from which the task reads the same problem."""
