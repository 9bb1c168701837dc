"""Tolerant JSON parser for the text of one object.

Accepts trailing commas, missing commas, comments, Python literals, unquoted text, LaTeX backslashes and raw line
breaks. Linear in the length of the text, bounded in depth; evaluates nothing. Each repair is recorded.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.reading.python_syntax import literal

MAX_DEPTH = 24
MAX_INTEGER_BITS = 12_000

_CLOSE = {
    # A quote closes a string only if valid JSON may follow it, so a stray quote inside a string does not.
    quote: re.compile(rf"\\.|{quote}(?=\s*(?:[,:\]}})]|//|#|/\*|$))", re.DOTALL)
    for quote in ("'", '"')
}


@dataclass
class RepairLog:
    """Codes of the repairs, each once, in the order of the repairs."""

    codes: list[str] = field(default_factory=list)

    def note(self, code: str) -> None:
        """Record a repair."""
        if code not in self.codes:
            self.codes.append(code)


class TooDeepError(ValueError):
    """A value is nested too deeply or has too many parts."""


def end_of_string(text: str, position: int, quote: str) -> int | None:
    """The position after the closing quote of the string whose content starts at ``position``; None if unclosed."""
    for match in _CLOSE[quote].finditer(text, position):
        if match[0] == quote:
            return match.end()
    return None


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
    try:
        return json.loads(text)
    except RecursionError as error:
        raise TooDeepError("the object is nested too deep") from error
    except ValueError:
        pass
    if '"' in text:
        try:
            value = json.loads(text, strict=False)
        except ValueError:
            pass
        else:
            repairs.note("raw_line_breaks")
            return value
    if "'" in text or "None" in text or "True" in text or "False" in text:
        return _python_literal(text, repairs)
    return None


def _python_literal(text: str, repairs: RepairLog) -> Any:
    """The value of a Python literal; None if the text is not one. Calls and names are refused."""
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
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<comment>//[^\n]*|\#[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<mark>[{}\[\]:,])
    | (?P<quote>["'])
    | (?P<bare>(?:[^,:\[\]{}()"'\n]|\([^()\n]*\))+|.)""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_NUMBER_AND_COMMENT = re.compile(r"(-?\d[\d.eE+-]*)\s*(?://|\#).*", re.DOTALL)
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null",
          "undefined": "null", "NaN": "null"}  # fmt: skip


def _read_repaired(text: str, repairs: RepairLog) -> Any:
    """Rewrite the text as valid JSON, token by token, and parse it. Raises ValueError."""
    pieces: list[str] = []
    notes = RepairLog()
    for kind, token in _tokens(text):
        last = pieces[-1] if pieces else ""
        if kind == "mark":
            if token in ("}", "]") and last == ",":
                pieces.pop()
                notes.note("trailing_commas")
            elif token in ("{", "["):
                _separate(pieces, notes)
            pieces.append(token)
        elif kind == "comment":
            notes.note("comments")
        elif kind == "string":
            _separate(pieces, notes)
            pieces.append(_json_string(token, notes))
        elif kind == "bare":
            pieces.append(_bare_value(token.strip(), notes))
        else:
            raise ValueError("a string is not closed")
    try:
        value = json.loads("".join(pieces))
    except RecursionError as error:
        raise TooDeepError("the object is nested too deep") from error
    for code in notes.codes:
        repairs.note(code)
    return value


def _separate(pieces: list[str], notes: RepairLog) -> None:
    """Insert a missing comma after a closed object or array."""
    if pieces and pieces[-1] in ("}", "]"):
        pieces.append(",")
        notes.note("missing_commas")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:  # not reachable: the last alternative matches any character
            raise ValueError("unreadable character")
        kind, position = match.lastgroup or "", match.end()
        if kind == "quote":
            end = end_of_string(text, position, match[0])
            if end is None:
                yield "open", ""
                return
            yield "string", text[position - 1 : end]
            position = end
        elif kind != "space":
            yield kind, match[0]


def _json_string(token: str, notes: RepairLog) -> str:
    if token[0] == "'":
        notes.note("single_quotes")

    def repair(match: re.Match[str]) -> str:
        text = match[0]
        if text[0] != "\\":
            notes.note("raw_line_breaks" if text != '"' else "quotes_in_strings")
            return '\\"' if text == '"' else f"\\u{ord(text):04x}"
        escaped = match[1]
        if escaped == "'":
            return "'"
        if escaped[0] == "x" and len(escaped) == 3:
            return f"\\u00{escaped[1:]}"
        if (escaped[0] == "u" and len(escaped) == 5) or escaped in '"\\/bfnrt':
            return text
        notes.note("latex_backslashes")
        return "\\\\" + (escaped if escaped >= " " else f"u{ord(escaped):04x}")

    return f'"{_ESCAPE.sub(repair, token[1:-1])}"'


def _bare_value(text: str, notes: RepairLog) -> str:
    """Keep JSON numbers and words, translate Python words, quote any other text."""
    commented = _NUMBER_AND_COMMENT.fullmatch(text)
    if commented:
        notes.note("comments")
        text = commented[1]
    if _NUMBER.fullmatch(text):
        return text
    if text in _WORDS:
        if _WORDS[text] != text:
            notes.note("python_literal")
        return _WORDS[text]
    notes.note("bare_words")
    return json.dumps(text)


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
    left = max_parts

    def walk(part: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
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
