"""Tolerant JSON parser for the text of one object.

Accepts trailing commas, comments, Python literals, stray quotes in strings, LaTeX backslashes and raw line breaks.
Linear in the length of the text, bounded in depth; evaluates nothing. Each repair is recorded.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

MAX_DEPTH = 24
MAX_INTEGER_BITS = 12_000

_MAY_FOLLOW = r"\s*+(?:[,:\]})]|//|\#|/\*|\Z)"
"""What may follow a string in valid JSON. A quote before anything else stands inside of the string."""
_CLOSE = {quote: re.compile(rf"\\.|{quote}(?={_MAY_FOLLOW})", re.DOTALL) for quote in ("'", '"')}


@dataclass
class RepairLog:
    """Codes of the repairs, each once, in the order of the repairs."""

    codes: list[str] = field(default_factory=list)

    def note(self, *codes: str) -> None:
        """Record repairs."""
        self.codes += [code for code in codes if code not in self.codes]


class TooDeepError(ValueError):
    """A value is nested too deeply or has too many parts."""


def end_of_string(text: str, position: int, quote: str) -> int | None:
    """The position after the closing quote of the string whose content starts at ``position``; None if unclosed."""
    return next((match.end() for match in _CLOSE[quote].finditer(text, position) if match[0] == quote), None)


def read_object(text: str, repairs: RepairLog) -> Any:
    """Parse the text of one object.

    Args:
        text: from the opening to the closing brace.
        repairs: receives a code for each repair.

    Raises:
        ValueError: the text cannot be parsed.
    """
    value = read_literal(text, repairs)
    return _read_repaired(text, repairs) if value is None else value


def read_literal(text: str, repairs: RepairLog) -> Any:
    """Parse JSON, JSON with raw line breaks, or a Python literal. None if the text is none of them.

    Raises:
        TooDeepError: the value is nested deeper than the parsers allow.
    """
    for is_strict in (True, False):
        try:
            value = json.loads(text, strict=is_strict)
        except RecursionError as error:
            raise TooDeepError("the object is nested too deep") from error
        except ValueError:
            continue
        repairs.note(*([] if is_strict else ["raw_line_breaks"]))
        return value
    if "'" in text or "None" in text or "True" in text or "False" in text:
        return _python_literal(text, repairs)
    return None


def _python_literal(text: str, repairs: RepairLog) -> Any:
    """The value of a Python literal; None if the text is not one. Calls and names are refused."""
    from engine.reading.python_syntax import literal  # few replies are Python

    doubled = _PAIR.sub(_doubled, text) if "\\" in text else text
    try:
        value = literal(doubled)
    except ValueError:
        return None
    repairs.note("python_literal")
    if doubled != text:
        repairs.note("latex_backslashes")
    return value


_PAIR = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PYTHON_ESCAPES = frozenset("\\'\"nrtbf\n")


def _doubled(match: re.Match[str]) -> str:
    """Keep escapes that Python and JSON share; double the backslash of all others."""
    return match[0] if len(match[1]) > 1 or match[1] in _PYTHON_ESCAPES else "\\" + match[0]


_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)|[\x00-\x1f\"]", re.DOTALL)
_REPAIRED = re.compile(
    rf"""(?P<string>"(?:[^"\\]++|\\.|"(?!{_MAY_FOLLOW}))*+(?:"|\Z))
    | (?P<comment>//[^\n]*|\#[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<comma>,)(?=\s*+[}}\]])
    | (?P<word>\b(?:True|False|None|NaN)\b)""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"True": "true", "False": "false", "None": "null", "NaN": "null"}


def _read_repaired(text: str, repairs: RepairLog) -> Any:
    """Parse the text without comments and trailing commas, and with its strings and words as JSON has them.

    Raises:
        ValueError: it is still no JSON.
    """
    notes = RepairLog()

    def repaired(match: re.Match[str]) -> str:
        if match["string"]:
            return _json_string(match["string"], notes)
        if match["word"]:
            notes.note("python_literal")
            return _WORDS[match["word"]]
        notes.note("comments" if match["comment"] else "trailing_commas")
        return ""

    # Again, as a comma may stand before a comment and a closing bracket.
    text = _REPAIRED.sub(repaired, _REPAIRED.sub(repaired, text))
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise TooDeepError("the object is nested too deep") from error
    repairs.note(*notes.codes)
    return value


def _json_string(token: str, notes: RepairLog) -> str:
    """A string in quotes, with its control characters, stray quotes and LaTeX backslashes escaped."""

    def escaped(match: re.Match[str]) -> str:
        text, character = match[0], match[1]
        if character is None:
            notes.note("raw_line_breaks" if text != '"' else "quotes_in_strings")
            return '\\"' if text == '"' else f"\\u{ord(text):04x}"
        if len(character) == 5 or character in '"\\/bfnrt':
            return text
        notes.note("latex_backslashes")
        return "\\\\" + (character if character >= " " else f"u{ord(character):04x}")

    return f'"{_ESCAPE.sub(escaped, token[1:-1])}"'


_CONTROL = re.compile(r"[\x08\x0c\t\r\n\ud800-\udfff]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
# LaTeX commands that JSON parses as escapes: \times becomes a tab followed by "imes".
_MISREAD = re.compile(
    r"(?:\x08(?=[A-Za-z])|\x0c(?=[A-Za-z])"
    r"|\t(?=(?:imes|heta|ext|extbf|an|anh|au|o|riangle|frac|ilde|op|herefore)(?![A-Za-z]))"
    r"|\r(?=(?:ho|ight|angle|floor|ceil|ightarrow|vert|brace|brack)(?![A-Za-z]))"
    r"|\n(?=(?:u|eq|abla|otin|ot|mid|parallel|eg)(?![A-Za-z])))"
)
_LETTERS = {"\x08": "\\b", "\x0c": "\\f", "\t": "\\t", "\r": "\\r", "\n": "\\n"}


def plain(value: Any, repairs: RepairLog, max_parts: int) -> Any:
    """Convert a value to plain JSON types: string keys, no NaN, no tuples or sets; restore LaTeX commands.

    Args:
        value: a parsed value, or one that a caller provides.
        repairs: receives ``latex_backslashes`` and ``not_finite`` for such repairs.
        max_parts: maximum number of values in it.

    Raises:
        TooDeepError: the value has more parts, or is nested deeper than 24.
    """
    remaining = max_parts

    def walk(part: Any, depth: int) -> Any:
        nonlocal remaining
        remaining -= 1
        if remaining < 0 or depth > MAX_DEPTH:
            raise TooDeepError("the object has too many parts or is nested too deep")
        if isinstance(part, str):
            return _restored(part, repairs) if _CONTROL.search(part) else part
        if part is None or isinstance(part, bool):
            return part
        if isinstance(part, int | float):  # Python does not convert integers of more than 4300 digits to text
            if part.bit_length() <= MAX_INTEGER_BITS if isinstance(part, int) else math.isfinite(part):
                return part
            repairs.note("not_finite")
            return None
        if isinstance(part, dict):
            return {
                walk(key if isinstance(key, str) else str(walk(key, depth + 1)), depth + 1): walk(item, depth + 1)
                for key, item in part.items()
            }
        if isinstance(part, list | tuple):
            return [walk(item, depth + 1) for item in part]
        if isinstance(part, set | frozenset):
            return sorted((walk(item, depth + 1) for item in part), key=repr)
        return walk(str(part)[:1000], depth + 1)

    return walk(value, 0)


def _restored(text: str, repairs: RepairLog) -> str:
    """Restore LaTeX commands and replace lone surrogates, which cannot be encoded as UTF-8."""
    restored = _MISREAD.sub(lambda match: _LETTERS[match[0]], text)
    if restored != text:
        repairs.note("latex_backslashes")
    if _SURROGATES.search(restored):
        repairs.note("half_characters")
        restored = _SURROGATES.sub("\ufffd", restored)
    return restored
