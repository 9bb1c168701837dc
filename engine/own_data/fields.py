"""Rows with the fields that tasks read, in place of the columns that ``--fields`` names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engine.errors import InputError, quoted


def renamed(row: Mapping[str, Any], fields: Mapping[str, str] | None, where: str) -> Mapping[str, Any]:
    """A row with the fields that ``--fields`` names, in place of the columns that they are taken from.

    ``a.b`` is the field ``b`` of the object ``a`` unless a field has that name. An empty field of a table is an empty
    text.

    Raises:
        InputError: the row has no such column.
    """
    if not fields:
        return row
    moved: dict[str, Any] = {}
    for name, source in fields.items():
        if "{" in source:
            moved[name] = re.sub(r"\{([^{}]+)\}", lambda match: str(_value(row, match[1], where)), source)
        else:
            moved[name] = _value(row, source, where)
    return {name: value for name, value in row.items() if name not in fields.values()} | moved


def _value(row: Mapping[str, Any], source: str, where: str) -> Any:
    if source in row:
        return row[source]
    if source in getattr(row, "empty", ()):  # of a table
        return ""
    value: Any = row
    for name in source.split("."):
        if not isinstance(value, Mapping) or name not in value:
            here = ", ".join(map(str, row))[:300] or "no field at all"
            raise InputError(f"{where}: there is no field {quoted(source)}, which --fields names (here: {here})")
        value = value[name]
    return value
