"""Rows of JSON files: one value per line, or one document that holds the rows at some depth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, NoReturn

from engine.storage.json_forms import names_are_there, nesting, rows_of_document, unfolded
from engine.storage.source_files import MAX_DOCUMENT_BYTES, SourceFile, bad_line

_BOM = b"\xef\xbb\xbf"
_BEGINS = re.compile(rb"\{\s*[\"'}]|\[\s*([\[{\"\]\d-]|true|false|null)")
_SURROGATE = re.compile(rb"\\u[dD][89abAB]|\\u[dD][c-fC-F]")
_ONE_LINE = "Each line must be one complete JSON object."
_FORMS = f"{_ONE_LINE} Or the whole file is one array of objects: [{{...}}, {{...}}]."


def begins_as_json(begin: bytes) -> bool:
    """Whether bytes can be the begin of an object or an array."""
    return _BEGINS.match(begin.lstrip(_BOM + b" \t\r\n")) is not None


def json_rows(
    source: SourceFile, max_line_bytes: int, split: str | None, columns: Sequence[str] | None
) -> tuple[Iterator[Any], list[str]]:
    """The rows of a file, None for a blank line, and notes for the screen. Lines are read one at a time.

    Args:
        source: the file.
        max_line_bytes: limit of a line.
        split: which list of rows of a document is read.
        columns: names of the columns of rows that are lists.

    Raises:
        InputError: it is not JSON, or it is not clear which rows are meant.
    """
    first, number, second = b"", 0, b""
    for at, line in enumerate(_lines(source, max_line_bytes), start=1):
        if line.strip() and first:
            second = line
            break
        if line.strip():
            first, number = line, at
    is_row = source.path.name.endswith((".jsonl", ".jsonl.gz"))
    if not first or ((second or is_row) and _is_complete(first)):
        return _of_lines(source, max_line_bytes, columns, [first, second])
    with source.open() as handle:
        content = handle.read(MAX_DOCUMENT_BYTES + 1)
    if second and len(first) <= max_line_bytes and _is_complete(second):
        _parse(first, source, number)  # one line of many is broken, and it is the first
    if len(content) > MAX_DOCUMENT_BYTES:
        why = f"it is one JSON document of more than {MAX_DOCUMENT_BYTES:,} bytes"
        raise bad_line(source.path, number, why, fix="Write JSONL: one object per line.")
    text = _decoded(content.removeprefix(_BOM), source, 1)
    with _json_errors(source, number, is_line=False):
        value = json.loads(text, parse_constant=_no_constant)
    return rows_of_document(_without_surrogates(content, value), str(source.path), split, columns, fix=_FORMS)


def _of_lines(
    source: SourceFile, limit: int, columns: Sequence[str] | None, begin: Sequence[bytes]
) -> tuple[Iterator[Any], list[str]]:
    def values() -> Iterator[Any]:
        for number, line in enumerate(_lines(source, limit), start=1):
            if len(line) > limit:
                raise bad_line(source.path, number, f"the line is longer than {limit:,} bytes")
            yield _parse(line, source, number)

    first = [_value(line) for line in begin if line]
    if columns is not None:
        raise names_are_there(source.path)
    path = nesting(first)
    notes = [f"questions are under {'.'.join(path)!r} of each row"] if path else []
    return unfolded(values(), path) if path else values(), notes


def _value(line: bytes) -> Any:
    """The value of a line; None for a faulty one, whose error is raised when it is reached."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _lines(source: SourceFile, limit: int) -> Iterator[bytes]:
    """The lines, the first without a byte order mark. A line ends after ``limit`` + 1 bytes."""
    with source.open() as handle:
        for number in count(1):
            line = handle.readline(limit + 1)
            if not line:
                return
            yield line.removeprefix(_BOM) if number == 1 else line


def _is_complete(line: bytes) -> bool:
    """Whether a line is a JSON value, or would be one but for what it holds."""
    try:
        json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return False
    except (ValueError, RecursionError):
        pass
    return True


def _parse(line: bytes, source: SourceFile, number: int) -> Any:
    text = _decoded(line, source, number).strip()
    if not text:
        return None
    with _json_errors(source, number):
        return _without_surrogates(line, json.loads(text, parse_constant=_no_constant))


@contextmanager
def _json_errors(source: SourceFile, number: int, *, is_line: bool = True) -> Iterator[None]:
    """Turn the errors of JSON into one that names the line: ``number``, or that of the error in a document."""
    try:
        yield
    except json.JSONDecodeError as error:
        why = f"not JSON: {error.msg} at column {error.colno}"
        raise bad_line(source.path, number if is_line else error.lineno, why, fix=_FORMS) from error
    except ValueError as error:
        raise bad_line(source.path, number, f"not JSON: {str(error)[:200]}") from error
    except RecursionError as error:
        raise bad_line(source.path, number, "nested too deeply") from error


def _decoded(content: bytes, source: SourceFile, number: int) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start]
        column = error.start - before.rfind(b"\n")
        why = f"not UTF-8 (byte {content[error.start]:#04x} at column {column})"
        raise bad_line(source.path, number + before.count(b"\n"), why, fix="Save the file as UTF-8.") from error


def _without_surrogates(content: bytes, value: Any) -> Any:
    """The value with unpaired surrogates, which no text can hold, as question marks."""
    if not _SURROGATE.search(content):
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
