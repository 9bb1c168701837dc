import math
from fractions import Fraction

import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.mathematics.parsing.parser import parse_sides
from engine.mathematics.solver import Equation, EquationError, polynomial_solutions, solve
from engine.mathematics.values import FormulaValueError, WorkBudget
from tests.support.table import table


def equation(text, *stated, **values):
    left, right = parse_sides(text)
    return Equation(left, right, "x", values, frozenset(stated))


@table(
    ("text", "stated", "expected"),
    [
        # The unknown is on both sides: -2x = -219.
        ("x = 900 - (195 + 367 + 562 + 900 - 437 - 2*234 - 3x)", (), Fraction(219, 2)),
        ("3x + 1 = 2", (), Fraction(1, 3)),
        ("1/x + 1/3 = 1/2", (), 6),
        ("(x + 1)/(x - 1) = 2", (), 3),
        ("x^2 = 9", ("positive",), 3),
        ("x^2 - 2x + 1 = 0", (), 1),
        ("x*(x - 1) = 6", ("positive", "integer"), 3),
        ("6/x^2 = 2/3", ("positive",), 3),
        ("x^2 - 5x/2 + 1 = 0", ("integer",), 2),
        ("x^2 = 2", ("positive",), math.sqrt(2)),
        ("0.1x = 0.3", (), 3),
        ("(x - 1)^3 - x^3 + 3x^2 = 8", (), 3),
    ],
)
def test_polynomials_are_solved_exactly(text, stated, expected):
    assert solve(equation(text, *stated)) == expected


@table(
    ("text", "stated", "kind"),
    [
        ("x^2 = 9", (), "ambiguous"),
        ("x^2 = -1", (), "no_solution"),
        ("x^2 = 9", ("integer",), "ambiguous"),
        ("x = x", (), "ambiguous"),
        ("x = x + 1", (), "no_solution"),
        ("2x = 3", ("integer",), "no_solution"),
        ("(x^2 - 1)/(x - 1) = 2", (), "no_solution"),  # 1 is a root of the numerator only
        ("sin(x) = 1/2", (), "unsolved"),
        ("2^x = 1024", (), "unsolved"),
        ("x^3 = 8", (), "unsolved"),
    ],
)
def test_an_equation_without_a_unique_solution_raises_an_error(text, stated, kind):
    with pytest.raises(EquationError) as caught:
        solve(equation(text, *stated))
    assert caught.value.kind == kind


@table(
    ("text", "expected"),
    [
        ("a*x = 3*a", 3),
        ("x + a = 2*a + 1", 2**2024 + 1),
        ("a*x = 3", Fraction(3, 2**2024)),
        ("(x - 1)^2 = a", None),  # two solutions
        ("x^2 + 0.5x = a", "too_large"),
        ("x / a = sqrt(2)", "too_large"),
        ("x^5 + x = a^3", "unsolved"),
    ],
)
def test_integers_too_large_for_floats_are_solved_exactly_or_refused(text, expected):
    to_solve = equation(text, a=2**2024)
    if isinstance(expected, int | Fraction):
        assert solve(to_solve) == expected
        return
    with pytest.raises(FormulaValueError) as caught:
        solve(to_solve)
    assert caught.value.kind == (expected or "ambiguous")


def test_large_powers_of_the_unknown_are_not_expanded():
    assert polynomial_solutions(equation("(x + 1)^100 = 2"), WorkBudget()) is None
    assert polynomial_solutions(equation("x^5 - x = 1"), WorkBudget()) is None


@settings(max_examples=100)
@given(*[st.integers(-9, 9)] * 3)
def test_quadratics_agree_with_sympy(a, b, c):
    assume(a or b)
    x = sympy.Symbol("x", real=True)
    wanted = sorted(float(root) for root in sympy.solveset(a * x**2 + b * x + c, x, sympy.S.Reals))
    found = polynomial_solutions(equation("a*x^2 + b*x + c = 0", a=a, b=b, c=c), WorkBudget())
    assert [float(root) for root in found] == pytest.approx(wanted)
