r"""Parse a normalised answer to its shape: one value, a tuple, a list of solutions, a set, an interval or an equation.

Policies:

* ``(1, 2)`` is ordered; ``\{1, 2\}`` and a bare list ``1, 2`` or ``x = 1 or x = 2`` are not. A bare list
  is compared with a tuple in order. A set never equals a tuple. Repetitions count, except in a set, among tuples, and
  where one value is given in several notations (``1/2 or 0.5``).
* ``1,024`` is one number; ``1,2`` is a list of two numbers.
* Open and closed ends of an interval differ; ``x > 3`` is ``(3, \infty)``; ``\pm 2`` is a list of two values. Several
  ``\pm`` are independent, except where there is a ``\mp``.
* An equation is a value only if it states one: ``x = 5``, ``f(2) = 5`` and ``|AB| = 5`` are 5; ``2x = 5``, ``x^2 = 5``
  and ``x^2 + y^2 = 25`` are equations, and equal other equations only. An answer ``m + n = 5`` is 5, because it cannot
  be solved for one unknown; an answer ``33 + 1 + 24 = 58`` is 58 if it is true. A truth ``x + y = 5`` is a line.
* ``1:2`` and "1 to 2" are ratios, whose terms are compared in order: they are no quotients, and are not reduced.
* A matrix of one row differs from one of one column; ``(1, 2)`` equals both.

``comparison`` compares shapes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, cycle, product
from typing import Literal

from engine.mathematics.parsing.tokens import FUNCTIONS

Kind = Literal["value", "tuple", "list", "set", "interval", "union", "relation", "matrix", "ratio"]

MINUS_INFINITY, INFINITY = r"-\infty", r"\infty"
_MAX_PARTS, _MAX_BRACKETS, _MAX_TERMS, _MAX_SIGNS = 100, 60, 8, 4

_THOUSANDS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\d)", re.ASCII)
_SEPARATOR = re.compile(
    r"\s*(?:[,;]\s*(?:OR)|[,;]|OR)\s*".replace(
        "OR",
        r"\\text\s*\{[\s,]*(?:or|and)\s*\}|\\lor(?![A-Za-z])|(?<![A-Za-z\\])(?:or|and)(?![A-Za-z])"
        r"|(?<=[\d)}\]])or(?=[A-Z(\[])|(?<=[A-Za-z\d)}\]\s])[和或与及](?=[A-Za-z\d(\[{\\\s-])",
    ),
    re.IGNORECASE,
)
_MEMBER = re.compile(r"^\\?[A-Za-z]\s*(?:\\in|\sin(?=\s*[(\[]))\s*")
_PLUS_MINUS = re.compile(r"\\(pm|mp)(?![A-Za-z])")
_SIGNS = {"pm": {"+": "+", "-": "-"}, "mp": {"+": "-", "-": "+"}}
_REALS = re.compile(
    r"(?:\\(?:mathbb|mathbf)\s*\{?\s*R\s*\}?|(?:\\text\s*\{\s*)?all real(?:s| numbers)\s*\}?|\\Re|R(?=\s+\{))"
    r"(?:\s*(?:\\setminus|\\backslash|-|\s)\s*\\?\{\s*(?P<point>[^{},;]+?)\s*\\?\})?",
    re.IGNORECASE,
)
_MATRIX = re.compile(
    r"(?P<open>[(\[]?)\s*\\begin\{(?P<kind>[pbB]?matrix|smallmatrix|array)\}(?:\{[^{}]*\})?"
    r"(?P<cells>(?:(?!\\begin).)*)\\end\{(?P=kind)\}\s*[)\]]?"
)
_ROW_END = re.compile(r"\\\\(?:\s*\[\s*-?[\d.]+\s*(?:pt|em|ex|mm|cm)\s*\])?")
_ROWS = re.compile(r"\[\s*\[[^\[\]]*\](?:\s*,\s*\[[^\[\]]*\])*\s*\]")
"""A matrix as lists in a list: ``[[1, 2], [3, 4]]``."""
_AND = re.compile(r"(?<![A-Za-z])and(?![A-Za-z])|\\land(?![A-Za-z])")
_COLUMN = re.compile(r"[(\[](?P<cells>[^()\[\]]+)[)\]]\s*\^\s*\{?\s*(?:T|\\top)\s*\}?")
_CONDITION = re.compile(r"(?P<name>[^|:]+?)\s*(?:\\in[^|:]*)?(?:\\mid(?![A-Za-z])|[|:])(?P<condition>.+)")
_LETTER = re.compile(r"\([a-h]\)")
_LABELLED = re.compile(r"\(?[A-Z]\)?:\s")
"""A choice with its text: "C: 42"."""
_COLON = re.compile(r"\s*:\s*")
_BETWEEN = re.compile(r"\s+(?:to|till|until|versus|vs\.?)\s+|\s*\\text\s*\{\s*to\s*\}\s*|\s*[到至]\s*")
"""Two values in an order. Between numbers, such a word would be read as a product of letters."""
_CLOSE = {"(": ")", "[": "]", "{": "}"}
_BRACKETS = frozenset("()[]{}")
_EMPTY_SET = re.compile(
    r"\\emptyset|\\varnothing|\\\{\s*\\\}|(?:\\text\s*\{)?\s*(?:(?:there\s+(?:is|are)\s+)?no\s+(?:real\s+)?solutions?(?:\s+exists?)?"
    r"|(?:the\s+)?empty\s+set|none)\s*\}?",
    re.IGNORECASE,
)

_RELATION = re.compile(r"\\(?:le|ge|ne|approx|equiv|lt|gt)(?![A-Za-z])|<=|>=|!=|==|[=<>]")
_SIGN_OF = {r"\le": "<=", r"\ge": ">=", r"\ne": "!=", r"\lt": "<", r"\gt": ">"}
_SIGN_OF |= dict.fromkeys(("==", r"\approx", r"\equiv"), "=")
_SUBSCRIPT = r"(?:_(?:\w|\{(?:[^{}]|\{[^{}]*\})*\}))?'*"
_ARGUMENT = r"(?:[A-Za-z]|-?\s*(?:\d+(?:\.\d+|\s*/\s*\d+)?|\\pi(?![A-Za-z])))"
_NAME = re.compile(
    r"(?:\\?[A-Za-z]+|\\(?:text|textbf|mathrm|mathbf|boldsymbol|vec|hat|overrightarrow)\s*\{\s*[A-Za-z]+(?:\s+[A-Za-z]+)*\s*\}"
    r"|\\(?:angle|overline)\s*\{?\s*[A-Z]{1,4}\s*\}?|m\\angle\s*[A-Z]+)"
    rf"{_SUBSCRIPT}(?:\s*\(\s*{_ARGUMENT}(?:\s*,\s*{_ARGUMENT})*\s*\))?"
)
_PRODUCT = re.compile(r"[a-z]{2,3}")
_WORD = re.compile(r"\\?([A-Za-z]*).*", re.DOTALL)
_NOT_NAMES = (FUNCTIONS.keys() - {"C", "P"}) | {"pi", "infty"}
_SEGMENT, _LONG_SEGMENT = rf"(?:[A-Z]{{2,3}}|[A-Za-z]{_SUBSCRIPT})", r"[A-Z]{2,3}"
_STATES_A_VALUE = re.compile(
    rf"\|\s*(?:{_LONG_SEGMENT}|\\(?:vec|mathbf|overrightarrow)\s*\{{?\s*[A-Za-z]+\s*\}}?)\s*\||\\\|[^|=]+\\\||\\lVert[^|=]+\\rVert|\[\s*[A-Z]{{3,}}\s*\]|{_SEGMENT}\s*:\s*{_SEGMENT}"
    rf"|\\frac\s*\{{\s*{_LONG_SEGMENT}\s*\}}\s*\{{\s*{_LONG_SEGMENT}\s*\}}|{_LONG_SEGMENT}\s*/\s*{_LONG_SEGMENT}"
    r"|\\(?:lim|int|det)(?![A-Za-z])[^=]*|[A-Za-z]\s*\^\s*\{\s*-\s*1\s*\}\s*\(\s*-?\d+\s*\)"
    r"|(?:P|E|Var|\\(?:Pr|(?:mathbb|mathrm|text|operatorname)\s*\{\s*(?:P|Pr|E|Var)\s*\}))\s*(?:\([^()=]*\)|\[[^\[\]=]*\])"
    r"|(?:[A-Za-z]\s*\(\s*[A-Za-z]|\(\s*[A-Za-z]\s*\\circ\s*[A-Za-z]\s*\))\s*\(\s*-?\d+\s*\)\s*\)?"
)
"""Lengths, areas, ratios, limits, probabilities, expectations, inverses and compositions at a number."""
_UNKNOWN = rf"(?:[A-Z]{{2,3}}|\\[A-Za-z]+|[A-Za-z]{_SUBSCRIPT})"
_ASKED_FOR = re.compile(rf"{_UNKNOWN}(?:\s*(?:[-+/*]|\\cdot|\\times)?\s*{_UNKNOWN})+")
_FRACTION = re.compile(r"\\frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_CONSTANTS = re.compile(r"\\(?:pi|sqrt|frac|cdot|times|infty)(?![A-Za-z])|(?<![A-Za-z\\])(?:sqrt|pi|e)(?![A-Za-z])")


@dataclass(frozen=True, slots=True)
class Shape:
    """An answer or a part of one.

    Args:
        kind: the kind of shape.
        text: the text of a value, the brackets of an interval (``[)``), the sign of a relation
            (``=``, ``<``, ``<=``, ``!=``), or ``:`` or ``to`` for a ratio.
        parts: the shapes inside; the sides of a relation; the rows of a matrix, which are tuples.
        name: the name of a value (``x`` in ``x = 5``) or of an interval's variable (``x > 3``).
    """

    kind: Kind
    text: str = ""
    parts: tuple[Shape, ...] = ()
    name: str = ""


def read_shape(text: str) -> Shape:
    """Read a normalised text. A text without structure is one value."""
    text = text.strip()
    if sum(map(text.count, "([{")) > _MAX_BRACKETS:
        return Shape("value", text)
    shape = _reals(text) or _matrix(text) or _union(text)
    if shape is not None:
        return shape
    if "," in text and (", " in text or text[:1] not in "([{\\"):  # "(1,024)" is a pair
        text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
    pieces = _split(text)
    if len(pieces) < 2:
        return _single(text)
    shape = _group("list", pieces)
    are_both = _AND.search(text) and [(part.kind, bool(part.name)) for part in shape.parts] == 2 * [("interval", True)]
    return _common(shape.parts) if are_both else shape


def _common(ranges: Sequence[Shape]) -> Shape:
    """``x > 1 and x < 2`` as an interval."""
    low, high = sorted(ranges, key=lambda shape: shape.parts[0].text == MINUS_INFINITY)
    return Shape("interval", low.text[0] + high.text[1], (low.parts[0], high.parts[1]), low.name)


def interval(brackets: str, low: str, high: str, name: str = "") -> Shape:
    """The interval between two values."""
    return Shape("interval", brackets, (Shape("value", low), Shape("value", high)), name)


def as_interval(shape: Shape) -> Shape:
    """A pair as an open interval; another shape as it is."""
    if shape.kind == "tuple" and len(shape.parts) == 2:
        return Shape("interval", "()", shape.parts)
    return shape


def all_but(point: str) -> Shape:
    """The real numbers without one."""
    return Shape("union", parts=(interval("()", MINUS_INFINITY, point), interval("()", point, INFINITY)))


def is_name(text: str) -> bool:
    r"""Whether a text is one name: ``x_1``, ``f(x)``, ``P(A)``, ``AB``, ``\angle ABC``, ``total``; ``xy`` is not."""
    return (
        not _PRODUCT.fullmatch(text) and _NAME.fullmatch(text) is not None and _WORD.sub(r"\1", text) not in _NOT_NAMES
    )


def is_asked_for(text: str) -> bool:
    """Whether a text is a sum, product or quotient of different unknowns: ``m + n``, ``a/b``; not ``2x`` and ``x^2``.

    Such an expression cannot be solved for one unknown, so ``m + n = 5`` states its value.
    """
    text = _FRACTION.sub(r"\1/\2", text).replace(r"\cdot", "*").replace(r"\times", "*")
    unknowns = re.findall(_UNKNOWN, text)
    is_function = any(name.lstrip("\\") in FUNCTIONS for name in re.findall(r"\\?[A-Za-z]+", text))
    return _ASKED_FOR.fullmatch(text) is not None and len(set(unknowns)) == len(unknowns) and not is_function


def is_constant(text: str) -> bool:
    """Whether a value's text has no variables."""
    return not re.search("[A-Za-z]", _CONSTANTS.sub("", text))


def _reals(text: str) -> Shape | None:
    r"""``\mathbb{R}``, ``\mathbb{R} \setminus \{0\}`` and ``R \ {0}``, whose backslash is a space in LaTeX."""
    match = _REALS.fullmatch(text)
    if match is None:
        return None
    return all_but(match["point"].strip()) if match["point"] else interval("()", MINUS_INFINITY, INFINITY)


def _union(text: str) -> Shape | None:
    if r"\cup" not in text:
        return None
    pieces = [_single(piece.strip()) for piece in _MEMBER.sub("", text).split(r"\cup")]
    is_union = all(piece.kind in ("interval", "set", "tuple") for piece in pieces)
    return Shape("union", parts=tuple(map(as_interval, pieces))) if is_union else None


def _matrix(text: str) -> Shape | None:
    r"""``\begin{pmatrix} 1 \\ 2 \end{pmatrix}``, an array in brackets, lists in a list, and ``(1, 2)^T``."""
    if column := _COLUMN.fullmatch(text):
        rows = [[cell] for cell in _split(column["cells"])]
    elif _ROWS.fullmatch(text):
        rows = [_split(row.strip()[1:-1]) for row in _split(text[1:-1])]
    else:
        match = _MATRIX.fullmatch(text) if r"\begin{" in text else None
        if match is None or (match["kind"] == "array" and not match["open"]):
            return None
        rows = [[cell.strip() for cell in row.split("&")] for row in _ROW_END.split(match["cells"]) if row.strip()]
    if not rows or not rows[0] or len({len(row) for row in rows}) > 1:
        return None
    return Shape("matrix", parts=tuple(Shape("tuple", parts=tuple(map(read_shape, row))) for row in rows))


def _single(text: str) -> Shape:
    """A text without separators outside its brackets."""
    for read in (_matrix, _member, _relation, _bracketed, _interval, _plus_minus, _ratio):
        shape = read(text)
        if shape is not None:
            return shape
    return Shape("set") if _EMPTY_SET.fullmatch(text) else Shape("value", text)


def _ratio(text: str) -> Shape | None:
    """``1:2:3`` and "3 to 5"."""
    for sign, separator in ((":", _COLON), ("to", _BETWEEN)):
        pieces = _split(text, separator)
        if 2 <= len(pieces) <= _MAX_TERMS and not _LABELLED.match(text):
            return Shape("ratio", sign, tuple(Shape("value", piece) for piece in pieces))
    return None


def _member(text: str) -> Shape | None:
    r"""``x \in [1, 2]``."""
    member = _MEMBER.match(text)
    return read_shape(text[member.end() :]) if member else None


def _bracketed(text: str) -> Shape | None:
    inner = _inside(text)
    if inner is None:
        return None
    if _LETTER.fullmatch(text):  # a choice
        return Shape("value", text)
    pieces = _split(inner)
    if text[0] in "{\\":
        condition = _CONDITION.fullmatch(inner)
        if condition and is_name(condition["name"]):
            return read_shape(condition["condition"])
        return _group("set", pieces) if text[0] == "\\" or len(pieces) > 1 else read_shape(inner)
    if text[0] == "[" and len(pieces) == 2:
        return interval("[]", *pieces)
    return _group("tuple", pieces) if len(pieces) > 1 else read_shape(inner)


def _plus_minus(text: str) -> Shape | None:
    marks = list(_PLUS_MINUS.finditer(text))
    if not 0 < len(marks) <= _MAX_SIGNS:
        return None
    are_tied = any(mark[1] == "mp" for mark in marks)

    def with_signs(choice: tuple[str, ...]) -> str:
        signs = cycle(choice)
        return _PLUS_MINUS.sub(lambda mark: _SIGNS[mark[1]][next(signs)], text)

    choices = product("+-", repeat=1 if are_tied else len(marks))
    return Shape("list", parts=tuple(map(_single, map(with_signs, choices))))


def _group(kind: Kind, pieces: list[str]) -> Shape:
    if len(pieces) > _MAX_PARTS:
        return Shape("value", ",".join(pieces))
    parts: list[Shape] = []
    for piece in pieces:
        shape = _single(piece)
        parts.extend(shape.parts if shape.kind == "list" and kind != "tuple" else [shape])
    return Shape(kind, parts=tuple(parts))


def _split(text: str, separator: re.Pattern[str] = _SEPARATOR) -> list[str]:
    """Split at commas, semicolons, "or" and "and", or at another separator, outside all brackets."""
    pieces, level, start = [], 0, 0
    for mark in re.finditer(r"[(\[{]|[)\]}]|" + separator.pattern, text, re.IGNORECASE):
        if mark.start() < start:
            continue
        if mark[0] in _BRACKETS:
            level += 1 if mark[0] in _CLOSE else -1
        elif level <= 0:
            pieces.append(text[start : mark.start()])
            start = mark.end()
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()]


def _levels(text: str) -> list[int]:
    """How many brackets are open after each character."""
    return list(accumulate((char in "([{") - (char in ")]}") for char in text))


def _inside(text: str) -> str | None:
    """The text inside the brackets around the whole text; None if there are none."""
    if text.startswith(r"\{") and text.endswith(r"\}"):
        return text[2:-2].strip()
    if text[:1] not in _CLOSE or text[-1:] != _CLOSE[text[0]]:
        return None
    levels = _levels(text)
    return text[1:-1].strip() if levels[-1] == 0 and 0 not in levels[:-1] else None


def _interval(text: str) -> Shape | None:
    """``[1, 2)``, whose brackets differ."""
    if text[:1] not in ("(", "[") or text[-1:] not in (")", "]"):
        return None
    ends = _split(text[1:-1])
    return interval(text[0] + text[-1], *ends) if len(ends) == 2 else None


def _relation(text: str) -> Shape | None:
    """``x = 5``, ``3 < x <= 5`` and ``33 + 1 = 34``."""
    marks, levels = list(_RELATION.finditer(text)), _levels(text)
    if not 0 < len(marks) <= _MAX_PARTS or any(levels[mark.start()] for mark in marks):
        return None
    sides = [side.strip() for side in _RELATION.split(text)]
    if marks[-1][0] == r"\approx" and is_constant(sides[-2]) and is_constant(sides[-1]):  # x = 1/3 \approx 0.333
        sides, marks = sides[:-1], marks[:-1]
    signs = [_SIGN_OF.get(mark[0], mark[0]) for mark in marks]
    if not sides[0] and signs == ["="]:  # "= 5" is the end of a longer text
        return _single(sides[1])
    if not all(sides):
        return None
    if set(signs) <= {"="}:
        return _equation(sides) if len(sides) > 1 else _single(sides[0])
    return _inequality(sides, signs) if len(sides) <= 3 else None


def _equation(sides: list[str]) -> Shape:
    left, right = sides[0], sides[-1]
    unknowns = _split(left[1:-1]) if left.startswith("(") and left.endswith(")") else []
    if len(unknowns) > 1 and all(map(is_name, unknowns)):
        named = read_shape(right)  # of (p, q) = (3, 2)
        if named.kind not in ("tuple", "list") or len(named.parts) != len(unknowns):
            return named
        parts = zip(unknowns, named.parts, strict=True)
        return Shape("tuple", parts=tuple(replace(part, name=name) for name, part in parts))
    if is_name(left) or _STATES_A_VALUE.fullmatch(left):
        shape = read_shape(right)
        return replace(shape, name=left.replace(" ", "")) if shape.kind == "value" and is_name(left) else shape
    compared = sides if all(map(is_constant, sides)) else (left, right)
    return Shape("relation", "=", tuple(Shape("value", side) for side in compared))


def _inequality(sides: Sequence[str], signs: Sequence[str]) -> Shape | None:
    """x > 3 and 3 < x <= 5 as intervals; another inequality as a relation."""
    if {sign[0] for sign in signs} == {">"}:
        sides, signs = sides[::-1], [sign.replace(">", "<") for sign in signs[::-1]]
    starts, ends = ["[" if sign == "<=" else "(" for sign in signs], ["]" if sign == "<=" else ")" for sign in signs]
    if len(sides) == 3:
        low, middle, high = sides
        is_between = is_name(middle) and {sign[0] for sign in signs} == {"<"}
        return interval(starts[0] + ends[1], low, high, middle) if is_between else None
    left, right = sides
    if signs != ["!="]:
        if is_name(right) and is_constant(left):
            return interval(starts[0] + ")", left, INFINITY, right)
        if is_name(left) and is_constant(right):
            return interval("(" + ends[0], MINUS_INFINITY, right, left)
    return Shape("relation", signs[0], (Shape("value", left), Shape("value", right)))
