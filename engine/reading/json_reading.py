"""Finds JSON objects and values in a model's reply: between prose, in code fences, several in one text."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from engine.reading.loose_json import RepairLog, TooDeepError, end_of_string, plain, read_object
from engine.records import Fault

_MAX_TEXT = 200_000
_MAX_PARTS = 10_000
_MAX_PARSED = 6
"""At most this many objects of a text are parsed, from its end."""
_MAX_UNCLOSED = 4
_MAX_OBJECTS, _MAX_STRICT = 2000, 1000
_MAX_OPEN = 200

# An object starts with a key, a comment or its closing brace; the braces of {1, 2, 3} and \frac{a}{b} do not match.
_START = re.compile(r"\{(?=\s*(?:[\"'}]|[A-Za-z_]\w*\s*:|//|#|/\*))")
_OUTSIDE = re.compile(r"[\"'{}\[\]]|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_AFTER_VALUE = re.compile(r"\s*(?:[.;}*`\n]|,\s*\"|\Z)|[ \t]*\n")
_OPENS_STRING = frozenset("{[,:(\"'")


@dataclass(frozen=True)
class FoundObject:
    """An object in a text: its place, and its value or the error of parsing it."""

    start: int
    end: int
    repairs: RepairLog
    value: Any = None
    error: ValueError | None = None


class ObjectSearch:
    """The outermost objects of a text. Iterating parses those that contain one of the keys, the last one first.

    Args:
        text: the text.
        keys: an object is parsed only if its text contains one of them.

    Attributes:
        spans: their places.
        cut_off: whether an object is not closed and one of the keys occurs in the text.
    """

    def __init__(self, text: str, keys: Collection[str]) -> None:
        self._text, self._keys = text, keys
        self.spans, unclosed = _object_spans(text)
        self.cut_off = unclosed and self._is_likely(text)

    def _is_likely(self, text: str) -> bool:
        return any(key in text for key in self._keys)

    def __iter__(self) -> Iterator[FoundObject]:
        likely = [(start, end) for start, end in self.spans if self._is_likely(self._text[start:end])]
        for start, end in reversed(likely[-_MAX_PARSED:]):
            repairs = RepairLog()
            try:
                value = read_object(self._text[start:end], repairs)
            except ValueError as error:
                yield FoundObject(start, end, repairs, error=error)
            else:
                yield FoundObject(start, end, repairs, value)


def read_json_object(text: str, required: str) -> dict[str, Any] | Fault:
    """Read the last object of a text that has the key ``required``. Never raises; bounded in time.

    Args:
        text: a reply; only the last 200,000 characters are read.
        required: the key that the object must have.

    Returns:
        the object, or why there is none: ``no_json``, ``cut_off``, ``schema``.
    """
    search = ObjectSearch(text[-_MAX_TEXT:].rpartition("</think>")[2], (required,))
    unreadable = False
    for candidate in search:
        unreadable = True
        if isinstance(candidate.value, dict) and required in candidate.value:
            with contextlib.suppress(TooDeepError):
                value: dict[str, Any] = plain(candidate.value, candidate.repairs, _MAX_PARTS)
                return value
    if search.cut_off:
        return Fault(kind="cut_off", message="the object is not closed")
    if unreadable:
        return Fault(kind="schema", message=f"no readable object has the key {required}")
    return Fault(kind="no_json", message=f"no JSON object with the key {required}")


def leading_value(text: str) -> str | None:
    """The JSON text, list or object that a text begins with, if nothing but an end or a further key follows."""
    text = text.lstrip(" \t\n*`")
    if text[:1] not in ('"', "[", "{"):
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not _AFTER_VALUE.match(text, end):
        return None
    return value if isinstance(value, str) else text[:end]


def strict_objects(text: str) -> Iterator[str]:
    """The JSON objects in a text, from left to right: only those that need no repair."""
    end = 0
    for _ in range(_MAX_STRICT):
        if (start := text.find("{", end)) < 0:
            return
        try:
            _, end = json.JSONDecoder().raw_decode(text, start)
            yield text[start:end]
        except (ValueError, RecursionError):
            end = start + 1


def _object_spans(text: str) -> tuple[list[tuple[int, int]], bool]:
    """The spans of the outermost objects, and whether an object is not closed."""
    spans: list[tuple[int, int]] = []
    unclosed = 0
    position = 0
    while len(spans) < _MAX_OBJECTS and unclosed <= _MAX_UNCLOSED:
        match = _START.search(text, position)
        if match is None:
            break
        end = _end_of_object(text, match.start())
        if end is None:
            unclosed += 1
        else:
            spans.append((match.start(), end))
        position = end or match.start() + 1
    return spans, unclosed > 0


def _end_of_object(text: str, start: int) -> int | None:
    """The end of the object that starts there; None if it is not closed or nested too deeply."""
    depth = 0
    position = start
    while match := _OUTSIDE.search(text, position):
        token = match[0]
        position = match.end()
        if token in ("{", "["):
            depth += 1
            if depth > _MAX_OPEN:
                return None
        elif token in ("}", "]"):
            depth -= 1
            if depth <= 0:
                return position
        elif token in ("'", '"') and _opens_string(text, match.start()):
            close = end_of_string(text, position, token)
            if close is None:
                return None
            position = close
    return None


def _opens_string(text: str, position: int) -> bool:
    """Whether a quote opens a string. An apostrophe inside a word does not."""
    before = text[max(0, position - 200) : position].rstrip(" \t\r\n")
    return text[position] == '"' or not before or before[-1] in _OPENS_STRING
