"""Rows of a source become problems: each by its task, and those of a user's file as all of them together describe."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from engine.abilities import ReadsDescribedRows, RowReader
from engine.contract.datasets import Dataset
from engine.errors import InputError
from engine.own_data.describe import describe
from engine.own_data.description import Description, EmptyRowError
from engine.records import Problem
from engine.storage.data_files import CsvRow
from engine.task import Task
from engine.tasks.registry import task_named, task_of_own_data, task_of_row
from engine.tasks.rows import NEEDED_FIELDS, UnusableRowError, quoted, renamed, text_of


@dataclass(frozen=True)
class LoadedDataset:
    """The problems of a dataset.

    ``dropped`` has (row's id, reason code, sentence) of each unusable row. ``note`` says what was found out about rows
    that are read as a whole.
    """

    problems: list[Problem]
    dropped: list[tuple[str, str, str]] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True)
class RowLoading:
    """How the rows of a dataset are read; the arguments of :func:`load_dataset`."""

    task: Task | None
    fields: Mapping[str, str] | None
    compare_as: str | None
    max_problems: int | None
    row_read: Callable[[], object]

    def read_own(
        self,
        rows: Iterable[Any],
        name: str,
        source: str,
        class_names: Mapping[str, Sequence[str]] = MappingProxyType({}),
        notes: Sequence[str] = (),
    ) -> LoadedDataset:
        """Read rows of a user's file, which all of them together describe.

        Args:
            rows: of the file.
            name: for the ids of the problems.
            source: for messages.
            class_names: names of class ids, by column.
            notes: what was found out about the file.
        """
        everything: list[Any] = []
        failed: Iterable[Any] = ()
        try:
            for row in rows:
                everything.append(row)
        except InputError as error:  # raised when it is reached: max_problems may stop before
            failed = _failing(error)
        plan = _Plan(self, source, class_names)
        reader, said = plan.reader([row for row in everything if isinstance(row, Mapping)])
        loaded = self.read(itertools.chain(everything, failed), name, source, reader)
        if loaded.dropped:
            count, first = len(loaded.dropped), loaded.dropped[0][2]
            left_out = "row has no question or no right answer and is" if count == 1 else "rows have none and are"
            said.append(f"{count} {left_out} left out: {first}")
        is_cut = len(loaded.problems) == self.max_problems < len(everything) if self.max_problems else False
        if is_cut and len(loaded.problems) > 1 and len({problem.answer for problem in loaded.problems}) == 1:
            said.append(
                f"all {len(loaded.problems)} problems that were read have the same right answer, as the file is "
                "sorted: mix its lines, or read more of them (--max-problems)"
            )
        return replace(loaded, note="\n".join([*notes, *said]))

    def read(
        self, rows: Iterable[Any], name: str, source: str, reader: RowReader, dataset: Dataset | None = None
    ) -> LoadedDataset:
        """Read the rows of a source; ``dataset`` is None for a user's file."""
        drops = dataset is not None and dataset.drops_unusable_rows
        problems: dict[str, Problem] = {}
        lines: dict[str, int] = {}
        dropped: list[tuple[str, str, str]] = []
        for number, row in enumerate(rows, start=1):
            self.row_read()
            if row is None or (drops and not isinstance(row, Mapping)):
                continue
            line = row.line if isinstance(row, CsvRow) else number
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
                    raise _repeated_id(problem.id, lines[problem.id], where, drops)
            except EmptyRowError as error:
                dropped.append(("", "empty", error.what))
                continue
            except UnusableRowError as error:
                if not drops:
                    raise
                dropped.append((error.row_id, error.reason, error.what))
                continue
            problems[problem.id], lines[problem.id] = problem, line
            if len(problems) == self.max_problems:
                break
        if not problems and dropped and not drops:
            raise InputError(dropped[0][2], fix="Fill it in, or remove the row.")
        if not problems:
            of_which = "" if dataset is None else f" of {name}"
            described = "" if dataset is None else dataset.described
            needed = f"It needs rows of {described}." if described else NEEDED_FIELDS
            raise InputError(f"{source} holds no problem{of_which}", fix=needed)
        return LoadedDataset(list(problems.values()), dropped)


def _failing(error: InputError) -> Iterator[Any]:
    raise error
    yield


def row_reader(dataset_task: Task | None = None, dataset: Dataset | None = None) -> RowReader:
    """Reads rows by the task of each, or by the dataset's own reader."""

    def read(row: Mapping[str, Any], where: str) -> Problem | None:
        task = _task_of(row, where, dataset_task, None)
        if task is dataset_task and dataset is not None and dataset.read_row is not None:
            return dataset.read_row(row, where)
        return task.problem_from_row(row, where)

    return read


@dataclass(frozen=True)
class _Plan:
    """How the rows of a user's file become problems: rows of tasks that read described rows are described together."""

    loading: RowLoading
    source: str
    class_names: Mapping[str, Sequence[str]]

    def reader(self, rows: Sequence[Mapping[str, Any]]) -> tuple[RowReader, list[str]]:
        """What reads each row, and what to say about them."""
        own = self.loading.task
        open_rows = [row for row in rows if row.get("task") is None and (own is not None or task_of_row(row) is None)]
        found = None
        if open_rows and (own is None or isinstance(own, ReadsDescribedRows)):
            found = self._described(open_rows)
        says = self.loading.compare_as is not None or any(row.get("compare") is not None for row in open_rows)
        is_mathematics = found is not None and found.is_mathematics and not says
        chosen = own or task_of_own_data(is_mathematics=is_mathematics)
        descriptions: dict[str, Description] = {}
        said: list[str] = []
        for task, of_task in _by_task(rows, own, chosen):
            if isinstance(task, ReadsDescribedRows):
                is_same = found is not None and len(of_task) == len(open_rows)
                description = found if found is not None and is_same else self._described(of_task)
                descriptions[task.name] = description
                if all(row.get("task") is not None for row in of_task) and description.is_plain:
                    continue
                said += description.lines(
                    len(of_task), f"{task.name}, {task.comparison_in_words(description.how)}", is_chosen=own is None
                )
        return self._reader(chosen, descriptions), said

    def _described(self, rows: Sequence[Mapping[str, Any]]) -> Description:
        return describe(
            rows,
            where=self.source,
            fields=self.loading.fields,
            compare_as=self.loading.compare_as,
            class_names=self.class_names,
        )

    def _reader(self, chosen: Task, descriptions: Mapping[str, Description]) -> RowReader:
        fields, own = self.loading.fields, self.loading.task

        def read(row: Mapping[str, Any], where: str) -> Problem | None:
            task = _task_of(row, where, own, chosen)
            description = descriptions.get(task.name)
            if description is None or not isinstance(task, ReadsDescribedRows):
                return task.problem_from_row(renamed(row, fields, where), where)
            if not description.reads(row):
                description = describe([row], where=where, compare_as=self.loading.compare_as, by_name=True)
            plain_row, how = description.plain_row(row, where)
            return task.described_problem(plain_row, how, where)

        return read


def _by_task(
    rows: Iterable[Mapping[str, Any]], dataset_task: Task | None, chosen: Task | None
) -> list[tuple[Task, list[Mapping[str, Any]]]]:
    """The rows of each task. A row whose task is unknown is left out: it is refused when it is read."""
    groups: dict[str, tuple[Task, list[Mapping[str, Any]]]] = {}
    for row in rows:
        with contextlib.suppress(InputError):
            task = _task_of(row, "", dataset_task, chosen)
            groups.setdefault(task.name, (task, []))[1].append(row)
    return list(groups.values())


def _task_of(row: Mapping[str, Any], where: str, dataset_task: Task | None, chosen: Task | None) -> Task:
    """The task of a row: the one that it names, the dataset's, the one of its fields, or ``chosen``.

    In rows of other programs ``task`` may be a text that is no name.
    """
    if row.get("task") is None:
        return dataset_task or task_of_row(row) or chosen or task_named("")
    name = text_of(row, "task", where)
    try:
        return task_named(name)
    except InputError as error:
        is_own = dataset_task is not None and not row.keys().isdisjoint(dataset_task.row_fields)
        owner = dataset_task if is_own else task_of_row(row)
        if owner is None:
            raise InputError(f"{where}: field 'task': {error.what}", why=error.why, fix=error.fix) from None
        return owner


def _repeated_id(problem_id: str, first_line: int, where: str, drops: bool) -> InputError:
    if drops:
        return UnusableRowError("repeated_id", "an earlier row has the same id", problem_id)
    return InputError(
        f"{where}: field 'id': {quoted(problem_id)} is already on line {first_line}",
        fix="Give every problem a unique id, or omit all ids.",
    )
