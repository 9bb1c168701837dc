import math
import time
from fractions import Fraction

import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.mathematics import solver as rule_solver
from engine.mathematics.parsing.parser import parse_sides
from engine.mathematics.solver import Equation, EquationError, limited, polynomial_solutions, solve, solve_in_worker
from engine.mathematics.values import FormulaValueError, WorkBudget
from tests.support.table import table


def equation(text, *stated, **values):
    left, right = parse_sides(text)
    return Equation(left, right, "x", values, frozenset(stated))


def no_worker(unwanted):
    raise AssertionError(f"the worker was called for {unwanted.left}")


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
def test_polynomials_are_solved_exactly_without_the_worker(text, stated, expected):
    assert solve(equation(text, *stated), no_worker) == expected


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
    ],
)
def test_an_equation_without_a_unique_solution_raises_an_error(text, stated, kind):
    with pytest.raises(EquationError) as caught:
        solve(equation(text, *stated), limited(None, 0))
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
        ("x^5 + x = a^3", "too_large"),
    ],
)
def test_integers_too_large_for_floats_are_solved_exactly_or_refused(text, expected):
    to_solve = equation(text, a=2**2024)
    if isinstance(expected, int | Fraction):
        assert solve(to_solve, no_worker) == expected
        return
    with pytest.raises(FormulaValueError) as caught:
        solve(to_solve, solve_in_worker)
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


@table(
    ("text", "stated", "expected"),
    [
        ("sqrt(x) = 3", (), 9),
        ("2^x = 1024", (), 10),
        ("x^3 = 8", (), 2),
        ("ln(x) = 2", (), math.e**2),
        ("|x| = 3", ("positive",), 3),
        ("x^5 - x + 1 = 0", (), -1.1673039782614187),
    ],
)
def test_other_equations_are_solved_in_the_worker(text, stated, expected):
    assert solve(equation(text, *stated), solve_in_worker) == pytest.approx(expected, rel=1e-12)


def test_the_length_of_a_pendulum():
    # T = 2 pi sqrt(L / g): L = g (T / 2 pi)^2 = 9.81 * (2 / 2 pi)^2 = 9.81 / pi^2.
    found = solve(equation("T = 2*pi*sqrt(x/g)", T=2, g=Fraction(981, 100)), solve_in_worker)
    assert found == pytest.approx(9.81 / math.pi**2, rel=1e-12)


@table(
    ("text", "kind"),
    [
        ("sin(x) = 1", "unsolved"),  # infinitely many solutions, although SymPy's solve returns one
        ("gcd(x, 6) = 3", "unsolved"),
        ("sum(k, k, 1, x) = 55", "unsolved"),
        ("x^3 - 6x^2 + 11x - 6 = 0", "ambiguous"),  # the solutions are 1, 2 and 3
        ("exp(x) = 0", "no_solution"),
        ("log(x) = 2", "unsolved"),  # the base is not known
    ],
)
def test_kind_of_the_error_of_an_unsolved_equation(text, kind):
    with pytest.raises(EquationError) as caught:
        solve(equation(text), solve_in_worker)
    assert caught.value.kind == kind


def test_a_slow_equation_is_stopped_at_the_time_limit(monkeypatch):
    monkeypatch.setattr(rule_solver, "_KILL_AFTER_S", 0.05)
    start = time.monotonic()
    with pytest.raises(EquationError) as caught:
        solve(equation("x^x + sin(x^x) + gamma*tan(x)^x + x^(x^x) + exp(x^3)*cos(x^5) = 1", gamma=3), solve_in_worker)
    assert caught.value.kind in ("solver_timeout", "unsolved")
    assert time.monotonic() - start < 10


def test_the_worker_stops_at_its_limit_of_processor_time(monkeypatch):
    monkeypatch.setattr(rule_solver, "_CPU_LIMIT_S", 0.2)
    monkeypatch.setattr(rule_solver, "_sympy_expression", _spin)
    start = time.process_time()
    with pytest.raises(rule_solver.SolverTimeoutError):
        rule_solver.solve_for({"left": ["unknown"], "right": ["number", "1"], "positive": False})
    assert time.process_time() - start < 5


def _spin(data, unknown):
    while True:
        pass


def test_the_worker_receives_numbers_instead_of_names():
    with pytest.raises(FormulaValueError):
        solve_in_worker(equation("sqrt(x) = y"))  # y has no value: nothing is sent
    assert rule_solver.solve_for(
        {"left": ["apply", "sqrt", ["unknown"]], "right": ["number", "3/2"], "positive": True}
    ) == ["9/4"]
    with pytest.raises(KeyError):
        rule_solver.solve_for(
            {"left": ["apply", "__import__", ["unknown"]], "right": ["number", "1"], "positive": False}
        )
