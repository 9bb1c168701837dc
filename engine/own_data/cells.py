"""The values of rows: nested ones by dotted names, as text, filled or empty."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from engine.errors import InputError, quoted
from engine.reading.python_syntax import literal

_KEPT_WHOLE = re.compile(
    r"choices|options|endings|alternatives|candidates|targetscores|mc\dtargets|messages|conversations|tests?|meta"
    r"|(?:correct|gold|best|final)?answers?(?:spans?|key)?|targets?|output|labels?|expected\w*|groundtruth|table|contexts?"
    r"|(?:decoded)?images?\d*|idx"
)
"""Columns whose objects have a meaning as a whole."""
_ARRAY = re.compile(r"array\((\[[^\[\]]*\])(?:,\s*dtype=[^()]*)?\)")
_BESIDE = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?=\s+['"])""")
"""A text before another one, without a comma."""
_MAX_DEPTH = 4
_CELL = 80
"""Characters of the longest cell of a table."""


def plain_name(name: str) -> str:
    """The last part of a column's name, and not ``value``, without case, spaces, ``_`` and ``-``."""
    return re.sub(r"[\s_-]+", "", name.removesuffix(".value").rpartition(".")[2]).casefold()


def cells(row: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """The columns of a row. An object becomes columns with dotted names, unless it has a meaning as a whole."""
    columns: dict[str, Any] = {}
    for name, value in row.items():
        column = f"{prefix}{name}"
        value = _object_in(name, value)
        is_object = isinstance(value, Mapping) and value and depth < _MAX_DEPTH
        if is_object and not _KEPT_WHOLE.fullmatch(plain_name(column)):
            columns |= cells(value, f"{column}.", depth + 1)
        else:
            columns[column] = value
    return columns


def value_of(row: Mapping[str, Any], column: str) -> Any:
    """The value of a column; ``a.b`` is ``b`` of the object ``a`` unless a field has that name. None if absent."""
    if column in row:
        return row[column]
    value: Any = row
    for name in column.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = _object_in(name, value[name])
    return value


def _object_in(name: str, value: Any) -> Any:
    """The object that is in a text, as in SYNTHETIC-1, or in a list of one, as in Label Studio; others as they are."""
    if plain_name(name) in ("annotations", "result") and isinstance(value, list) and len(value) == 1:
        return value[0] if isinstance(value[0], Mapping) else value
    if isinstance(value, str) and plain_name(name) in ("info", "verificationinfo"):
        with contextlib.suppress(ValueError):
            return json.loads(value)
    return value


def has_column(row: Mapping[str, Any], column: str) -> bool:
    """Whether a row has a column, also one without a value; a table notes those in ``empty``."""
    return value_of(row, column) is not None or column in row or column in getattr(row, "empty", ())


def renamed(row: Mapping[str, Any], fields: Mapping[str, str] | None, where: str) -> Mapping[str, Any]:
    """A row with the fields that ``--fields`` names, in place of the columns or templates that they are taken from.

    An empty field of a table is an empty text.

    Raises:
        InputError: the row has no such column.
    """
    if not fields:
        return row

    def value(column: str) -> Any:
        content = value_of(row, column)
        if not has_column(row, column):
            here = ", ".join(map(str, row))[:300] or "no field at all"
            raise InputError(f"{where}: there is no field {quoted(column)}, which --fields names (here: {here})")
        return "" if content is None and column not in row else content

    moved = {
        name: re.sub(r"\{([^{}]+)\}", lambda match: str(value(match[1])), source) if "{" in source else value(source)
        for name, source in fields.items()
    }
    return {name: cell for name, cell in row.items() if name not in fields.values()} | moved


def written_in(text: str) -> Any:
    """The value that a text writes as JSON or Python do, or as NumPy prints it: ``['a' 'b']``, ``array(['a'])``.

    So pandas and ``datasets`` write lists into tables (huggingface/datasets#6778).

    Raises:
        ValueError: it writes none.
    """
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return literal(_BESIDE.sub(r"\1,", _ARRAY.sub(r"\1", text)))


def is_filled(value: Any) -> bool:
    """Whether a value says something: no null, no infinite number, no empty text, list or object."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return value is not None and value not in ("", [], {}) and not (isinstance(value, str) and not value.strip())


def is_text(value: Any) -> bool:
    """Whether a value can be a question or a part of it: a text, a number, or a list of texts."""
    return isinstance(value, str | int | float) or (
        isinstance(value, list) and all(isinstance(text, str) for text in value)
    )


def as_text(value: Any) -> str:
    """A value as text: whole numbers without a fraction, dates in ISO form, other objects and lists as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False, default=str)


def as_passage(value: Any) -> str:
    """A value as a part of a question: texts of lists and objects on lines, tables with bars between their cells."""
    if isinstance(value, Mapping):
        texts = [item for item in value.values() if isinstance(item, str | list)]
        return "\n".join(filter(None, map(as_passage, texts))) if texts else as_text(value)
    if not isinstance(value, list):
        return as_text(value)
    if _is_table(value):
        return "\n".join(" | ".join(map(as_text, line)) for line in value)
    lines = (" ".join(map(as_text, line)) if isinstance(line, list) else as_passage(line) for line in value)
    return "\n".join(filter(None, lines))


def _is_table(value: list[Any]) -> bool:
    """Whether a list has lists of equally many short values."""
    if not value or not all(isinstance(line, list) for line in value):
        return False
    short = all(not isinstance(cell, list | Mapping) and len(as_text(cell)) <= _CELL for line in value for cell in line)
    return short and len({len(line) for line in value}) == 1 and len(value[0]) > 1
