"""Files with one JSON value per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from engine.errors import InputError
from engine.storage.lines import MAX_LINE_BYTES, without_lone_surrogates

BOM = b"\xef\xbb\xbf"
ONE_LINE = "Each line must be one complete JSON object."


def json_lines(stream: BinaryIO, source: object, fix: str = ONE_LINE) -> Iterator[Any]:
    """The values of the lines, None for a blank line. The stream is closed at the end.

    A line of more than ``MAX_LINE_BYTES`` is refused before it is read completely.

    Args:
        stream: the file, at its begin.
        source: the file, for messages.
        fix: what to do about a line that is not JSON.

    Raises:
        InputError: a line is too long, not UTF-8 or not JSON; names the line.
    """
    for number, line in enumerate(lines_of(stream), start=1):
        if len(line) > MAX_LINE_BYTES:
            raise bad_line(source, number, f"the line is longer than {MAX_LINE_BYTES:,} bytes")
        yield json_value(line, source, number, fix)


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    """The lines, the first without a byte order mark. A line ends after ``MAX_LINE_BYTES`` + 1 bytes."""
    with stream:
        for number, line in enumerate(iter(partial(stream.readline, MAX_LINE_BYTES + 1), b"")):
            yield line if number else line.removeprefix(BOM)


def json_value(content: bytes, source: object, number: int, fix: str = ONE_LINE, *, is_document: bool = False) -> Any:
    """The value of a line, None of a blank one; or that of a document of several lines.

    Args:
        content: the line or the document, without a byte order mark.
        source: the file, for messages.
        number: of the line; of a document, of its first line that is not blank.
        fix: what to do if it is not JSON.
        is_document: an error is in the line of the document that it names, and in ``number`` if it names none.

    Raises:
        InputError: it is not UTF-8 or not JSON; names the line.
    """
    try:
        text = content.decode() if is_document else content.decode().strip()
        value = json.loads(text, parse_constant=_constant) if text else None
    except UnicodeDecodeError as error:
        before = content[: error.start]
        column = error.start - before.rfind(b"\n")
        why = f"not UTF-8 (byte {content[error.start]:#04x} at column {column})"
        line = (1 if is_document else number) + before.count(b"\n")
        raise bad_line(source, line, why, fix="Save the file as UTF-8.") from error
    except json.JSONDecodeError as error:
        why = f"not JSON: {error.msg} at column {error.colno}"
        raise bad_line(source, error.lineno if is_document else number, why, fix=fix) from error
    except ValueError as error:
        raise bad_line(source, number, f"not JSON: {str(error)[:200]}") from error
    except RecursionError as error:
        raise bad_line(source, number, "nested too deeply") from error
    return without_lone_surrogates(value, content)


def bad_line(source: object, number: int, why: str, *, fix: str = "") -> InputError:
    """The error of a line."""
    return InputError(f"{source}, line {number}: {why}", fix=fix)


def _constant(name: str) -> None:
    """NaN, which Python and pandas write for an empty cell, is null. An infinity is refused."""
    if name != "NaN":
        raise ValueError(f"{name} is not a JSON number")
