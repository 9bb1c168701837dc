"""Solve equations for one unknown: quotients of polynomials of degree 1 and 2. Others have no value."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from engine.mathematics.evaluation import evaluate
from engine.mathematics.functions import divided
from engine.mathematics.parsing.tree import Apply, Name, Node, apply
from engine.mathematics.values import FormulaValueError, Value, WorkBudget, agree, canonical, checked, fail

_MAX_DEGREE = 8

UNMEASURED = frozenset({"too_large", "unsolved"})
"""Kinds of failures of a run with changed values that show nothing about the rules."""


class EquationError(FormulaValueError):
    """An equation has no single solution: ``no_solution``, ``ambiguous``, ``unsolved``."""


@dataclass(frozen=True)
class Equation:
    """``left = right``, to be solved for ``unknown``.

    Args:
        left: one side.
        right: the other side.
        unknown: the name to solve for.
        values: numbers of all other names.
        assumptions: what is stated about the unknown: ``positive``, ``nonnegative``, ``integer``.
    """

    left: Node
    right: Node
    unknown: str
    values: Mapping[str, Value] = field(default_factory=dict)
    assumptions: frozenset[str] = frozenset()


def solve(equation: Equation, budget: WorkBudget | None = None) -> Value:
    """The only solution that satisfies the assumptions.

    Args:
        equation: the equation.
        budget: the work for solving and for checking the solutions.

    Raises:
        EquationError: no solution, several, or an equation of another kind.
        FormulaValueError: an intermediate number is too large.
    """
    budget = budget or WorkBudget()
    try:
        roots = polynomial_solutions(equation, budget)
        if roots is None:
            raise EquationError("unsolved", "no equation of degree 1 or 2")
        kept = [value for value in roots if allowed(value, equation.assumptions) and _holds(equation, value, budget)]
    except OverflowError:  # an exact number is too large for a float
        fail("too_large", "a number is too large for a float")
    if len(kept) == 1:
        return kept[0]
    if not kept:
        raise EquationError("no_solution", f"no value of {equation.unknown} satisfies the equation")
    raise EquationError("ambiguous", f"{len(kept)} values of {equation.unknown} satisfy the equation")


def allowed(value: Value, assumptions: Iterable[str]) -> bool:
    """Whether a value satisfies the assumptions (a float within rounding noise of an integer counts as one)."""
    tests: dict[str, Callable[[Value], bool]] = {
        "positive": lambda number: number > 0,
        "nonnegative": lambda number: number >= 0,
        "integer": lambda number: agree(number, round(number)),
    }
    return all(tests[assumption](value) for assumption in assumptions)


def _holds(equation: Equation, value: Value, budget: WorkBudget) -> bool:
    """Whether the solution satisfies the equation as written (it may lie outside a function's domain)."""
    values = {**equation.values, equation.unknown: value}
    try:
        left = evaluate(equation.left, values, budget)
        right = evaluate(equation.right, values, budget)
    except FormulaValueError as error:
        if error.kind == "too_large":
            raise
        return False
    if not isinstance(left, float) and not isinstance(right, float):
        return left == right  # exact, also for numbers that are too large for a float
    scale = max(1.0, abs(float(left)), abs(float(right)))
    return abs(float(left) - float(right)) <= 1e-7 * scale


_Polynomial = list[Value]  # coefficients, lowest power first


class _NotPolynomialError(Exception):
    """The equation is not a quotient of polynomials of the unknown."""


def polynomial_solutions(equation: Equation, budget: WorkBudget) -> list[Value] | None:
    """The real roots where the equation is a quotient of polynomials of degree 1 or 2 at most; else None.

    Coefficients are exact where the values are, so linear solutions are exact fractions.

    Raises:
        EquationError: every value is a solution (``ambiguous``).
    """
    try:
        top, _ = _quotient(apply("add", equation.left, apply("neg", equation.right)), equation, budget)
    except _NotPolynomialError:
        return None
    top = _trimmed(top)
    if not top:
        raise EquationError("ambiguous", f"the equation holds for every {equation.unknown}")
    if len(top) == 1:
        return []
    if len(top) == 2:
        return [checked(divided(-top[0], top[1]))]
    return _quadratic_roots(*top) if len(top) == 3 else None


def _quotient(node: Node, equation: Equation, budget: WorkBudget) -> tuple[_Polynomial, _Polynomial]:
    """Numerator and denominator of a tree, as polynomials of the unknown."""
    budget.charge(4)
    if equation.unknown not in node.names:
        return [evaluate(node, equation.values, budget)], [1]
    if isinstance(node, Name):
        return [0, 1], [1]
    if not isinstance(node, Apply) or node.function not in ("add", "neg", "mul", "div", "pow"):
        raise _NotPolynomialError
    if node.function == "pow":
        return _power(node, equation, budget)
    parts = [_quotient(argument, equation, budget) for argument in node.arguments]
    top, bottom = parts[0]
    if node.function == "neg":
        return [-value for value in top], bottom
    for other_top, other_bottom in parts[1:]:
        if node.function == "mul":
            top, bottom = _times(top, other_top), _times(bottom, other_bottom)
        elif node.function == "div":
            top, bottom = _times(top, other_bottom), _times(bottom, other_top)
        elif bottom == other_bottom:
            top = _plus(top, other_top)
        else:
            top = _plus(_times(top, other_bottom), _times(other_top, bottom))
            bottom = _times(bottom, other_bottom)
    return top, bottom


def _power(node: Apply, equation: Equation, budget: WorkBudget) -> tuple[_Polynomial, _Polynomial]:
    base, exponent_node = node.arguments
    if equation.unknown in exponent_node.names:
        raise _NotPolynomialError
    exponent = evaluate(exponent_node, equation.values, budget)
    if not isinstance(exponent, int) or abs(exponent) > _MAX_DEGREE:
        raise _NotPolynomialError
    top, bottom = _quotient(base, equation, budget)
    if exponent < 0:
        top, bottom = bottom, top
    count, one = abs(exponent), _Polynomial([1])
    return functools.reduce(_times, [top] * count, one), functools.reduce(_times, [bottom] * count, one)


def _plus(left: _Polynomial, right: _Polynomial) -> _Polynomial:
    return [checked(a + b) for a, b in itertools.zip_longest(left, right, fillvalue=0)]


def _times(left: _Polynomial, right: _Polynomial) -> _Polynomial:
    if len(left) + len(right) > _MAX_DEGREE + 2:
        raise _NotPolynomialError
    product: _Polynomial = [0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            product[i + j] = checked(product[i + j] + a * b)
    return product


def _trimmed(polynomial: _Polynomial) -> _Polynomial:
    """Remove leading zeros. A float counts as zero if it is rounding noise compared with the other coefficients."""
    has_floats = any(isinstance(value, float) for value in polynomial)
    scale = max(abs(float(value)) for value in polynomial) if has_floats else 0.0
    end = len(polynomial)
    while end:
        last = polynomial[end - 1]
        if last != 0 and not (isinstance(last, float) and -1e-13 * scale <= last <= 1e-13 * scale):
            break
        end -= 1
    return polynomial[:end]


def _quadratic_roots(constant: Value, linear: Value, square: Value) -> list[Value]:
    """Roots of ``square x^2 + linear x + constant``, ascending; exact where the discriminant is a square."""
    discriminant = canonical(linear * linear - 4 * square * constant)
    if isinstance(discriminant, float) and abs(discriminant) <= 1e-13 * float(linear) ** 2:
        discriminant = 0  # a double root, which rounding errors could split or remove
    if discriminant < 0:
        return []
    root = evaluate(apply("sqrt", Name("d")), {"d": discriminant})
    return sorted({checked(divided(-linear + side, 2 * square)) for side in (-root, root)})
