"""Rows of JSON files: one value per line, or one document that holds the rows at some depth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from engine.storage.json_forms import names_are_there, nesting, rows_of_document, unfolded
from engine.storage.json_lines import BOM, ONE_LINE, bad_line, json_lines, json_value, lines_of
from engine.storage.lines import MAX_LINE_BYTES
from engine.storage.source_files import MAX_DOCUMENT_BYTES, SourceFile

_BEGINS = re.compile(rb"\{\s*[\"'}]|\[\s*([\[{\"\]\d-]|true|false|null)")
_FORMS = f"{ONE_LINE} Or the whole file is one array of objects: [{{...}}, {{...}}]."


def begins_as_json(begin: bytes) -> bool:
    """Whether bytes can be the begin of an object or an array."""
    return _BEGINS.match(begin.lstrip(BOM + b" \t\r\n")) is not None


def json_rows(source: SourceFile, split: str | None, columns: Sequence[str] | None) -> tuple[Iterator[Any], list[str]]:
    """The rows of a file, None for a blank line, and notes for the screen. Lines are read one at a time.

    Args:
        source: the file.
        split: which list of rows of a document is read.
        columns: names of the columns of rows that are lists.

    Raises:
        InputError: it is not JSON, or it is not clear which rows are meant.
    """
    filled = ((number, line) for number, line in enumerate(lines_of(source.open()), start=1) if line.strip())
    number, first = next(filled, (0, b""))
    _, second = next(filled, (0, b""))
    is_row = source.path.name.endswith((".jsonl", ".jsonl.gz"))
    if not first or ((second or is_row) and _is_complete(first)):
        if columns is not None:
            raise names_are_there(source.path)
        path = nesting([_value(line) for line in (first, second) if line])
        notes = [f"questions are under {'.'.join(path)!r} of each row"] if path else []
        values = json_lines(source.open(), source.path, _FORMS)
        return unfolded(values, path) if path else values, notes
    with source.open() as handle:
        content = handle.read(MAX_DOCUMENT_BYTES + 1)
    if second and len(first) <= MAX_LINE_BYTES and _is_complete(second):
        json_value(first, source.path, number, _FORMS)  # one line of many is broken, and it is the first
    if len(content) > MAX_DOCUMENT_BYTES:
        why = f"it is one JSON document of more than {MAX_DOCUMENT_BYTES:,} bytes"
        raise bad_line(source.path, number, why, fix="Write JSONL: one object per line.")
    value = json_value(content.removeprefix(BOM), source.path, number, _FORMS, is_document=True)
    return rows_of_document(value, str(source.path), split, columns, fix=_FORMS)


def _value(line: bytes) -> Any:
    """The value of a line; None for a faulty one, whose error is raised when it is reached."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_complete(line: bytes) -> bool:
    """Whether a line is a JSON value, or would be one but for what it holds."""
    try:
        json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return False
    except (ValueError, RecursionError):
        pass
    return True
