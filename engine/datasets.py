"""Problems by dataset name or path: generated, from a local file, or from the Hugging Face hub."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.abilities import RowReader
from engine.contract.datasets import Dataset
from engine.dataset_rows import LoadedDataset, RowLoading, row_reader
from engine.errors import InputError, MissingInputError
from engine.own_data.columns import as_template, names_in
from engine.records import Problem
from engine.storage.data_files import MAX_LINE_BYTES, SUFFIXES, file_rows, open_data_file, split_files
from engine.storage.hub import hub_name, load_from_hub, rows_of_hub
from engine.storage.shipped_files import shipped_file
from engine.task import Task
from engine.tasks.registry import dataset_names, task_with_dataset
from engine.tasks.rows import NEEDED_FIELDS, quoted

FOLDER_FILE = "grpo_dataset.json"
"""The file that is read of each folder below a dataset that is a folder."""

_USUAL_SPLIT = "train"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def load_problems(
    name_or_path: str,
    *,
    max_problems: int | None = None,
    search: Sequence[Path] | None = None,
    task: Task | None = None,
    fields: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
    compare_as: str | None = None,
) -> list[Problem]:
    """The problems of a dataset. See :func:`load_dataset`."""
    return load_dataset(
        name_or_path,
        max_problems=max_problems,
        search=search,
        task=task,
        fields=fields,
        columns=columns,
        compare_as=compare_as,
    ).problems


def load_dataset(
    name_or_path: str,
    *,
    max_problems: int | None = None,
    search: Sequence[Path] | None = None,
    task: Task | None = None,
    fields: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
    compare_as: str | None = None,
    row_read: Callable[[], object] = lambda: None,
) -> LoadedDataset:
    """Load a dataset. Its tasks check that every problem can be scored.

    A text with a slash, or one that ends as a data file does, is a path, or ``owner/name:split?config=NAME`` of the
    Hugging Face hub, where split and configuration may be left out. Any other text is a name: that of a task's dataset
    (``aime2024``, ``quickstart:test``), or the stem of a ``.jsonl`` file in the data folders. Datasets that are neither
    generated nor in a data folder come from the hub, if the ``datasets`` package is installed.

    A path may be a folder with the splits of a dataset, as ``FOLDER:test``, or a folder with a ``grpo_dataset.json``,
    or with folders that have one.

    A file has rows in any usual form: JSON, a table, parquet. The task of a row is the one of its ``task`` field, else
    the one of the dataset, else the one that recognises its fields. The other rows are described together: which
    column is the question and which the answer, and how answers are compared. They are of the task ``math`` if their
    answers are formulas, else of ``answers``.
    Rows without ``id`` are numbered: ``<name>_001``.

    Args:
        name_or_path: the dataset.
        max_problems: stop after this many problems; None for all.
        search: data folders; None: ``data/datasets``, the datasets of the package, then ``$SCAFFOLD_DATA``.
        task: the task of rows that name none, in place of the dataset's own; None for the dataset's own.
        fields: field that the task reads -> column that it is taken from, or a template of columns.
        columns: the names of the columns of a table without names.
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
    loading = RowLoading(task, fields, compare_as, max_problems, row_read)
    if _is_path(name_or_path):
        on_hub = hub_name(name_or_path) if _local(name_or_path) is None else None
        if on_hub is not None:
            source, rows, class_names = rows_of_hub(on_hub)
            return loading.read_own(rows, on_hub.repository.rpartition("/")[2], source, class_names)
        return _read_path(loading, name_or_path, columns)
    owner = task_with_dataset(name_or_path)
    if owner is None:
        found = _find([f"{name_or_path}.jsonl"], folders) if _PLAIN_NAME.fullmatch(name_or_path) else None
        if found is None:
            raise _unknown_name(name_or_path, folders)
        return _read_file(loading, found, name_or_path, columns)
    dataset = owner.dataset(name_or_path)
    if dataset.generate is not None:
        if task is not None and task is not owner:
            raise InputError(f"The dataset {name_or_path} belongs to the task {owner.name}, not to {task.name}")
        return LoadedDataset(dataset.generate(max_problems))
    source, rows = _rows_of(dataset, name_or_path, folders)
    reader = row_reader(owner, dataset) if task in (None, owner) else row_reader(task)
    return loading.read(rows, name_or_path, source, reader, dataset)


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
    return "/" in place or os.sep in place or place.endswith(SUFFIXES) or _local(name) is not None


def _local(name: str) -> tuple[Path, str | None] | None:
    """The file or folder of a name, and the split after its colon; None if it is none of this machine."""
    path = Path(name).expanduser()
    if path.exists() and (path.suffix or os.sep in name):
        return path, None
    place, colon, split = name.rpartition(":")
    below = Path(place).expanduser()
    return (below, split) if colon and below.exists() and (below.suffix or os.sep in place) else None


def _read_path(loading: RowLoading, name: str, columns: Sequence[str] | None) -> LoadedDataset:
    """The dataset of a file or a folder."""
    path, split = _local(name) or (Path(name).expanduser(), None)
    if not path.is_dir():
        named = None if loading.task is not None else _reader_of_path(path)
        if named is not None:
            return loading.read(_file_rows(path), path.stem, str(path), named)
        return _read_file(loading, path, path.name.partition(".")[0], columns, split)
    splits = {} if (path / FOLDER_FILE).is_file() else split_files(path)
    if not splits and split is None:
        return _read_folder(loading, path)
    chosen = split or (_USUAL_SPLIT if _USUAL_SPLIT in splits else next(iter(splits)))
    if chosen not in splits:
        named_splits = ", ".join(splits) or "none"
        raise InputError(f"{path} has no split {chosen!r}", why=f"Its splits: {named_splits}.")
    others = ", ".join(f"{path}:{one}" for one in splits if one != chosen)
    note = f"read {splits[chosen].name}, the split {chosen} of {path}" + (f"; others: {others}" if others else "")
    return _read_file(loading, splits[chosen], path.name, columns, None, [note])


def _read_file(
    loading: RowLoading,
    path: Path,
    name: str,
    columns: Sequence[str] | None,
    split: str | None = None,
    notes: Sequence[str] = (),
) -> LoadedDataset:
    """The dataset of a file; its columns are numbers if ``fields`` names numbers."""
    sources = [name for source in (loading.fields or {}).values() for name in names_in(as_template(source))]
    numbered = columns is None and bool(sources) and all(source.isdigit() for source in sources)
    file = open_data_file(path, columns=columns, numbered=numbered, split=split, needed=NEEDED_FIELDS)
    return loading.read_own(file.rows, name, str(path), file.class_names, [*notes, *file.notes])


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


def _read_folder(loading: RowLoading, folder: Path) -> LoadedDataset:
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
        left = None if loading.max_problems is None else loading.max_problems - len(problems)
        if left == 0:
            break
        part = replace(loading, max_problems=left).read(
            _file_rows(file), file.parent.name, str(file), row_reader(loading.task)
        )
        for problem in part.problems:
            if problem.id in problems:
                raise InputError(f"{file}: the id {quoted(problem.id)} is in an earlier file of {folder} too")
            problems[problem.id] = problem
    return LoadedDataset(list(problems.values()))


def _reader_of_path(path: Path) -> RowReader | None:
    """The reader of a file that is named as a task's dataset, which is read as that dataset; else None."""
    task = task_with_dataset(path.stem)
    dataset = task.dataset(path.stem) if task is not None else None
    if task is not None and dataset is not None and dataset.files == (path.name,):
        return row_reader(task, dataset)
    return None
