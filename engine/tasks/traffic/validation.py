"""Checks of datasets: every row against its schema, its own figures and its state file."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from engine.errors import InputError, MissingInputError
from engine.tasks.traffic.rewards import observation_of
from engine.tasks.traffic.rows import TrafficRow, first_fault, read_array, state_text
from engine.tasks.traffic.simulation.generation import DATASET

RowT = TypeVar("RowT", bound=BaseModel)

MIN_ROWS = 10
_STATES_READ = 10


def fault_text(file: Path, row: int, what: str) -> str:
    """One thing that is wrong with a dataset; ``row`` counts from 1, 0 is the file."""
    return f"{file}{f', row {row}' if row else ''}: {what}"


def dataset_files(path: Path) -> list[Path]:
    """A dataset file, or those of a directory's scenarios (``*/grpo_dataset.json``).

    Raises:
        MissingInputError: there is none.
    """
    if path.is_file():
        return [path]
    found = sorted(path.glob(f"*/{DATASET}")) or sorted(path.glob(DATASET))
    if not found:
        raise MissingInputError(
            f"No {DATASET} in {path}",
            fix="Generate one: python -m grpo_training.traffic generate --all",
        )
    return found


def read_rows(path: Path) -> list[TrafficRow]:
    """The rows of a dataset file.

    Raises:
        InputError: as for :func:`rows_of`.
    """
    return rows_of(path, TrafficRow)


def all_rows(path: Path) -> list[TrafficRow]:
    """The rows of a dataset file, or of all scenarios of a folder.

    Raises:
        MissingInputError: there is none.
        InputError: as for :func:`rows_of`; or there is no row, or two have the same id.
    """
    found: dict[str, TrafficRow] = {}
    for file in dataset_files(path):
        for number, row in enumerate(read_rows(file), 1):
            if found.setdefault(row.id, row) is not row:
                raise InputError(fault_text(file, number, f"the id {row.id!r} is there twice"))
    if not found:
        raise InputError(f"{path} has no rows", fix="Generate some: python -m grpo_training.traffic generate --all")
    return list(found.values())


def rows_of(path: Path, model: type[RowT]) -> list[RowT]:
    """The rows of a file.

    Raises:
        InputError: the file is no JSON array, or a row does not fit its schema; it names the row.
    """
    rows = []
    for number, value in enumerate(read_array(path), 1):
        try:
            rows.append(model.model_validate(value))
        except ValidationError as error:
            raise InputError(f"{path}, row {number}: {first_fault(error)}") from None
    return rows


def errors_of(path: Path, horizon: int | None = None) -> Iterator[str]:
    """What is wrong with a dataset file.

    Args:
        horizon: that every row must have; None: that of the first row.
    """
    try:
        values = read_array(path)
    except InputError as error:
        yield str(error.what)
        return
    if len(values) < MIN_ROWS:
        yield fault_text(path, 0, f"{len(values)} rows; a scenario needs at least {MIN_ROWS}")
    seen: dict[str, int] = {}
    networks = set()
    for number, value in enumerate(values, 1):
        try:
            row = TrafficRow.model_validate(value)
        except ValidationError as error:
            yield fault_text(path, number, first_fault(error))
            continue
        horizon = row.horizon if horizon is None else horizon
        networks.add(row.network)
        if row.horizon != horizon:
            yield fault_text(path, number, f"its horizon is {row.horizon} s, that of the others {horizon} s")
        if row.id in seen:
            yield fault_text(path, number, f"id {row.id!r} is also that of row {seen[row.id]}")
        seen.setdefault(row.id, number)
        for what in _wrong_with(row):
            yield fault_text(path, number, what)
        if number <= _STATES_READ and row.state_file:
            yield from (fault_text(path, number, what) for what in _wrong_with_state(path.parent / row.state_file))
    if len(networks) > 1:
        yield fault_text(path, 0, f"its rows are of {len(networks)} networks")


def _wrong_with(row: TrafficRow) -> Iterator[str]:
    low, high, elapsed = row.min_green, row.max_green, row.current_green_elapsed
    if not low <= elapsed <= high:
        yield f"current_green_elapsed {elapsed:g} is outside of {low:g} to {high:g}"
    if row.can_extend != (elapsed + row.extend_seconds <= high):
        yield f"can_extend is {row.can_extend}, the limits say {not row.can_extend}"
    if row.prompt != state_text(observation_of(row), row.extend_seconds):
        yield "prompt does not show the row's own figures"


def _wrong_with_state(path: Path) -> Iterator[str]:
    try:
        root = next(ElementTree.iterparse(path, events=("start",)))[1].tag  # noqa: S314 - a local file
    except (OSError, ElementTree.ParseError, StopIteration) as error:
        yield f"state file {path.name} cannot be read: {error}"
        return
    if root != "snapshot":
        yield f"state file {path.name} is no SUMO state: its root is <{root}>"
