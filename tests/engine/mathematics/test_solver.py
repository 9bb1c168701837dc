import math
from fractions import Fraction

import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.mathematics.parsing.parser import parse_sides
from engine.mathematics.solver import solve
from engine.mathematics.values import FormulaValueError, WorkBudget
from tests.support.table import table


def solution(text, **values):
    left, right = parse_sides(text)
    return solve(left, right, "x", values, WorkBudget())


@table(
    ("text", "expected"),
    [
        # The unknown is on both sides: -2x = -219.
        ("x = 900 - (195 + 367 + 562 + 900 - 437 - 2*234 - 3x)", Fraction(219, 2)),
        ("3x + 1 = 2", Fraction(1, 3)),
        ("1/x + 1/3 = 1/2", 6),
        ("12/x = 2", 6),
        ("0.1x = 0.3", 3),
        ("(x - 1)^2 - x^2 = 8", Fraction(-7, 2)),
    ],
)
def test_linear_equations_are_solved_exactly(text, expected):
    assert solution(text) == expected


def test_floats_are_solved_up_to_rounding():
    assert solution("2*pi*x = 5") == pytest.approx(5 / (2 * math.pi))
    assert solution("sqrt(2)/x + 1e9 = 2e9") == pytest.approx(math.sqrt(2) / 1e9)


@table(
    ("text", "kind"),
    [
        ("x^2 = 9", "unsolved"),
        ("x = x", "no_solution"),
        ("x = x + 1", "no_solution"),
        ("5/x = 0", "no_solution"),
        ("(x^2 - 1)/(x - 1) = 2", "unsolved"),  # the left side has no value at 1
        ("x * (x - 3)/(x - 3) = 3", "no_solution"),  # nor this one at 3
        ("sin(x) = 1/2", "unsolved"),
        ("2^x = 1024", "unsolved"),
        ("|x| = 3", "unsolved"),
        ("floor(x) = 3", "unsolved"),
        ("(x + 1)^100 = 2", "unsolved"),
    ],
)
def test_an_equation_without_a_unique_solution_raises_an_error(text, kind):
    with pytest.raises(FormulaValueError) as caught:
        solution(text)
    assert caught.value.kind == kind


@table(
    ("text", "expected"),
    [
        ("a*x = 3*a", 3),
        ("x + a = 2*a + 1", 2**2024 + 1),
        ("a*x = 3", Fraction(3, 2**2024)),
        ("x / a = sqrt(2)", "unsolved"),
        ("x^5 + x = a^3", "too_large"),
    ],
)
def test_integers_too_large_for_floats_are_solved_exactly_or_refused(text, expected):
    if isinstance(expected, int | Fraction):
        assert solution(text, a=2**2024) == expected
        return
    with pytest.raises(FormulaValueError) as caught:
        solution(text, a=2**2024)
    assert caught.value.kind == expected


@settings(max_examples=100)
@given(*[st.integers(-9, 9)] * 4)
def test_solutions_agree_with_sympy(a, b, c, d):
    assume(a != c)
    x = sympy.Symbol("x", real=True)
    (wanted,) = sympy.solve(a * x + b - c * x - d, x)
    assert solution("a*x + b = c*x + d", a=a, b=b, c=c, d=d) == Fraction(wanted.p, wanted.q)
