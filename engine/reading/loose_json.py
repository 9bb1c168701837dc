"""Objects in a model's text: JSON as it should be, and the ways in which models miss it.

Reads fences, prose around, several objects, trailing commas, comments, Python literals, bare expressions,
LaTeX backslashes and raw line breaks. Linear in the text, bounded in depth; never evaluates anything.
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
_MAX_RESTARTS = 4
_MAX_SEGMENTS = 2000
_MAX_OPEN = 200

# An object starts with a key or ends at once; the braces of {1, 2, 3} and \frac{a}{b} do not.
_START = re.compile(r"\{(?=\s*(?:[\"'}]|[A-Za-z_]\w*\s*:|//|#|/\*))")
_CLOSE = {
    # A quote ends a string where JSON may go on behind it, so a stray quote inside does not.
    quote: re.compile(rf"\\.|{quote}(?=\s*(?:[,:\]}})]|//|#|/\*|$))", re.DOTALL)
    for quote in ("'", '"')
}
_OUTSIDE = re.compile(r"[\"'{}\[\]]|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_OPENS_STRING = frozenset("{[,:(\"'")


@dataclass
class RepairLog:
    """Codes of what was repairs, each once, in the order of mending."""

    codes: list[str] = field(default_factory=list)

    def note(self, code: str) -> None:
        """Record a mend."""
        if code not in self.codes:
            self.codes.append(code)


class TooDeepError(ValueError):
    """A value is nested deeper or holds more parts than any scaffold."""


def segments(text: str) -> tuple[list[tuple[int, int]], bool]:
    """The places of the outermost objects in a text, and whether one was left open at its end."""
    found: list[tuple[int, int]] = []
    restarts = 0
    position = 0
    while len(found) < _MAX_SEGMENTS:
        match = _START.search(text, position)
        if match is None:
            break
        end = _end_of_object(text, match.start())
        if end is None:
            restarts += 1
            if restarts > _MAX_RESTARTS:
                break
            position = match.start() + 1
        else:
            found.append((match.start(), end))
            position = end
    return found, restarts > 0


def _end_of_object(text: str, start: int) -> int | None:
    """Where the object that starts there ends; None where it is not closed, or nested too deep to be one."""
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
            close = _end_of_string(text, position, token)
            if close is None:
                return None
            position = close
    return None


def _opens_string(text: str, position: int) -> bool:
    """Whether a quote stands where a string may start: an apostrophe in a bare word does not."""
    before = position - 1
    while before >= 0 and text[before] in " \t\r\n":
        before -= 1
        if position - before > 200:
            return True
    return text[position] == '"' or before < 0 or text[before] in _OPENS_STRING


def _end_of_string(text: str, position: int, quote: str) -> int | None:
    """The place behind the closing quote; None where there is none."""
    for match in _CLOSE[quote].finditer(text, position):
        if match[0] == quote:
            return match.end()
    return None


# ------------------------------------------------------------------ one object


def read_object(text: str, repairs: RepairLog) -> Any:
    """The value that a text of one object stands for.

    Args:
        text: from the opening to the closing brace.
        repairs: gets a code for everything that had to be repairs.

    Raises:
        ValueError: it cannot be read.
    """
    value = read_literal(text, repairs)
    return _read_mended(text, repairs) if value is None else value


def read_literal(text: str, repairs: RepairLog) -> Any:
    """The value of a text that is JSON, JSON with raw line breaks, or a Python literal; None where it is none.

    Raises:
        TooDeepError: it is nested deeper than the readers allow.
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
    """A Python literal's value; None where the text is none. Nothing is called, names are refused."""
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
    """An escape that Python shares with JSON as it is; of any other the backslash was meant."""
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


def _read_mended(text: str, repairs: RepairLog) -> Any:
    """Write the text anew as JSON, token by token, and read that. Raises ValueError."""
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
    """A comma between a closed part and the next one, where the model left it out."""
    if pieces and pieces[-1] in ("}", "]"):
        pieces.append(",")
        notes.note("missing_commas")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:  # cannot happen: the last alternative takes any character
            raise ValueError("an unreadable character")
        kind, position = match.lastgroup or "", match.end()
        if kind == "quote":
            end = _end_of_string(text, position, match[0])
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

    def mend(match: re.Match[str]) -> str:
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

    return f'"{_ESCAPE.sub(mend, token[1:-1])}"'


def _bare_value(text: str, notes: RepairLog) -> str:
    """A number or a word of JSON as it is; a Python word translated; any other run of text as a string."""
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


# ------------------------------------------------------------------ values

_CONTROL = re.compile(r"[\x08\x0c\t\r\n\ud800-\udfff]")
_HALVES = re.compile(r"[\ud800-\udfff]")
# What JSON reads as an escape and LaTeX means as a command: \times is a tab and "imes" then.
_EATEN = re.compile(
    r"(?:\x08(?=[A-Za-z])|\x0c(?=[A-Za-z])"
    r"|\t(?=(?:imes|heta|ext|extbf|an|anh|au|o|riangle|frac|ilde|op|herefore)(?![A-Za-z]))"
    r"|\r(?=(?:ho|ight|angle|floor|ceil|ightarrow|vert|brace|brack)(?![A-Za-z]))"
    r"|\n(?=(?:u|eq|abla|otin|ot|mid|parallel|eg)(?![A-Za-z])))"
)
_LETTERS = {"\x08": "\\b", "\x0c": "\\f", "\t": "\\t", "\r": "\\r", "\n": "\\n"}


def plain(value: Any, repairs: RepairLog, max_parts: int) -> Any:
    """A value as JSON knows them: keys are text, no NaN, no tuples or sets, LaTeX commands whole again.

    Args:
        value: what was read, or what a caller has.
        repairs: gets ``latex_backslashes`` and ``not_finite`` where that was repairs.
        max_parts: how many values it may hold in all.

    Raises:
        TooDeepError: it holds more, or is nested deeper than 24.
    """
    left = max_parts

    def walk(part: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            raise TooDeepError("the object has too many parts or is nested too deep")
        if isinstance(part, str):
            return _whole(part, repairs) if _CONTROL.search(part) else part
        if part is None or isinstance(part, bool):
            return part
        if isinstance(part, int):
            if part.bit_length() <= MAX_INTEGER_BITS:
                return part
            repairs.note("not_finite")  # Python refuses to write more than 4300 digits
            return None
        if isinstance(part, float):
            if math.isfinite(part):
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


def _whole(text: str, repairs: RepairLog) -> str:
    """A text with its LaTeX commands, and without halves of characters, which no file could hold."""
    whole = _EATEN.sub(lambda match: _LETTERS[match[0]], text)
    if whole != text:
        repairs.note("latex_backslashes")
    if _HALVES.search(whole):
        repairs.note("half_characters")
        whole = _HALVES.sub("\ufffd", whole)
    return whole
