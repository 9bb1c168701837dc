"""Rows of data files: JSON, tables and parquet, known by their content."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.storage.json_forms import SPLITS, names_are_there
from engine.storage.json_rows import begins_as_json, json_rows
from engine.storage.parquet_rows import ARROW, parquet_rows
from engine.storage.promptfoo import promptfoo_rows
from engine.storage.source_files import SourceFile, file_errors
from engine.storage.table_rows import CsvRow, Table

__all__ = ["SUFFIXES", "CsvRow", "DataFile", "file_rows", "open_data_file", "split_files"]

_FORMS = (".jsonl", ".json", ".csv", ".tsv", ".txt", ".parquet", ARROW)
_YAML = (".yaml", ".yml")
SUFFIXES = (*_FORMS, *(f"{form}.gz" for form in _FORMS), *_YAML)
"""What names of data files end in. A file of another name is read, too: its content says what it is."""

_JSON = (".jsonl", ".json")
_TABLES = (".csv", ".tsv")
_LIKELY = 0.7
"""Share of lines with the same number of fields that makes a file of another name a table."""

_SHARD = re.compile(r"-(\d{5})-of-(\d{5})")
_SPLIT_NAME = re.compile(rf"(?:.*[._-])?({'|'.join(SPLITS)})(?:[._-].*)?", re.IGNORECASE)


@dataclass(frozen=True)
class DataFile:
    """A file of rows.

    Args:
        rows: mappings, which are :class:`CsvRow` of a table; None for a blank line of JSONL.
        notes: what was found out about the file, for the screen.
        class_names: column -> names of the classes whose numbers it has, where the file has them.
    """

    rows: Iterator[Any]
    notes: tuple[str, ...] = ()
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def open_data_file(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    numbered: bool = False,
    split: str | None = None,
    needed: str = "",
    images: bool = False,
) -> DataFile:
    """Open a file of rows in any of the usual forms. Its content decides, not its name.

    Rows of JSONL, tables and parquet are read as they are taken; one JSON document is read as a whole.

    Args:
        path: the file; gzip is unpacked.
        columns: names of the columns of a table, or of JSON lists, without names.
        numbered: the table has no names; its columns are 1, 2, ...
        split: which list of rows of a JSON document is read.
        needed: what a row needs, for the message about a missing file.
        images: whether rows of parquet keep the bytes of images.

    Raises:
        MissingInputError: there is no such file.
        InputError: it cannot be read, or has no rows; ``rows`` raises it for a faulty line, which it names.
        ConfigurationError: it is a parquet or Arrow file and pyarrow is not installed.
    """
    with file_errors(path, needed):
        source = SourceFile(path)
        if source.begin.startswith(b"PAR1") or source.suffix in (".parquet", ARROW):
            rows, notes, class_names = parquet_rows(source, images=images)
            if columns is not None:
                raise names_are_there(path)
            return DataFile(_guarded(rows, path), (*_shard(path), *notes), class_names)
        source.refuse_foreign()
        if source.suffix in _YAML:
            rows, test_notes = promptfoo_rows(path.read_text(encoding="utf-8-sig"), path)
            return DataFile(rows, tuple(test_notes))
        table = _table(source, must=columns is not None or numbered)
        if table is not None:
            rows, notes = table.rows(columns, numbered)
        else:
            rows, notes = json_rows(source, split, columns)
        return DataFile(_guarded(rows, path), (*_shard(path), *notes))


def file_rows(path: Path, *, needed: str = "") -> Iterator[Any]:
    """The rows of a file. See :func:`open_data_file`; errors come with the first row."""
    yield from open_data_file(path, needed=needed).rows


def split_files(folder: Path) -> dict[str, Path]:
    """The files of a folder that are splits of a dataset: ``train.jsonl``, ``data/test-00000-of-00001.parquet``.

    Or one that ``datasets`` has saved: ``train/data-00000-of-00001.arrow``, and without splits that file in the folder.

    Returns:
        name of the split (``train``, ``test`` or ``validation``) -> its file, the first of numbered parts.

    Raises:
        InputError: several files are the same split.
    """
    if saved := sorted(folder.glob(f"data-*{ARROW}")):
        return {SPLITS["train"]: saved[0]}
    for parent in (folder, folder / "data"):
        splits: dict[str, dict[str, list[Path]]] = {}
        for path in sorted([*parent.glob("*"), *parent.glob(f"*/data-*{ARROW}")]):
            stem = path.parent.name if path.suffix == ARROW else path.name[: -len(_suffix(path) or path.name)]
            named = _SPLIT_NAME.fullmatch(_SHARD.sub("", stem))
            if named and path.is_file():
                split = SPLITS[named[1].lower()]
                splits.setdefault(split, {}).setdefault(_SHARD.sub("", stem).lower(), []).append(path)
        if splits:
            return {split: _one_file(split, stems, parent) for split, stems in splits.items()}
    return {}


def _suffix(path: Path) -> str:
    return next((suffix for suffix in sorted(SUFFIXES, key=len, reverse=True) if path.name.endswith(suffix)), "")


def _one_file(split: str, stems: Mapping[str, list[Path]], folder: Path) -> Path:
    exact = [stem for stem in stems if stem in SPLITS]
    if len(stems) == 1 or len(exact) == 1:
        return stems[exact[0] if exact else next(iter(stems))][0]
    names = ", ".join(path.name for files in stems.values() for path in files)
    raise InputError(f"{folder} has several files of the split {split}: {names}", fix="Give the path of one of them.")


def _table(source: SourceFile, *, must: bool) -> Table | None:
    """The file as a table; None for JSON.

    Raises:
        InputError: it is neither.
    """
    begin = source.begin.decode(source.marked, "ignore").encode() if source.marked else source.begin
    if begins_as_json(begin):
        return None
    try:
        table = Table(source)
    except InputError:
        if source.suffix in _JSON:  # its own error names the line
            return None
        raise
    if table.likely > _LIKELY or (source.suffix not in _JSON and (must or source.suffix in _TABLES or table.is_empty)):
        return table
    if source.suffix in _JSON:
        return None
    raise InputError(
        f"{source.path} is neither JSON nor a table",
        why="Its lines have no equal number of commas, semicolons, tabs or vertical bars.",
        fix="Give JSONL, with one object per line, or a table whose first line names its columns.",
    )


def _shard(path: Path) -> list[str]:
    shard = _SHARD.search(path.name)
    return [f"part {int(shard[1]) + 1} of {int(shard[2])}"] if shard and int(shard[2]) > 1 else []


def _guarded(rows: Iterator[Any], path: Path) -> Iterator[Any]:
    with file_errors(path):
        yield from rows
