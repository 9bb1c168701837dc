r"""The sides of relations such as ``x = 5``, ``3 < x \le 5`` and ``33 + 1 = 34``. Only text is read."""

from __future__ import annotations

import re

from engine.mathematics.parsing.tokens import FUNCTIONS

APPROXIMATELY = "~"
_RELATION = re.compile(r"\\(?:le|ge|ne|approx|lt|gt)(?![A-Za-z])|<=|>=|!=|==|[=<>]")
_SIGNS = {r"\le": "<=", r"\ge": ">=", r"\ne": "!=", "==": "=", r"\lt": "<", r"\gt": ">", r"\approx": APPROXIMATELY}

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
_SEGMENT = rf"(?:[A-Z]{{2,3}}|[A-Za-z]{_SUBSCRIPT})"
_LONG_SEGMENT = r"[A-Z]{2,3}"
_MEASURED = re.compile(
    rf"\|\s*(?:{_LONG_SEGMENT}|\\(?:vec|mathbf|overrightarrow)\s*\{{?\s*[A-Za-z]+\s*\}}?)\s*\||\\\|[^|=]+\\\||\\lVert[^|=]+\\rVert|\[\s*[A-Z]{{3,}}\s*\]|{_SEGMENT}\s*:\s*{_SEGMENT}"
    rf"|\\frac\s*\{{\s*{_LONG_SEGMENT}\s*\}}\s*\{{\s*{_LONG_SEGMENT}\s*\}}|{_LONG_SEGMENT}\s*/\s*{_LONG_SEGMENT}"
)
_OPERATION = re.compile(
    r"\\(?:lim|int|det)(?![A-Za-z])[^=]*|[A-Za-z]\s*\^\s*\{\s*-\s*1\s*\}\s*\(\s*-?\d+\s*\)"
    r"|(?:P|E|Var|\\(?:Pr|(?:mathbb|mathrm|text|operatorname)\s*\{\s*(?:P|Pr|E|Var)\s*\}))\s*(?:\([^()=]*\)|\[[^\[\]=]*\])"
    r"|(?:[A-Za-z]\s*\(\s*[A-Za-z]|\(\s*[A-Za-z]\s*\\circ\s*[A-Za-z]\s*\))\s*\(\s*-?\d+\s*\)\s*\)?"
)
"""Limits, probabilities, expectations, inverses and compositions at a number: each has one value."""
_UNKNOWN = re.compile(rf"{_LONG_SEGMENT}|\\?[A-Za-z]+{_SUBSCRIPT}")
_BETWEEN_UNKNOWNS = re.compile(r"\s*(?:[-+/*]|\\cdot|\\times)?\s*")
_FRACTION = re.compile(r"\\frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_LETTERS = re.compile(r"[A-Za-z]")
_CONSTANTS = re.compile(r"\\(?:pi|sqrt|frac|cdot|times|infty)(?![A-Za-z])|(?<![A-Za-z\\])(?:sqrt|pi|e)(?![A-Za-z])")


def split_relation(text: str, most: int) -> tuple[list[str], list[str]] | None:
    """The sides of a relation and the signs between them; None without signs, or with more than ``most`` of them."""
    found = list(_RELATION.finditer(text))
    if not found or len(found) > most or any(_is_inside(text, mark.start()) for mark in found):
        return None
    starts, ends = [0, *(mark.end() for mark in found)], [*(mark.start() for mark in found), len(text)]
    sides = [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    return sides, [_SIGNS.get(mark[0], mark[0]) for mark in found]


def exact_part(sides: list[str], signs: list[str]) -> tuple[list[str], list[str]]:
    r"""A chain of equations without the decimals at its end: ``x = 1/3 \approx 0.333`` is ``x = 1/3``.

    Where one of the two is no constant, for example because it has a unit, the last side is the value.
    """
    if set(signs) == {"=", APPROXIMATELY} or signs.count(APPROXIMATELY) > 1 or signs == [APPROXIMATELY]:
        first = signs.index(APPROXIMATELY)
        if is_constant(sides[first]) and is_constant(sides[-1]):
            sides, signs = sides[: first + 1], signs[:first]
    return sides, ["=" if sign == APPROXIMATELY else sign for sign in signs]


def is_name(text: str) -> bool:
    r"""Whether a text is one name: ``x_1``, ``f(x)``, ``P(A)``, ``AB``, ``\angle ABC``, ``total``; ``xy`` is not."""
    return (
        not _PRODUCT.fullmatch(text) and _NAME.fullmatch(text) is not None and _WORD.sub(r"\1", text) not in _NOT_NAMES
    )


def names_a_value(text: str) -> bool:
    r"""Whether ``text = 5`` states a value: a name, or a length, an area or a ratio, such as ``|AB|`` and ``AB:CD``."""
    return is_name(text) or any(pattern.fullmatch(text) is not None for pattern in (_MEASURED, _OPERATION))


def is_asked_for(text: str) -> bool:
    """Whether a text is a sum, product or quotient of different unknowns: ``m + n``, ``a/b``; not ``2x`` and ``x^2``.

    Such an expression cannot be solved for one unknown, so ``m + n = 5`` states its value.
    """
    text = _FRACTION.sub(r"\1/\2", text)
    unknowns: list[str] = []
    at = 0
    while at < len(text):
        found = _UNKNOWN.match(text, at)
        letters = list(found[0]) if found and _PRODUCT.fullmatch(found[0]) else [found[0]] if found else []
        if found is None or found[0].lstrip("\\") in FUNCTIONS or set(letters) & set(unknowns):
            return False
        unknowns += letters
        between = _BETWEEN_UNKNOWNS.match(text, found.end())
        at = between.end() if between else len(text)
    return len(unknowns) == len(set(unknowns)) > 1 and not text.rstrip().endswith(
        ("+", "-", "/", "*", "\\cdot", "\\times")
    )


def is_constant(text: str) -> bool:
    """Whether a value's text has no variables."""
    return not _LETTERS.search(_CONSTANTS.sub("", text))


def _is_inside(text: str, position: int) -> bool:
    before = text[:position]
    return sum(map(before.count, "([{")) != sum(map(before.count, ")]}"))
