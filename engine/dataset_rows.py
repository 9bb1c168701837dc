"""Rows of a source become problems, each by its task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import EmptyRowError, InputError, OmittedRowError, quoted
from engine.records import Problem
from engine.task import Task
from engine.task_datasets import Dataset
from engine.task_protocols import RowReader
from engine.tasks.registry import task_named, task_of_row
from engine.tasks.rows import NEEDED_FIELDS, UnusableRowError, text_of


@dataclass(frozen=True)
class LoadedDataset:
    """The problems of a dataset.

    ``dropped`` has (row's id, reason code, sentence) of each unusable row. ``note`` says what was found out about rows
    that are read as a whole.
    """

    problems: list[Problem]
    dropped: list[tuple[str, str, str]] = field(default_factory=list)
    note: str = ""


def read_rows(
    rows: Iterable[tuple[int, Any]],
    name: str,
    source: str,
    reader: RowReader,
    *,
    max_problems: int | None,
    row_read: Callable[[], object] = lambda: None,
    dataset: Dataset | None = None,
) -> LoadedDataset:
    """Read the rows of a source.

    Args:
        rows: each with its line; None for a blank line.
        name: for the ids of problems whose rows have none.
        source: for messages.
        reader: makes a problem of a row.
        max_problems: stop after so many; None for all.
        row_read: called for each row.
        dataset: that of a task; None for a user's file.

    Raises:
        InputError: a row is not a problem, or there is no problem at all.
    """
    drops = dataset is not None and dataset.drops_unusable_rows
    problems: dict[str, Problem] = {}
    lines: dict[str, int] = {}
    dropped: list[tuple[str, str, str]] = []
    for line, row in rows:
        row_read()
        if row is None or (drops and not isinstance(row, Mapping)):
            continue
        where = f"{source}, line {line}"
        try:
            if not isinstance(row, Mapping):
                kind = type(row).__name__
                raise InputError(f"{where}: expected a JSON object, got a {kind}", fix=NEEDED_FIELDS)
            problem = reader(row, where)
            if problem is None:
                continue
            if not problem.id:
                problem = problem.model_copy(update={"id": f"{name}_{len(problems) + 1:03d}"})
            if problem.id in problems:
                if drops:
                    raise UnusableRowError("repeated_id", "an earlier row has the same id", problem.id)
                raise InputError(
                    f"{where}: field 'id': {quoted(problem.id)} is already on line {lines[problem.id]}",
                    fix="Give every problem a unique id, or omit all ids.",
                )
        except OmittedRowError as error:
            dropped.append(("", "empty" if isinstance(error, EmptyRowError) else "omitted", error.what))
            continue
        except UnusableRowError as error:
            if not drops:
                raise
            dropped.append((error.row_id, error.reason, error.what))
            continue
        problems[problem.id], lines[problem.id] = problem, line
        if len(problems) == max_problems:
            break
    if not problems and dropped and not drops:
        raise InputError(dropped[0][2], fix="Fill it in, or remove the row.")
    if not problems:
        of_which = "" if dataset is None else f" of {name}"
        described = "" if dataset is None else dataset.described
        needed = f"It needs rows of {described}." if described else NEEDED_FIELDS
        raise InputError(f"{source} holds no problem{of_which}", fix=needed)
    return LoadedDataset(list(problems.values()), dropped)


def row_reader(dataset_task: Task | None = None, dataset: Dataset | None = None) -> RowReader:
    """Reads rows by the task of each, or by the dataset's own reader."""

    def read(row: Mapping[str, Any], where: str) -> Problem | None:
        task = task_that_reads(row, where, dataset_task)
        if task is dataset_task and dataset is not None and dataset.read_row is not None:
            return dataset.read_row(row, where)
        return task.problem_from_row(row, where)

    return read


def task_that_reads(row: Mapping[str, Any], where: str, dataset_task: Task | None, other: Task | None = None) -> Task:
    """The task of a row: the one that it names, the dataset's, the one of its fields, or ``other``.

    In rows of other programs, which have no ``problem``, ``task`` may be a text that is no name.
    """
    if row.get("task") is None:
        return dataset_task or task_of_row(row) or other or task_named("")
    name = text_of(row, "task", where)
    try:
        return task_named(name)
    except InputError as error:
        is_own = dataset_task is not None and not row.keys().isdisjoint(dataset_task.row_fields)
        owner = dataset_task if is_own else task_of_row(row) or (None if "problem" in row else other)
        if owner is None:
            raise InputError(f"{where}: field 'task': {error.what}", why=error.why, fix=error.fix) from None
        return owner
