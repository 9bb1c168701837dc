"""Problems by dataset name or path: generated, from a local file, or from the Hugging Face hub."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.abilities import ReadsWholeDatasets, RowReader
from engine.contract.datasets import Dataset
from engine.contract.families import ProblemFamilies
from engine.errors import InputError, MissingInputError
from engine.records import Problem
from engine.storage.data_files import MAX_LINE_BYTES, SUFFIXES, CsvRow, file_rows
from engine.storage.hub import hub_name, load_from_hub, rows_of_hub
from engine.storage.shipped_files import shipped_file
from engine.task import Task
from engine.tasks.registry import dataset_names, task_named, task_of_row, task_of_rows, task_with_dataset
from engine.tasks.rows import NEEDED_FIELDS, UnusableRowError, quoted, renamed_field, text_of

FOLDER_FILE = "grpo_dataset.json"
"""The file that is read of each folder below a dataset that is a folder."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_LOOKED_AT = 2000
"""Rows of a user's file that decide how it is read."""


@dataclass(frozen=True)
class LoadedDataset:
    """The problems of a dataset.

    ``dropped`` has (row's id, reason code, sentence) of each unusable row. ``note`` says what was found out about rows
    that are read as a whole.
    """

    problems: list[Problem]
    dropped: list[tuple[str, str, str]] = field(default_factory=list)
    note: str = ""


def load_problems(
    name_or_path: str,
    *,
    max_problems: int | None = None,
    search: Sequence[Path] | None = None,
    task: Task | None = None,
    fields: Mapping[str, str] | None = None,
    compare_as: str | None = None,
) -> list[Problem]:
    """The problems of a dataset. See :func:`load_dataset`."""
    return load_dataset(
        name_or_path, max_problems=max_problems, search=search, task=task, fields=fields, compare_as=compare_as
    ).problems


def load_dataset(
    name_or_path: str,
    *,
    max_problems: int | None = None,
    search: Sequence[Path] | None = None,
    task: Task | None = None,
    fields: Mapping[str, str] | None = None,
    compare_as: str | None = None,
    row_read: Callable[[], object] = lambda: None,
) -> LoadedDataset:
    """Load a dataset. Its tasks check that every problem can be scored.

    A text with a slash, or one that ends as a data file does, is a path, or ``owner/name:split?config=NAME`` of the
    Hugging Face hub, where split and configuration may be left out. Any other text is a name: that of a task's dataset
    (``aime2024``, ``quickstart:test``), or the stem of a ``.jsonl`` file in the data folders. Datasets that are neither
    generated nor in a data folder come from the hub, if the ``datasets`` package is installed.

    A path may be a folder: its own ``grpo_dataset.json``, or those of the folders in it, in the order of their names.

    A line of a file is one JSON object in UTF-8; a file may also be one JSON array, CSV or parquet. The task of a row
    is the one of its ``task`` field, else the one of the dataset, else the one that recognises its fields. Rows of
    which none holds are of the task ``math`` if the answers of the first rows are numbers or formulas, else of
    ``answers``. How rows of ``answers`` are compared is found out from all of them.
    Rows without ``id`` are numbered: ``<name>_001``.

    Args:
        name_or_path: the dataset.
        max_problems: stop after this many problems; None for all.
        search: data folders; None: ``data/datasets``, the datasets of the package, then ``$SCAFFOLD_DATA``.
        task: the task of rows that name none, in place of the dataset's own; None for the dataset's own.
        fields: field that the task reads -> field of the row that it is taken from.
        compare_as: how answers are compared, for tasks that find it out from the rows.
        row_read: called for each row.

    Returns:
        the problems in the order of the file; at least one.

    Raises:
        MissingInputError: there is no such file, and the hub does not provide it.
        InputError: an unknown name, an empty file, or a row that is not a problem (file, line and field are named).
    """
    if max_problems is not None and max_problems < 1:
        raise InputError(f"max_problems is {max_problems}", fix="Give 1 or more, or leave it out for all.")
    folders = _default_folders() if search is None else search
    loading = _Loading(task, fields, compare_as, max_problems, row_read)
    if _is_path(name_or_path):
        path = Path(name_or_path).expanduser()
        on_hub = hub_name(name_or_path)
        if on_hub is not None:
            source, rows = rows_of_hub(on_hub)
            return loading.read_own(rows, on_hub.repository.rpartition("/")[2], source)
        if path.is_dir():
            return loading.read_folder(path)
        named = None if task is not None else _reader_of_path(path)
        if named is not None:
            return loading.read(_file_rows(path), path.stem, str(path), named)
        return loading.read_own(_file_rows(path), path.stem, str(path))
    owner = task_with_dataset(name_or_path)
    if owner is None:
        found = _find([f"{name_or_path}.jsonl"], folders) if _PLAIN_NAME.fullmatch(name_or_path) else None
        if found is None:
            raise _unknown_name(name_or_path, folders)
        return loading.read_own(_file_rows(found), name_or_path, str(found))
    dataset = owner.dataset(name_or_path)
    if dataset.generate is not None:
        if task is not None and task is not owner:
            raise InputError(f"The dataset {name_or_path} belongs to the task {owner.name}, not to {task.name}")
        return LoadedDataset(dataset.generate(max_problems))
    source, rows = _rows_of(dataset, name_or_path, folders)
    reader = _row_reader(owner, dataset) if task in (None, owner) else _row_reader(task)
    return loading.read(rows, name_or_path, source, reader, dataset)


def problem_families(name: str) -> ProblemFamilies:
    """The families of a generated dataset, for a corpus of right and mistaken solutions.

    Raises:
        InputError: there is no such dataset, or it has no families.
    """
    owner = task_with_dataset(name)
    if owner is None:
        raise _unknown_name(name, _default_folders())
    families = owner.dataset(name).families
    if families is None:
        raise InputError(f"The dataset {name} has no families of problems with known solutions")
    return families


def _rows_of(dataset: Dataset, name: str, folders: Sequence[Path]) -> tuple[str, Iterable[Any]]:
    """The source of a dataset, for messages, and its rows."""
    found = _find(dataset.files, folders)
    if found is not None:
        return str(found), _file_rows(found, dataset.max_line_bytes or MAX_LINE_BYTES)
    places = " or ".join(str(folder / dataset.files[0]) for folder in folders) or dataset.files[0]
    what = f"Dataset {name} is not on this machine"
    fix = f"Put it at {places}{_more_places()}, one JSON object per line."
    if dataset.read_row is None or not dataset.drops_unusable_rows:
        fix += f" {NEEDED_FIELDS}"
    not_on_web = ""
    if dataset.web is not None:
        from engine.storage.web_rows import rows_from_web  # loads httpx, which other datasets do not need

        try:
            fetched = rows_from_web(name, dataset.web.url, dataset.web.revision, dataset.web.fault)
            return dataset.web.url, map(_without_id, fetched)
        except MissingInputError as error:
            not_on_web = f"{error.what}: {error.why.rstrip('.')}"
    if dataset.hub is None:
        raise MissingInputError(what, why=not_on_web, fix=fix)
    try:
        rows = load_from_hub(dataset.hub.arguments, dataset.hub.options, what, fix, dataset.hub.repository)
    except MissingInputError as error:
        raise MissingInputError(what, why="; ".join(filter(None, (not_on_web, error.why))), fix=error.fix) from error
    if not dataset.hub.has_own_ids:
        rows = (_without_id(row) for row in rows)
    return f"{dataset.hub.repository} (Hugging Face hub)", rows


def _is_path(name: str) -> bool:
    place = name.partition("?")[0]
    return "/" in place or os.sep in place or place.endswith(SUFFIXES)


def _default_folders() -> list[Path]:
    extra = os.environ.get("SCAFFOLD_DATA")
    folders = [Path.cwd() / "data/datasets", shipped_file("datasets"), *([Path(extra).expanduser()] if extra else [])]
    return list(dict.fromkeys(folders))


def _more_places() -> str:
    """For messages that name the data folders: the variable that adds one."""
    return "" if os.environ.get("SCAFFOLD_DATA") else " (or in a folder that $SCAFFOLD_DATA names)"


def _find(files: Iterable[str], folders: Iterable[Path]) -> Path | None:
    return next((path for folder in folders for file in files if (path := folder / file).is_file()), None)


def _unknown_name(name: str, folders: Iterable[Path]) -> InputError:
    names = sorted({*dataset_names(), *(path.stem for folder in folders for path in folder.glob("*.jsonl"))})
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    if _PLAIN_NAME.fullmatch(name) and Path(name).exists():
        guess = f"To read {name} of this folder, write ./{name}. "
    return InputError(
        f"Unknown dataset: {name!r}",
        why=f"Known: {', '.join(names)}. Files are looked up in {', '.join(map(str, folders))}{_more_places()}.",
        fix=f"{guess}Give the path of a file (x.jsonl, x.csv, x.parquet), or owner/name of the Hugging Face hub.",
    )


def _without_id(row: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in row.items() if key != "id"}
    return {**rest, "source_id": row["id"]} if "id" in row else rest


def _file_rows(path: Path, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[Any]:
    return file_rows(path, max_line_bytes, needed=NEEDED_FIELDS)


@dataclass(frozen=True)
class _Loading:
    """How the rows of a dataset are read; the arguments of :func:`load_dataset`."""

    task: Task | None
    fields: Mapping[str, str] | None
    compare_as: str | None
    max_problems: int | None
    row_read: Callable[[], object]

    def read_own(self, rows: Iterable[Any], name: str, source: str) -> LoadedDataset:
        """Read rows of a user's file. What names no task is read as the first rows together suggest."""
        arriving, first, failed = iter(rows), [], None
        try:
            for row in itertools.islice(arriving, _LOOKED_AT):
                first.append(row)
        except InputError as error:  # raised when it is reached: max_problems may stop before
            failed = error
        renamed = [_renamed(row, self.fields, source) for row in first if isinstance(row, Mapping)]
        open_rows = [
            row for row in renamed if row.get("task") is None and (self.task is not None or task_of_row(row) is None)
        ]
        chosen = self.task or (task_of_rows(open_rows) if open_rows else None)
        more = "+" if len(first) == _LOOKED_AT else ""
        readers, notes = {}, []
        for task, rows_of_task in _by_task(renamed, self.task, chosen):
            if isinstance(task, ReadsWholeDatasets):
                readers[task.name], found = task.reader(rows_of_task, self.compare_as)
                notes.append(f"{len(rows_of_task)}{more} rows are read as {task.name}, {found}")
        everything = itertools.chain(first, arriving if failed is None else _failing(failed))
        reader = _row_reader(self.task, chosen=chosen, readers=readers)
        return replace(self.read(everything, name, source, reader), note="; ".join(notes))

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
                problem = reader(_renamed(row, self.fields, where), where)
                if problem is None:
                    continue
                if not problem.id:
                    problem = problem.model_copy(update={"id": f"{name}_{len(problems) + 1:03d}"})
                if problem.id in problems:
                    raise _repeated_id(problem.id, lines[problem.id], where, drops)
            except UnusableRowError as error:
                if not drops:
                    raise
                dropped.append((error.row_id, error.reason, error.what))
                continue
            problems[problem.id], lines[problem.id] = problem, line
            if len(problems) == self.max_problems:
                break
        if not problems:
            of_which = "" if dataset is None else f" of {name}"
            described = "" if dataset is None else dataset.described
            needed = f"It needs rows of {described}." if described else NEEDED_FIELDS
            raise InputError(f"{source} holds no problem{of_which}", fix=needed)
        return LoadedDataset(list(problems.values()), dropped)

    def read_folder(self, folder: Path) -> LoadedDataset:
        """Read the datasets of a folder as one."""
        files = [folder / FOLDER_FILE] if (folder / FOLDER_FILE).is_file() else sorted(folder.glob(f"*/{FOLDER_FILE}"))
        if not files:
            raise InputError(
                f"Cannot read {folder}: it is a folder without datasets",
                why=f"There is no {FOLDER_FILE} in it, nor in a folder in it.",
                fix="Give a file, or the folder that holds them.",
            )
        problems: dict[str, Problem] = {}
        for file in files:
            left = None if self.max_problems is None else self.max_problems - len(problems)
            if left == 0:
                break
            part = replace(self, max_problems=left).read(
                _file_rows(file), file.parent.name, str(file), _row_reader(self.task)
            )
            for problem in part.problems:
                if problem.id in problems:
                    raise InputError(f"{file}: the id {quoted(problem.id)} is in an earlier file of {folder} too")
                problems[problem.id] = problem
        return LoadedDataset(list(problems.values()))


def _failing(error: InputError) -> Iterator[Any]:
    raise error
    yield


def _reader_of_path(path: Path) -> RowReader | None:
    """The reader of a file that is named as a task's dataset, which is read as that dataset; else None."""
    task = task_with_dataset(path.stem)
    dataset = task.dataset(path.stem) if task is not None else None
    if task is not None and dataset is not None and dataset.files == (path.name,):
        return _row_reader(task, dataset)
    return None


def _row_reader(
    dataset_task: Task | None = None,
    dataset: Dataset | None = None,
    *,
    chosen: Task | None = None,
    readers: Mapping[str, RowReader] = MappingProxyType({}),
) -> RowReader:
    """Reads rows by the task of each, or by the dataset's own reader.

    ``chosen`` is the task of rows that name none, and ``readers`` has those of tasks that read a dataset as a whole.
    """

    def read(row: Mapping[str, Any], where: str) -> Problem | None:
        task = _task_of(row, where, dataset_task, chosen)
        if task is dataset_task and dataset is not None and dataset.read_row is not None:
            return dataset.read_row(row, where)
        return readers.get(task.name, task.problem_from_row)(row, where)

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


def _renamed(row: Mapping[str, Any], fields: Mapping[str, str] | None, where: str) -> Mapping[str, Any]:
    if not fields:
        return row
    moved = {name: renamed_field(row, source, where) for name, source in fields.items()}
    return {name: value for name, value in row.items() if name not in fields.values()} | moved


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
