"""Solve equations for one unknown that stands in them linearly, or as a reciprocal (``1/R = 1/a + 1/b``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from engine.mathematics.evaluation import evaluate
from engine.mathematics.functions import divided
from engine.mathematics.parsing.tree import Node, join
from engine.mathematics.values import FormulaValueError, Value, WorkBudget, checked, fail

_POINTS = (Fraction(1), Fraction(2), Fraction(-5, 2))  # neither |x|, floor(x) nor max(x, 0) is linear in these
_NOISE = 1e-9
_CLOSE = 1e-7

UNMEASURED = frozenset({"too_large", "unsolved"})
"""Kinds of failures of a run with changed values that show nothing about the rules."""


def solve(left: Node, right: Node, unknown: str, values: Mapping[str, Value], budget: WorkBudget) -> Value:
    """The only solution of ``left = right``; an exact fraction where the values are exact.

    Args:
        left, right: the sides.
        unknown: the name to solve for.
        values: numbers of all other names.
        budget: the work for all evaluations.

    Raises:
        FormulaValueError: ``no_solution`` (or every value is one), ``unsolved`` (an equation of another kind),
            ``too_large``.
    """
    for exponent in (1, -1):
        try:
            return _linear_root(left, right, unknown, exponent, values, budget)
        except FormulaValueError as error:
            if error.kind in ("too_large", "no_solution"):
                raise
        except OverflowError:  # an exact number is too large for a float
            fail("too_large", "a number is too large for a float")
    return fail("unsolved", f"the equation is not linear in {unknown}")


def _linear_root(
    left: Node, right: Node, unknown: str, exponent: int, values: Mapping[str, Value], budget: WorkBudget
) -> Value:
    """The solution of an equation that is linear in a power of the unknown: the zero of a line through two points."""
    difference = join("sub", left, right)
    at = [evaluate(difference, {**values, unknown: point**exponent}, budget) for point in _POINTS]
    is_exact = not any(isinstance(value, float) for value in at)
    slope = at[1] - at[0]
    bend: Value = at[2] - at[0] - slope * (_POINTS[2] - _POINTS[0])
    noise = 0 if is_exact else _NOISE * max(abs(float(value)) for value in at)
    if not -noise <= bend <= noise:
        fail("unsolved", "not linear")
    if not slope:  # a float may have lost the difference
        fail("no_solution" if is_exact else "unsolved", f"no value of {unknown}, or each, satisfies the equation")
    root: Value = 1 - divided(at[0], slope)
    if exponent < 0:
        root = divided(1, root) if root else fail("no_solution", f"{unknown} would be infinite")
    root = checked(root)
    try:
        sides = [evaluate(side, {**values, unknown: root}, budget) for side in (left, right)]
    except FormulaValueError as error:  # outside of a function's domain
        fail("too_large" if error.kind == "too_large" else "no_solution", error.what)
    if sides[0] != sides[1] and (is_exact or not math.isclose(*sides, rel_tol=_CLOSE, abs_tol=_CLOSE)):
        fail("no_solution", f"no value of {unknown} satisfies the equation")
    return root
