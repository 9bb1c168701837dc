"""Compare two formulas: rational numbers exactly, other formulas by their values at random points with a fixed seed.

Two expressions are equal if they agree to 100 digits, at several points if they have variables. Points where one of
the values is not real are left out: sqrt(1/n) and 1/sqrt(n), which differ only for negative n, are equal;
|x| and x are not.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache

from engine.mathematics.evaluation import exact_value
from engine.mathematics.high_precision import CONSTANTS, HighPrecision
from engine.mathematics.parsing.parser import parse_expression
from engine.mathematics.parsing.tokens import Dialect
from engine.mathematics.parsing.tree import Node, apply
from engine.mathematics.values import FormulaValueError

_SEED = 20240601
_DIGITS = 150
_SAME = 10.0**-100
_ENOUGH = 3
_RANGES = ((1, 5), (-5, -1), (0, 1), (-3, 3))


def read_formula(text: str) -> Node:
    """Read the formula of an answer. Raises FormulaSyntaxError, also for relations."""
    return parse_expression(text, Dialect.ANSWER)


def symbols_of(node: Node) -> frozenset[str]:
    """The variables of a formula: its names without the constants."""
    return node.names - CONSTANTS


def same_formula(answer: Node, truth: Node) -> bool:
    """Whether two formulas have the same value wherever both are real; everywhere, if one contains ``i``.

    ``log`` without a base may be natural or decimal; the formulas are the same if they are so for one of the two.
    """
    if answer == truth:
        return True
    left, right = exact_value(answer), exact_value(truth)
    if left is not None and right is not None:
        return left == right
    bases = (None, 10) if "log" in answer.functions | truth.functions else (None,)
    return any(_same(answer, truth, base) for base in bases)


def same_zeros(answer: Node, truth: Node) -> int:
    """Whether one function is a constant multiple of the other, so that both have the same zeros.

    Returns:
        the sign (1 or -1) of the constant factor; 0 if there is none.
    """
    if answer == truth:
        return 1
    names = sorted(symbols_of(answer) | symbols_of(truth))
    evaluator, quotient = _evaluator(_DIGITS, None), apply("div", answer, truth)
    ratios = []
    for point in _points(names):
        with contextlib.suppress(FormulaValueError):
            ratio = evaluator.value_at(quotient, point)
            if not evaluator.context.im(ratio):
                ratios.append(evaluator.context.re(ratio))
    first = ratios[0] if len(ratios) >= (_ENOUGH if names else 1) else 0
    if not first or any(abs(ratio - first) > _SAME * abs(first) for ratio in ratios):
        return 0
    return 1 if first > 0 else -1


def constant_value(node: Node) -> Fraction | None:
    """The value of a real constant to many digits, or None (symbols, complex, infinite, undefined, too large)."""
    if symbols_of(node):
        return None
    exact = exact_value(node)
    if exact is not None:
        return exact
    evaluator = _evaluator(_DIGITS, None)
    try:
        value = evaluator.value_at(node, {})
    except FormulaValueError:
        return None
    context = evaluator.context
    if not context.isfinite(value) or abs(context.im(value)) > abs(value) * _SAME:
        return None
    return Fraction(context.nstr(context.re(value), _DIGITS - 5))


_evaluator = lru_cache(maxsize=8)(HighPrecision)


def _same(answer: Node, truth: Node, log_base: int | None) -> bool:
    names = sorted(symbols_of(answer) | symbols_of(truth))
    is_complex = "i" in answer.names | truth.names
    agreed = 0
    for point in _points(names) if names else ({},):
        with contextlib.suppress(FormulaValueError):
            agree, is_real = _compare(point, answer, truth, log_base)
            if is_real or is_complex or not names:
                if not agree:
                    return False
                agreed += 1
    return agreed >= (_ENOUGH if names else 1)


def _compare(point: Mapping[str, Fraction], answer: Node, truth: Node, log_base: int | None) -> tuple[bool, bool]:
    """Whether two formulas agree at one point, and whether both are real there. Raises FormulaValueError."""
    evaluator = _evaluator(_DIGITS, log_base)
    left, right = evaluator.value_at(answer, point), evaluator.value_at(truth, point)
    if not evaluator.context.isfinite(left) or not evaluator.context.isfinite(right):
        return bool(left == right), True
    real = all(abs(evaluator.context.im(value)) <= abs(value) * _SAME for value in (left, right))
    difference = abs(left - right)
    agree = difference <= _SAME * max(abs(left), abs(right))
    if not agree and difference < _SAME:  # two tiny numbers, or what rounding has left of two equal ones
        finer = _evaluator(2 * _DIGITS, log_base)
        agree = abs(finer.value_at(answer, point) - finer.value_at(truth, point)) < difference * _SAME
    return bool(agree), real


def _points(names: list[str]) -> Iterator[dict[str, Fraction]]:
    draw = random.Random(_SEED)  # noqa: S311 - not for security: the same points in each run
    for low, high in _RANGES:
        for _ in range(_ENOUGH):
            yield {name: low + (high - low) * Fraction(draw.randrange(1, 10**9), 10**9) for name in names}
    for _ in range(_ENOUGH):
        yield {name: Fraction(draw.randrange(1, 12)) for name in names}
