r"""The shape of an answer: one value, a tuple, a list of solutions, a set, an interval or an equation.

Policies:

* ``(1, 2)`` is ordered; ``\{1, 2\}`` and a bare list ``1, 2`` or ``x = 1 or x = 2`` are not. A bare list
  is compared with a tuple in order. A set never equals a tuple.
* ``1,024`` is one number; ``1,2`` is a list of two numbers.
* Open and closed ends of an interval differ; ``x > 3`` is ``(3, \infty)``; ``\pm 2`` is a list of two values.
* ``x = 5``, ``p + q = 23`` and ``33 + 1 + 24 = 58`` are compared with a value by the value at their end. Two equations,
  for example of a line, are compared as equations.

``comparison`` compares shapes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

MAX_PARTS = 100
_MAX_BRACKETS = 60

Kind = Literal["value", "tuple", "list", "set", "interval", "union", "relation"]


@dataclass(frozen=True, slots=True)
class Shape:
    """An answer or a part of one.

    Args:
        kind: the kind of shape.
        text: the text of a value, the brackets of an interval (``[)``), or the sign of a relation
            (``=``, ``<``, ``<=``, ``!=``).
        parts: the shapes inside; the two sides of a relation.
        name: the name of a value (``x`` in ``x = 5``).
    """

    kind: Kind
    text: str = ""
    parts: tuple[Shape, ...] = ()
    name: str = ""


_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)", re.ASCII)
_SEPARATOR = re.compile(
    r"\s*(?:[,;]|\\text\s*\{[\s,]*(?:or|and)\s*\}|(?<![A-Za-z\\])(?:or|and)(?![A-Za-z]))\s*", re.IGNORECASE
)
_RELATION = re.compile(r"\\(?:le|ge|ne|approx|lt|gt)(?![A-Za-z])|<=|>=|!=|==|[=<>]")
_NAME = re.compile(
    r"(?:\\?[A-Za-z]+|[A-Za-z]\s*\(\s*[a-z](?:\s*,\s*[a-z])*\s*\)|\\(?:angle|overline)\s*\{?\s*[A-Z]{1,4}\s*\}?|m\\angle\s*[A-Z]+)"
    r"(?:_(?:\w|\{[^{}]*\}))?'*"
)
_MEMBER = re.compile(r"^\\?[A-Za-z]\s*\\in\s*")
_LETTERS = re.compile(r"[A-Za-z]")
_CONSTANTS = re.compile(r"\\(?:pi|sqrt|frac|cdot|times|infty)(?![A-Za-z])|(?<![A-Za-z\\])(?:sqrt|pi|e)(?![A-Za-z])")
_OPERATORS = {r"\le": "<=", r"\ge": ">=", r"\ne": "!=", "==": "=", r"\lt": "<", r"\gt": ">", r"\approx": "="}
_FLIPPED = {">": "<", ">=": "<="}
_ROWS = re.compile(r"\\begin\{[pbBvV]?matrix\}(.*)\\end\{[pbBvV]?matrix\}")
_REALS = re.compile(r"\\(?:mathbb|mathbf)\s*\{?\s*R\s*\}?|all real numbers|\\Re", re.IGNORECASE)
_CLOSE = {"(": ")", "[": "]", "{": "}"}
_EMPTY_SETS = frozenset({r"\emptyset", r"\varnothing", r"\{\}", r"\{ \}"})


def read_shape(text: str) -> Shape:
    """Read a cleaned text. A text without structure is one value."""
    text = text.strip()
    if sum(map(text.count, "([{")) > _MAX_BRACKETS:
        return Shape("value", text)
    for read in (_reals, _union, _matrix):
        shape = read(text)
        if shape is not None:
            return shape
    if _has_bare_thousands(text):
        text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
    pieces = _split(text)
    return _group("list", pieces) if len(pieces) > 1 else _single(text)


def _reals(text: str) -> Shape | None:
    ends = (Shape("value", r"-\infty"), Shape("value", r"\infty"))
    return Shape("interval", "()", ends) if _REALS.fullmatch(text) else None


def _union(text: str) -> Shape | None:
    if r"\cup" not in text:
        return None
    pieces = [_interval(_MEMBER.sub("", piece.strip())) for piece in text.split(r"\cup")]
    return Shape("union", parts=tuple(piece for piece in pieces if piece)) if all(pieces) else None


def _matrix(text: str) -> Shape | None:
    matrix = _ROWS.fullmatch(text)
    if matrix is None:
        return None
    rows = [[read_shape(cell) for cell in row.split("&")] for row in matrix[1].split(r"\\") if row.strip()]
    return Shape("tuple", parts=tuple(row[0] if len(row) == 1 else Shape("tuple", parts=tuple(row)) for row in rows))


def _has_bare_thousands(text: str) -> bool:
    """Whether "1,024" is a number: alone, or in a list with a space after each comma. "(1,024)" is a pair."""
    return "," in text and (", " in text or text[:1] not in "([{\\") and _THOUSANDS.search(text) is not None


def _single(text: str) -> Shape:
    """A text without separators outside its brackets."""
    for read in (_member, _relation, _bracketed, _interval, _plus_minus):
        shape = read(text)
        if shape is not None:
            return shape
    return Shape("set") if text in _EMPTY_SETS else Shape("value", text)


def _member(text: str) -> Shape | None:
    r"""``x \in [1, 2]``."""
    member = _MEMBER.match(text)
    return read_shape(text[member.end() :]) if member else None


def _bracketed(text: str) -> Shape | None:
    inner = _inside(text)
    if inner is None:
        return None
    if text.startswith(("{", r"\{")):
        return _braced(inner, is_set=text.startswith("\\"))
    pieces = _split(inner)
    if text.startswith("[") and len(pieces) == 2:
        return _interval(text) or Shape("value", text)
    if len(pieces) > 1:
        return _group("tuple", pieces)
    return read_shape(inner) if text[0] in "([" else Shape("value", text)


def _braced(inner: str, is_set: bool) -> Shape:
    r"""``\{1, 2\}``, ``{1, 2}``, ``{5}`` and ``\{x \mid x > 3\}``."""
    condition = re.split(r"\\mid(?![A-Za-z])|\||:", inner, maxsplit=1)
    if len(condition) == 2 and _NAME.fullmatch(condition[0].strip()):
        return read_shape(condition[1])
    pieces = _split(inner)
    return _group("set", pieces) if is_set or len(pieces) > 1 else read_shape(inner)


def _plus_minus(text: str) -> Shape | None:
    if r"\pm" not in text:
        return None
    signs = (("+", "-"), ("-", "+"))
    values = [text.replace(r"\pm", upper).replace(r"\mp", lower) for upper, lower in signs]
    return Shape("list", parts=tuple(Shape("value", value) for value in values))


def _group(kind: Kind, pieces: list[str]) -> Shape:
    if len(pieces) > MAX_PARTS:
        return Shape("value", ",".join(pieces))
    parts: list[Shape] = []
    for piece in pieces:
        part = _single(piece)
        parts.extend(part.parts if part.kind == "list" and kind != "tuple" else [part])
    return Shape(kind, parts=tuple(parts))


def _split(text: str) -> list[str]:
    """Split at commas, semicolons, "or" and "and" outside all brackets."""
    pieces, level, start = [], 0, 0
    for mark in re.finditer(r"[(\[{]|[)\]}]|" + _SEPARATOR.pattern, text, re.IGNORECASE):
        if mark.start() < start:
            continue
        if mark[0] in "([{":
            level += 1
        elif mark[0] in ")]}":
            level -= 1
        elif level <= 0:
            pieces.append(text[start : mark.start()])
            start = mark.end()
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()]


def _inside(text: str) -> str | None:
    """The text inside the brackets around the whole text; None if there are none."""
    for opening, closing in ((r"\{", r"\}"), (r"\langle", r"\rangle")):
        if text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)].strip()
    if text[:1] not in _CLOSE or text[-1:] != _CLOSE[text[0]]:
        return None
    level = 0
    for at, char in enumerate(text):
        level += (char in "([{") - (char in ")]}")
        if level == 0:
            return text[1:-1].strip() if at == len(text) - 1 else None
    return None


def _interval(text: str) -> Shape | None:
    text = text.strip()
    if text[:1] not in ("(", "[") or text[-1:] not in (")", "]"):
        return None
    ends = _split(text[1:-1])
    return Shape("interval", text[0] + text[-1], tuple(Shape("value", end) for end in ends)) if len(ends) == 2 else None


def _relation(text: str) -> Shape | None:
    found = list(_RELATION.finditer(text))
    if not found or len(found) > MAX_PARTS or any(_is_inside(text, mark.start()) for mark in found):
        return None
    starts, ends = [0, *(mark.end() for mark in found)], [*(mark.start() for mark in found), len(text)]
    sides = [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    operators = [_OPERATORS.get(mark[0], mark[0]) for mark in found]
    if not sides[0] and operators[0] == "=" and len(sides) == 2:  # "= 5" is the end of a longer text
        return _single(sides[1])
    if not all(sides):
        return None
    if all(operator == "=" for operator in operators):
        if len(sides) == 2:
            return _equation(*sides)
        return _named(sides[0], read_shape(sides[-1]))
    if len(sides) > 3:
        return None
    return _range(sides, operators)


def _is_inside(text: str, position: int) -> bool:
    before = text[:position]
    return sum(map(before.count, "([{")) != sum(map(before.count, ")]}"))


def _equation(left: str, right: str) -> Shape:
    if _NAME.fullmatch(left):
        return _named(left, read_shape(right))
    if _NAME.fullmatch(right):
        return _named(right, read_shape(left))
    return Shape("relation", "=", (Shape("value", left), Shape("value", right)))


def _named(name: str, shape: Shape) -> Shape:
    if shape.kind != "value" or not _NAME.fullmatch(name):
        return shape
    return Shape("value", shape.text, (), name.replace(" ", ""))


def _range(sides: list[str], operators: list[str]) -> Shape | None:
    """x > 3 and 3 < x <= 5 as intervals; another inequality as a relation."""
    if len(sides) == 3:
        if {operators[0][0], operators[1][0]} == {">"}:
            sides, operators = sides[::-1], [_FLIPPED[operator] for operator in operators[::-1]]
        if {operators[0][0], operators[1][0]} != {"<"} or not _NAME.fullmatch(sides[1]):
            return None
        brackets = ("[" if operators[0] == "<=" else "(") + ("]" if operators[1] == "<=" else ")")
        return Shape("interval", brackets, (Shape("value", sides[0]), Shape("value", sides[2])))
    left, right, operator = sides[0], sides[1], operators[0]
    if operator in _FLIPPED:
        left, right, operator = right, left, _FLIPPED[operator]
    closed = operator == "<="
    if operator != "!=" and _NAME.fullmatch(right) and is_constant(left):
        return Shape("interval", "[)" if closed else "()", (Shape("value", left), Shape("value", r"\infty")))
    if operator != "!=" and _NAME.fullmatch(left) and is_constant(right):
        return Shape("interval", "(]" if closed else "()", (Shape("value", r"-\infty"), Shape("value", right)))
    return Shape("relation", operator, (Shape("value", left), Shape("value", right)))


def is_constant(text: str) -> bool:
    """Whether a value's text has no variables."""
    return not _LETTERS.search(_CONSTANTS.sub("", text))
