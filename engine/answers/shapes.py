r"""The shape of an answer: one value, a tuple, a list of solutions, a set, an interval or an equation.

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
* ``1:2`` is a ratio and equals 2:4 and 1/2, but no integer; ``1:2:3`` is no quotient. "3 to 5" is ordered and is not
  reduced, because it may be a range or a score.
* A matrix of one row differs from one of one column; ``(1, 2)`` equals both. A determinant is a number.

``shape_reading`` reads shapes, and ``comparison`` compares them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from engine.answers.relations import is_constant, is_name

Kind = Literal["value", "tuple", "list", "set", "interval", "union", "relation", "matrix", "ratio"]

MINUS_INFINITY, INFINITY = r"-\infty", r"\infty"
_SIZE = re.compile(r"\|\s*([^|]+?)\s*\||\\lvert\s*(.+?)\s*\\rvert")
_MIRRORED = str.maketrans("()[]", ")(][")


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


def inequality(sides: list[str], signs: list[str]) -> Shape | None:
    """x > 3 and 3 < x <= 5 as intervals; another inequality as a relation."""
    if {sign[0] for sign in signs} == {">"}:
        sides, signs = sides[::-1], [sign.replace(">", "<") for sign in signs[::-1]]
    starts, ends = ["[" if sign == "<=" else "(" for sign in signs], ["]" if sign == "<=" else ")" for sign in signs]
    if len(sides) == 3:
        return _between(sides, starts[0] + ends[1]) if {sign[0] for sign in signs} == {"<"} else None
    left, right = sides
    if signs != ["!="]:
        if sized := _sized(left, right, starts[0], ends[0]):
            return sized
        if is_name(right) and is_constant(left):
            return interval(starts[0] + ")", left, INFINITY, right)
        if is_name(left) and is_constant(right):
            return interval("(" + ends[0], MINUS_INFINITY, right, left)
    return Shape("relation", signs[0], (Shape("value", left), Shape("value", right)))


def _sized(left: str, right: str, start: str, end: str) -> Shape | None:
    """``|x| < 3`` as an interval, and ``3 < |x|`` as a union; z may be complex."""
    below = _SIZE.fullmatch(left)
    size, bound = below or _SIZE.fullmatch(right), right if below else left
    name = (size[1] or size[2]) if size else "z"
    if name == "z" or len(name) > 1 or not is_name(name) or not is_constant(bound) or bound.startswith("-"):
        return None
    if below:
        return interval(start + end, f"-({bound})", bound, name)
    sides = (interval("(" + end, MINUS_INFINITY, f"-({bound})"), interval(start + ")", bound, INFINITY))
    return Shape("union", parts=sides)


def _between(sides: list[str], brackets: str) -> Shape | None:
    """``1 < x <= 2``, and ``1 < |x| <= 2`` as a union."""
    low, middle, high = sides
    if is_name(middle):
        return interval(brackets, low, high, middle)
    size = _SIZE.fullmatch(middle)
    if size is None or not is_name(size[1] or size[2]) or low.startswith("-"):
        return None
    negative = interval(brackets[::-1].translate(_MIRRORED), f"-({high})", f"-({low})")
    return Shape("union", parts=(negative, interval(brackets, low, high)))
