"""Problems by dataset name or path: generated, from a local file, or from the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.dataset_rows import LoadedDataset, read_rows, row_reader
from engine.errors import InputError, MissingInputError
from engine.records import Problem
from engine.storage.data_folders import data_file, data_folders, more_folders
from engine.storage.json_lines import json_lines
from engine.task import Task
from engine.task_datasets import Dataset
from engine.tasks.registry import task_with_dataset
from engine.tasks.rows import NEEDED_FIELDS


def load_problems(
    name_or_path: str,
    *,
    max_problems: int | None = None,
    search: Sequence[Path] | None = None,
    task: Task | None = None,
    fields: Mapping[str, str] | None = None,
) -> list[Problem]:
    """The problems of a dataset. See :func:`load_dataset`, which has more options."""
    return load_dataset(name_or_path, max_problems=max_problems, search=search, task=task, fields=fields).problems


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
    reads_images: bool = False,
) -> LoadedDataset:
    """Load a dataset. Its tasks check that every problem can be scored.

    A text with a slash, or one that ends as a data file does, is a path, or ``owner/name:split?config=NAME`` of the
    Hugging Face hub, where split and configuration may be left out. Any other text is a name: that of a task's dataset
    (``aime2024``, ``quickstart:test``), or the stem of a ``.jsonl`` file in the data folders. Datasets that are neither
    generated nor in a data folder come from the hub, if the ``datasets`` package is installed.

    A path may be a folder with the splits of a dataset, as ``FOLDER:test``, or a folder with a ``grpo_dataset.json``,
    or with folders that have one.

    A file has rows in any usual form: JSON, a table, parquet. A ``.jsonl`` file of a task's dataset has one JSON object
    per line. The task of a row is the one of its ``task`` field, else the one of the dataset, else the one that
    recognises its fields. The other rows are described together: which column is the question and which the answer,
    and how answers are compared. They are of the task ``math`` if their answers are formulas, else of ``answers``.
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
        reads_images: whether prompts show the images of a user's rows; else their columns are as any others.

    Returns:
        the problems in the order of the file; at least one.

    Raises:
        MissingInputError: there is no such file, and the hub does not provide it.
        InputError: an unknown name, an empty file, or a row that is not a problem (file, line and field are named).
    """
    if max_problems is not None and max_problems < 1:
        raise InputError(f"max_problems is {max_problems}", fix="Give 1 or more, or leave it out for all.")
    folders = data_folders() if search is None else search
    owner = task_with_dataset(name_or_path)
    if owner is None:
        from engine.own_datasets import OwnDatasets  # 2,000 lines about forms of files and columns

        return OwnDatasets(task, fields, columns, compare_as, max_problems, row_read, reads_images).load(
            name_or_path, folders
        )
    dataset = owner.dataset(name_or_path)
    if dataset.generate is not None:
        if task is not None and task is not owner:
            raise InputError(f"The dataset {name_or_path} belongs to the task {owner.name}, not to {task.name}")
        return LoadedDataset(dataset.generate(max_problems))
    source, rows = _rows_of(dataset, name_or_path, folders)
    reader = row_reader(owner, dataset) if task in (None, owner) else row_reader(task)
    return read_rows(
        enumerate(rows, start=1),
        name_or_path,
        source,
        reader,
        max_problems=max_problems,
        row_read=row_read,
        dataset=dataset,
    )


def _rows_of(dataset: Dataset, name: str, folders: Sequence[Path]) -> tuple[str, Iterable[Any]]:
    """The source of a dataset, for messages, and its rows."""
    file = data_file(dataset.files, folders)
    if file is not None and file.suffix == ".jsonl":
        return str(file), json_lines(file.open("rb"), file)
    if file is not None:  # published as one JSON array
        from engine.storage.data_files import file_rows  # with all forms of files

        return str(file), file_rows(file, needed=NEEDED_FIELDS)
    places = " or ".join(str(folder / dataset.files[0]) for folder in folders) or dataset.files[0]
    what = f"Dataset {name} is not on this machine"
    fix = f"Put it at {places}{more_folders()}, one JSON object per line."
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
    from engine.storage.hub import load_from_hub  # with the forms of files

    try:
        rows = load_from_hub(dataset.hub.arguments, dataset.hub.options, what, fix, dataset.hub.repository)
    except MissingInputError as error:
        raise MissingInputError(what, why="; ".join(filter(None, (not_on_web, error.why))), fix=error.fix) from error
    if not dataset.hub.has_own_ids:
        rows = (_without_id(row) for row in rows)
    return f"{dataset.hub.repository} (Hugging Face hub)", rows


def _without_id(row: Mapping[str, Any]) -> dict[str, Any]:
    fields = {key: value for key, value in row.items() if key != "id"}
    return {**fields, "source_id": row["id"]} if "id" in row else fields
