"""Rows of parquet and Arrow files and of ``datasets``, with the values that JSON has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from typing import Any

from engine.errors import ConfigurationError, InputError, first_line
from engine.records import IMAGE_COLUMN
from engine.storage.installation import install_command
from engine.storage.source_files import SourceFile

_INDEX = re.compile(r"__index_level_\d+__")
_BATCH = 1000
ARROW = ".arrow"
"""The suffix of the files that ``datasets`` writes with ``save_to_disk``: streams of Arrow."""

Row = dict[str, Any]
ClassNames = dict[str, tuple[str, ...]]
"""Of each column with numbers of classes: their names, in the order of the numbers."""


def parquet_rows(source: SourceFile, *, images: bool = False) -> tuple[Iterator[Row], list[str], ClassNames]:
    """The rows of a file, notes for the screen, and the names of its classes.

    Args:
        source: the file; parquet, or with the suffix :data:`ARROW` a stream of Arrow.
        images: as :func:`plain_row`.

    Raises:
        InputError: it is damaged.
        ConfigurationError: pyarrow is not installed.
    """
    try:
        from pyarrow import ArrowException, ipc, parquet  # optional, and slow to import
    except ImportError as error:
        raise ConfigurationError(
            f"{source.path} is a parquet or Arrow file, and pyarrow is not installed", fix=install_command("datasets")
        ) from error

    def read() -> Iterator[Any]:
        """The metadata of the schema, then lists of rows."""
        try:
            with source.open() as handle:
                if is_arrow:
                    batches = ipc.open_stream(handle)
                    yield batches.schema.metadata or {}
                else:
                    file = parquet.ParquetFile(handle)
                    yield file.schema_arrow.metadata or {}
                    batches = file.iter_batches(batch_size=_BATCH)
                for batch in batches:
                    yield batch.to_pylist()
        except (ArrowException, ValueError, OverflowError, OSError) as error:
            what = f"{source.path} is not {'an Arrow' if is_arrow else 'a parquet'} file, or a damaged one"
            raise InputError(what, why=first_line(error)[:200]) from error

    batches, is_arrow = read(), source.suffix == ARROW
    metadata, first = next(batches), next(batches, ())
    left_out = [name for name in (first[0] if first else ()) if any(_is_binary(row[name]) for row in first)]
    notes = [f"{', '.join(left_out)}: left out, as they are bytes"] if left_out else []
    return (
        (plain_row(row, images=images) for batch in chain([first], batches) for row in batch),
        notes,
        _class_names_in(metadata),
    )


def plain_row(row: Mapping[str, Any], *, images: bool = False) -> Row:
    """A row with texts, numbers, lists and objects only. Bytes are left out, and so is the index of pandas.

    Args:
        row: of a file.
        images: whether columns of images keep what ``datasets`` stores in them: ``{"bytes": ..., "path": ...}``.
    """
    return {
        name: value if images and IMAGE_COLUMN.fullmatch(name) and _are_images(value) else _plain(value)
        for name, value in row.items()
        if not _is_binary(value) and not _INDEX.fullmatch(name)
    }


def _are_images(value: Any) -> bool:
    images = value if isinstance(value, list) else [value]
    return any(isinstance(image, Mapping) and isinstance(image.get("bytes"), bytes) for image in images)


def _plain(value: Any) -> Any:
    """Dates and times as ISO text, decimals as their digits."""
    if isinstance(value, Mapping):
        return {str(name): _plain(field) for name, field in value.items() if not _is_binary(field)}
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value if not _is_binary(element)]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if value == value else None  # not a number: an empty cell of a table
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime) and value.tzinfo is None and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    item = getattr(value, "item", None)  # a number of NumPy
    return _plain(item()) if item is not None else str(value)


def _is_binary(value: Any) -> bool:
    """Whether a value is bytes that are no text. Some programs write texts as bytes."""
    if not isinstance(value, bytes):
        return False
    try:
        return b"\0" in value or not value.decode()
    except UnicodeDecodeError:
        return True


def _class_names_in(metadata: Mapping[bytes, bytes]) -> ClassNames:
    """The names that ``datasets`` writes into the schema of a file."""
    try:
        return class_names(json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def class_names(features: Mapping[str, Any]) -> ClassNames:
    """The names of the classes in ``datasets.Features.to_dict()``."""
    inner = {name: feature.get("feature", feature) for name, feature in features.items()}  # of a list: its items
    classes = {name: feature["names"] for name, feature in inner.items() if feature.get("_type") == "ClassLabel"}
    return {name: tuple(map(str, names)) for name, names in classes.items() if isinstance(names, list)}
