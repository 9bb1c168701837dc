"""Read a cleaned text as a shape: one value, a tuple, a list of solutions, a set, an interval or an equation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, cycle, product

from engine.answers.matrices import as_formula, read_cells
from engine.answers.relations import exact_part, is_asked_for, is_constant, is_name, names_a_value, split_relation
from engine.answers.shapes import INFINITY, MINUS_INFINITY, Kind, Shape, all_but, as_interval, inequality, interval

MAX_PARTS = 100
_MAX_BRACKETS = 60

_THOUSANDS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\d)", re.ASCII)
_OR = (
    r"(?:\\text\s*\{[\s,]*(?:or|and)\s*\}|\\lor(?![A-Za-z])|(?<![A-Za-z\\])(?:or|and)(?![A-Za-z])"
    r"|(?<=[\d)}\]])or(?=[A-Z(\[])|(?<=[A-Za-z\d)}\]\s])[和或与及](?=[A-Za-z\d(\[{\\\s-]))"
)
_SEPARATOR = re.compile(rf"\s*(?:[,;]\s*{_OR}|[,;]|{_OR})\s*", re.IGNORECASE)
_PLAIN = re.compile(r"[-+]?\d+(?:\.\d+)?|[A-Za-z]", re.ASCII)
_GROUPS = re.compile(r"\s*(?:;|\\text\s*\{[\s,]*or\s*\}|\\lor(?![A-Za-z])|(?<![A-Za-z\\])or(?![A-Za-z]))\s*")
_MEMBER = re.compile(r"^\\?[A-Za-z]\s*(?:\\in|\sin(?=\s*[(\[]))\s*")
_PLUS_MINUS = re.compile(r"\\(pm|mp)(?![A-Za-z])")
_MAX_SIGNS = 4
_SIGNS = {"pm": {"+": "+", "-": "-"}, "mp": {"+": "-", "-": "+"}}
_REAL_NUMBERS = r"(?:\\(?:mathbb|mathbf)\s*\{?\s*R\s*\}?|(?:\\text\s*\{\s*)?all real(?:s| numbers)\s*\}?|\\Re)"
_REALS = re.compile(
    rf"{_REAL_NUMBERS}(?:\s*(?:\\setminus|\\backslash|-)\s*\\\{{(?P<point>[^{{}},;]+)\\\}})?", re.IGNORECASE
)
_ALL_BUT = re.compile(r"R\s+\{\s*(?P<point>[^{}\s,;]+)\s*\}")
r"""``R \ {0}``, whose backslash is a space in LaTeX."""
_OF_REALS = re.compile(rf"\s*\\in\s*{_REAL_NUMBERS}$", re.IGNORECASE)
_BOTH = re.compile(r"\s*(?:\\text\s*\{\s*and\s*\}|\\(?:land|wedge)(?![A-Za-z])|(?<![A-Za-z\\])and(?![A-Za-z]))\s*")
_REVERSED = re.compile(r"([(\[\]])([^()\[\]]+[,;][^()\[\]]+)([)\]\[])")
_ROWS = re.compile(r"\[\s*\[[^\[\]]*\](?:\s*,\s*\[[^\[\]]*\])*\s*\]")
"""A matrix as lists in a list: ``[[1, 2], [3, 4]]``."""
_TRANSPOSED = re.compile(r"\s*\^\s*(?:T|\{\s*T\s*\}|\\top|\{\s*\\top\s*\})$")
_SYSTEM = re.compile(
    r"(?:\\\{\s*)?\\begin\{(?P<kind>cases|array|aligned)\}(?:\{[lcr]*\})?(?P<rows>[^<>]*)\\end\{(?P=kind)\}\s*\.?"
)
_LETTER = re.compile(r"\([a-h]\)")
_LABELLED = re.compile(r"\(?[A-Z]\)?:\s")
"""A choice with its text: "C: 42"."""
_COLON = re.compile(r"\s*:\s*")
_MAX_TERMS = 8
_BETWEEN = re.compile(
    r"(?P<left>[^\s,;]{1,20}?)\s*(?:\s(?:to|till|until|versus|vs\.?)\s|\\text\s*\{\s*to\s*\}|到|至)\s*(?P<right>\S[^,;]{0,40})"
)
"""Two values in an order. Between numbers, such a word would be read as a product of letters."""
_CLOSE = {"(": ")", "[": "]", "{": "}"}
_EMPTY_SET = re.compile(
    r"\\emptyset|\\varnothing|\\\{\s*\\\}|(?:\\text\s*\{)?\s*(?:(?:there\s+(?:is|are)\s+)?no\s+(?:real\s+)?solutions?(?:\s+exists?)?"
    r"|(?:the\s+)?empty\s+set|none)\s*\}?",
    re.IGNORECASE,
)


def read_shape(text: str) -> Shape:
    """Read a cleaned text. A text without structure is one value."""
    text = text.strip()
    if _PLAIN.fullmatch(text):
        return Shape("value", text)
    if sum(map(text.count, "([{")) > _MAX_BRACKETS:
        return Shape("value", text)
    text = _system(_standard_brackets(text))
    for read in (_reals, _matrix, _union, _both, _groups):
        shape = read(text)
        if shape is not None:
            return shape
    if _has_bare_thousands(text):
        text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
    pieces = _split(text)
    return _group("list", pieces) if len(pieces) > 1 else _single(text)


def _standard_brackets(text: str) -> str:
    """``]1, 2]`` as ``(1, 2]``."""
    if not any(_REVERSED.fullmatch(piece.strip()) for piece in text.split(r"\cup")):
        return text
    return _REVERSED.sub(lambda found: found[1].replace("]", "(") + found[2] + found[3].replace("[", ")"), text)


def _system(text: str) -> str:
    """A system of equations, one in each row, as a list of equations."""
    found = _SYSTEM.fullmatch(text) if r"\begin" in text else None
    rows = [row.replace("&=", "=").strip(" ,;") for row in found["rows"].split(r"\\") if row.strip()] if found else []
    return ", ".join(rows) if rows and all("=" in row and "&" not in row for row in rows) else text


def _reals(text: str) -> Shape | None:
    r"""``\mathbb{R}`` and ``\mathbb{R} \setminus \{0\}``."""
    found = _REALS.fullmatch(text) or _ALL_BUT.fullmatch(text)
    if found is None:
        return None
    if found["point"]:
        return all_but(found["point"].strip())
    return interval("()", MINUS_INFINITY, INFINITY)


def _both(text: str) -> Shape | None:
    """``x > 1 and x < 2`` as an interval."""
    pieces = _split(text, _BOTH)
    if len(pieces) != 2:
        return None
    low, high = sorted(
        map(_single, pieces), key=lambda piece: [end.text for end in piece.parts[:1]] == [MINUS_INFINITY]
    )
    if low.kind != "interval" or high.kind != "interval" or low.name != high.name or not low.name:
        return None
    if low.parts[1].text != INFINITY or high.parts[0].text != MINUS_INFINITY:
        return None
    return Shape("interval", low.text[0] + high.text[1], (low.parts[0], high.parts[1]), low.name)


def _union(text: str) -> Shape | None:
    if r"\cup" not in text:
        return None
    pieces = [_single(piece.strip()) for piece in _MEMBER.sub("", text).split(r"\cup")]
    is_union = all(piece.kind in ("interval", "set", "tuple") for piece in pieces)
    return Shape("union", parts=tuple(map(as_interval, pieces))) if is_union else None


def _matrix(text: str) -> Shape | None:
    if _ROWS.fullmatch(text):
        lists = [_split(row.strip()[1:-1]) for row in _split(text[1:-1])]
        return _rows(lists) if lists[0] and len({len(row) for row in lists}) == 1 else None
    transposed = _TRANSPOSED.search(text) if text.endswith(("T", "}", "top")) else None
    inner = _inside(text[: transposed.start()]) if transposed and text[0] in "([" else None
    if inner is not None and "(" not in inner and "[" not in inner and len(entries := _split(inner)) > 1:
        return _rows([[entry] for entry in entries])
    cells = read_cells(text)
    if cells is None:
        return None
    is_determinant, rows = cells
    if is_determinant:
        return Shape("value", as_formula(rows) or text)
    return _rows(rows)


def _rows(rows: Sequence[Sequence[str]]) -> Shape:
    return Shape("matrix", parts=tuple(Shape("tuple", parts=tuple(map(read_shape, row))) for row in rows))


def _groups(text: str) -> Shape | None:
    """Several assignments: ``p = 5, q = 2; p = 7, q = 2``, also with "or" between them."""
    if "=" not in text or not _GROUPS.search(text):
        return None
    groups = [_split(group) for group in _split(text, _GROUPS)]
    if len(groups) < 2 or any(len(group) < 2 or not all("=" in piece for piece in group) for group in groups):
        return None
    return Shape("list", parts=tuple(_group("tuple", group) for group in groups))


def _has_bare_thousands(text: str) -> bool:
    """Whether "1,024" is a number: alone, or in a list with a space after each comma. "(1,024)" is a pair."""
    return "," in text and (", " in text or text[:1] not in "([{\\") and _THOUSANDS.search(text) is not None


def _single(text: str) -> Shape:
    """A text without separators outside its brackets."""
    if _PLAIN.fullmatch(text):
        return Shape("value", text)
    for read in (_matrix, _member, _relation, _bracketed, _interval, _plus_minus, _ratio):
        shape = read(text)
        if shape is not None:
            return shape
    return Shape("set") if _EMPTY_SET.fullmatch(text) else Shape("value", text)


def _ratio(text: str) -> Shape | None:
    """``1:2:3`` and "3 to 5"."""
    if ":" in text and not _LABELLED.match(text):
        pieces = _split(text, _COLON)
        if 2 <= len(pieces) <= _MAX_TERMS and text.count(":") == len(pieces) - 1:
            return Shape("ratio", ":", tuple(Shape("value", piece) for piece in pieces))
    pieces = []
    while between := _BETWEEN.fullmatch(text):
        pieces.append(between["left"])
        text = between["right"]
    return Shape("ratio", "to", tuple(Shape("value", piece) for piece in (*pieces, text))) if pieces else None


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
    if len(condition) == 2 and is_name(_OF_REALS.sub("", condition[0].strip())):
        return read_shape(condition[1])
    pieces = _split(inner)
    return _group("set", pieces) if is_set or len(pieces) > 1 else read_shape(inner)


def _plus_minus(text: str) -> Shape | None:
    found = list(_PLUS_MINUS.finditer(text))
    if not 0 < len(found) <= _MAX_SIGNS:
        return None
    are_tied = any(mark[1] == "mp" for mark in found)

    def with_signs(choice: tuple[str, ...]) -> str:
        signs = cycle(choice)
        return _PLUS_MINUS.sub(lambda mark: _SIGNS[mark[1]][next(signs)], text)

    choices = product("+-", repeat=1 if are_tied else len(found))
    return Shape("list", parts=tuple(map(_single, map(with_signs, choices))))


def _group(kind: Kind, pieces: list[str]) -> Shape:
    if len(pieces) > MAX_PARTS:
        return Shape("value", ",".join(pieces))
    parts: list[Shape] = []
    for piece in pieces:
        part = _single(piece)
        parts.extend(part.parts if part.kind == "list" and kind != "tuple" else [part])
    return Shape(kind, parts=tuple(parts))


def _split(text: str, separator: re.Pattern[str] = _SEPARATOR) -> list[str]:
    """Split at commas, semicolons, "or" and "and" outside all brackets."""
    pieces, level, start = [], 0, 0
    for mark in re.finditer(r"[(\[{]|[)\]}]|" + separator.pattern, text, re.IGNORECASE):
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
    if text.startswith(r"\{") and text.endswith(r"\}"):
        return text[2:-2].strip()
    if text[:1] not in _CLOSE or text[-1:] != _CLOSE[text[0]]:
        return None
    levels = list(accumulate((char in "([{") - (char in ")]}") for char in text))
    return text[1:-1].strip() if levels[-1] == 0 and 0 not in levels[:-1] else None


def _interval(text: str) -> Shape | None:
    text = text.strip()
    if text[:1] not in ("(", "[") or text[-1:] not in (")", "]"):
        return None
    ends = _split(text[1:-1])
    return interval(text[0] + text[-1], *ends) if len(ends) == 2 else None


def _relation(text: str) -> Shape | None:
    found = split_relation(text, MAX_PARTS)
    if found is None:
        return None
    sides, signs = found
    if not sides[0] and signs in (["="], ["~"]):  # "= 5" is the end of a longer text
        return _single(sides[1])
    if not all(sides):
        return None
    sides, signs = exact_part(sides, signs)
    if set(signs) <= {"="}:
        return _equation(sides) if len(sides) > 1 else _single(sides[0])
    return inequality(sides, signs) if len(sides) <= 3 else None


def _equation(sides: list[str]) -> Shape:
    left, right = sides[0], sides[-1]
    unknowns = _split(left[1:-1]) if left.startswith("(") and left.endswith(")") else []
    if len(unknowns) > 1 and all(map(is_name, unknowns)):
        return _with_names(unknowns, read_shape(right))
    if names_a_value(left):
        return _named(left, read_shape(right))
    if len(sides) == 2 and names_a_value(right):
        return _named(right, read_shape(left))
    if len(sides) > 2 and (is_asked_for(left) or any(map(names_a_value, sides[:-1]))):
        return read_shape(right)
    compared = sides if all(map(is_constant, sides)) else (left, right)
    return Shape("relation", "=", tuple(Shape("value", side) for side in compared))


def _with_names(names: list[str], shape: Shape) -> Shape:
    """``(p, q) = (3, 2)``."""
    if shape.kind not in ("tuple", "list") or len(shape.parts) != len(names):
        return shape
    return Shape("tuple", parts=tuple(replace(part, name=name) for name, part in zip(names, shape.parts, strict=True)))


def _named(name: str, shape: Shape) -> Shape:
    if shape.kind != "value" or not is_name(name):
        return shape
    return Shape("value", shape.text, (), name.replace(" ", ""))
