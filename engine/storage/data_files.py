"""Rows of data files: JSONL, JSON, CSV and parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from itertools import count, zip_longest
from pathlib import Path
from typing import Any, NoReturn

from engine.errors import ConfigurationError, InputError, MissingInputError, first_line
from engine.storage.installation import install_command

SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")

MAX_LINE_BYTES = 1 << 20
"""Limit of a line; a longer one is refused before it is read completely."""

MAX_ARRAY_BYTES = 64 << 20
"""Limit of a file that is one JSON array."""

_BOM = b"\xef\xbb\xbf"
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""What files of Excel begin with: .xlsx (a zip file) and .xls."""


class CsvRow(dict[str, str]):
    """A row of a CSV file.

    Args:
        fields: name and value; those with a value are the items.
        line: where the row begins in the file.

    Attributes:
        empty: names of the fields without a value.
    """

    def __init__(self, fields: Mapping[str, str], line: int) -> None:
        super().__init__({name: value for name, value in fields.items() if value.strip()})
        self.line = line
        self.empty = fields.keys() - self.keys()


def file_rows(path: Path, max_line_bytes: int = MAX_LINE_BYTES, *, needed: str = "") -> Iterator[Any]:
    """The rows of a file, None for a blank line. One row is in memory at a time, or the whole of a JSON array.

    Args:
        path: a CSV or parquet file by its suffix, else JSONL or one JSON array.
        max_line_bytes: limit of a line.
        needed: what a row needs, for the message about a missing file.

    Raises:
        MissingInputError: there is no such file.
        InputError: it cannot be read; file and line are named.
        ConfigurationError: it is a parquet file and pyarrow is not installed.
    """
    rows = {".csv": _csv_rows, ".parquet": _parquet_rows}.get(path.suffix)
    try:
        yield from rows(path) if rows is not None else _json_rows(path, max_line_bytes)
    except FileNotFoundError as error:
        why = "" if path.is_absolute() else f"The path is relative to the working folder, {Path.cwd()}."
        raise MissingInputError(f"Dataset file not found: {path}", why=why, fix=needed) from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}", fix="Give a readable file.") from error


def _json_rows(path: Path, max_line_bytes: int) -> Iterator[Any]:
    with path.open("rb") as handle:
        _refuse_workbook(path, handle.peek(64))
        if handle.peek(64)[:64].removeprefix(_BOM).lstrip()[:1] == b"[":
            yield from _array(handle.read(MAX_ARRAY_BYTES + 1), path)
            return
        for number in count(1):
            line = handle.readline(max_line_bytes + 1)
            if not line:
                return
            if len(line) > max_line_bytes:
                raise _bad_line(path, number, f"the line is longer than {max_line_bytes:,} bytes")
            yield _parse(line.removeprefix(_BOM) if number == 1 else line, path, number)


def _csv_rows(path: Path) -> Iterator[CsvRow]:
    """Each row with the names of the first line. An empty field is left out, and so is a row of empty fields."""
    csv.field_size_limit(MAX_LINE_BYTES)  # 131,072 by default
    line = 1
    with path.open(encoding="utf-8-sig", newline="") as handle:
        delimiter = _delimiter(path)
        reader = csv.reader(handle, strict=True, delimiter=delimiter)
        try:
            names = [name.strip() for name in next(reader, [])]
            if names == ["sep=", ""]:  # how Excel names the delimiter
                names = [name.strip() for name in next(reader, [])]
            twice = next((name for name in names if name and names.count(name) > 1), None)
            if twice is not None:
                raise _bad_line(path, reader.line_num, f"the name {twice!r} occurs twice", fix="Rename one of the two.")
            line = reader.line_num + 1
            for row in reader:
                if len(row) > len(names):
                    raise _bad_line(path, line, "more fields than the first line has names", fix=_IN_QUOTES)
                found = CsvRow(dict(zip_longest(names, row, fillvalue="")), line)
                if found:
                    yield found
                line = reader.line_num + 1
        except UnicodeDecodeError as error:
            raise _bad_line(path, _line_not_utf8(path), "not UTF-8", fix=_SAVE_AS_UTF8) from error
        except csv.Error as error:
            raise _bad_line(path, line, f"not CSV: {error}", fix=_IN_QUOTES) from error


_SAVE_AS_UTF8 = (
    "Save the file as UTF-8 (in Excel: Save As, CSV UTF-8), or: iconv -f ENCODING -t UTF-8 OLD.csv > NEW.csv, "
    "where ENCODING is CP1252 for a western language, GB18030 for Chinese, or UTF-16."
)
_IN_QUOTES = 'Put a field with a comma, a quote or a line break in double quotes, and write a quote in it twice: "".'


def _line_not_utf8(path: Path) -> int:
    with path.open("rb") as handle:
        for number, line in enumerate(handle, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 1


def _delimiter(path: Path) -> str:
    """A comma; a semicolon or a tab if the first line has one and no comma, as spreadsheets of some languages write."""
    with path.open("rb") as handle:
        names = handle.readline(MAX_LINE_BYTES)
    _refuse_workbook(path, names)
    return next((mark for mark in ",;\t" if mark.encode() in names), ",")


def _refuse_workbook(path: Path, begin: bytes) -> None:
    if begin.startswith(_WORKBOOKS):
        what = f"{path} is a workbook of Excel, or another zip file"
        raise InputError(what, fix="Save it as CSV: in Excel Save As, CSV UTF-8.")


def _parquet_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        from pyarrow import ArrowException, parquet  # optional, and slow to import
    except ImportError as error:
        raise ConfigurationError(
            f"{path} is a parquet file, and pyarrow is not installed", fix=install_command("datasets")
        ) from error
    try:
        with path.open("rb") as handle:
            for batch in parquet.ParquetFile(handle).iter_batches(batch_size=1000):
                yield from batch.to_pylist()
    except ArrowException as error:
        raise InputError(f"{path} is not a parquet file", why=first_line(error)[:200]) from error


def _array(content: bytes, path: Path) -> list[Any]:
    if len(content) > MAX_ARRAY_BYTES:
        raise InputError(f"{path} is one JSON array of more than {MAX_ARRAY_BYTES:,} bytes", fix="Write JSONL.")
    value = _parse(content.removeprefix(_BOM), path, 1)
    return value if isinstance(value, list) else [value]


_ONE_LINE = "Each line must be one complete JSON object."
_JSON_FORMS = {
    ".jsonl": _ONE_LINE,
    ".json": f"{_ONE_LINE} Or the whole file is one array of objects: [{{...}}, {{...}}].",
}
_OTHER_FORM = f"{_ONE_LINE} A table with commas, semicolons or tabs needs a name that ends in .csv."


def _parse(line: bytes, path: Path, number: int) -> Any:
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        why = f"not UTF-8 (byte {line[error.start]:#04x} at column {error.start + 1})"
        raise _bad_line(path, number, why, fix="Save the file as UTF-8.") from error
    if not text:
        return None
    try:
        value = json.loads(text, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise _bad_line(path, number, "unpaired surrogate (\\ud800 to \\udfff)") from error
    except json.JSONDecodeError as error:
        why = f"not JSON: {error.msg} at column {error.colno}"
        raise _bad_line(path, number, why, fix=_JSON_FORMS.get(path.suffix, _OTHER_FORM)) from error
    except ValueError as error:
        raise _bad_line(path, number, f"not JSON: {str(error)[:200]}") from error
    except RecursionError as error:
        raise _bad_line(path, number, "nested too deeply") from error
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _bad_line(source: object, number: int, why: str, *, fix: str = "") -> InputError:
    return InputError(f"{source}, line {number}: {why}", fix=fix)
