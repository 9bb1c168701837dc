"""Functions and operators on numbers, exact where possible."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from engine.mathematics.parsing.tree import SERIES
from engine.mathematics.values import (
    MAX_INTEGER_BITS,
    Value,
    WorkBudget,
    as_float,
    as_rational,
    as_whole,
    bits_of,
    fail,
    settled,
)

MAX_FACTORIAL = 5000
_MAX_ROOT_BITS = 1000  # the largest floats have 1024


def _mul(budget: WorkBudget, *factors: Value) -> Value:
    product = factors[0]
    for factor in factors[1:]:
        if bits_of(product) + bits_of(factor) > 2 * MAX_INTEGER_BITS:
            fail("too_large", "a product is too large")
        product *= factor
    return product


def divided(left: Value, right: Value) -> Value:
    """The quotient; exact where both values are. Raises ZeroDivisionError."""
    if isinstance(left, float) or isinstance(right, float):
        return as_float(left) / as_float(right)
    return Fraction(left, right)


def _floor_division(budget: WorkBudget, left: Value, right: Value) -> int:
    return math.floor(settled(divided(left, right)))


def _mod(budget: WorkBudget, left: Value, right: Value) -> Value:
    return settled(settled(left) - settled(right) * _floor_division(budget, left, right))


def _pow(budget: WorkBudget, base: Value, exponent: Value) -> Value:
    if isinstance(base, float) or isinstance(exponent, float):
        return _float_power(base, exponent)
    if isinstance(exponent, int):
        if base in (0, 1, -1) and exponent >= 0:
            return base**exponent  # also of an exponent that is too large for other bases
        if abs(exponent) * (bits_of(base) - 1) > MAX_INTEGER_BITS:
            fail("too_large", "a power is too large")
        budget.charge(abs(exponent) * bits_of(base) >> 7)
        return base**exponent if exponent >= 0 else 1 / Fraction(base) ** -exponent
    root = _exact_root(base, exponent.denominator)
    return _float_power(base, exponent) if root is None else _pow(budget, root, exponent.numerator)


def _float_power(base: Value, exponent: Value) -> float:
    number = as_float(base)
    if number < 0 and not (isinstance(exponent, int) or as_float(exponent).is_integer()):
        fail("domain", "a fractional power of a negative number")
    return math.pow(number, as_float(exponent))


def _exact_root(value: Value, degree: int) -> Fraction | None:
    """The root of a non-negative exact value where it is exact; None where it is not."""
    if isinstance(value, float) or value < 0 or degree > 64 or bits_of(value) > _MAX_ROOT_BITS:
        return None
    root = Fraction(round(value.numerator ** (1 / degree)), round(value.denominator ** (1 / degree)))
    return root if root**degree == value else None


def _root(budget: WorkBudget, value: Value, degree: Value = 2) -> Value:
    order = as_whole(degree)
    if order < 1 or (value < 0 and order % 2 == 0):
        fail("domain", "an even root of a negative number, or no root at all")
    sign, size = (-1, -value) if value < 0 else (1, value)
    root = _exact_root(size, order)
    if root is not None:
        return sign * root
    return sign * (math.sqrt(as_float(size)) if order == 2 else math.pow(as_float(size), 1 / order))


def _factorial(budget: WorkBudget, value: Value) -> Value:
    number = as_whole(value)
    if number > MAX_FACTORIAL:
        fail("too_large", f"a factorial of more than {MAX_FACTORIAL}")
    budget.charge(max(number, 0) >> 2)
    return math.factorial(number)


def _chosen(budget: WorkBudget, total: Value, chosen: Value, ordered: bool = False) -> int:
    n, k = as_whole(total), as_whole(chosen)
    if n < 0:
        fail("domain", "a binomial coefficient of a negative number")
    if k < 0 or k > n:
        return 0
    steps = k if ordered else min(k, n - k)
    if steps * n.bit_length() > MAX_INTEGER_BITS:
        fail("too_large", "a number of choices is too large")
    budget.charge(steps)
    return math.perm(n, k) if ordered else math.comb(n, steps)


def _logarithm(budget: WorkBudget, value: Value, base: Value = math.e) -> float:
    number, root = as_float(value), as_float(base)
    if number <= 0 or root <= 0:
        fail("domain", "a logarithm of a number that is not positive")
    if root == math.e:
        return math.log(number)
    return math.log10(number) if root == 10 else math.log2(number) / math.log2(root)


def _float_function(name: str) -> Callable[..., Value]:
    work = getattr(math, name)
    return lambda budget, value: work(as_float(value))


_MANY = 400
OPERATIONS: dict[str, tuple[int, int, Callable[..., Value]]] = {
    "add": (1, _MANY, lambda budget, *terms: sum(terms)),
    "mul": (1, _MANY, _mul),
    "neg": (1, 1, lambda budget, value: -value),
    "div": (2, 2, lambda budget, left, right: divided(left, right)),
    "floordiv": (2, 2, _floor_division),
    "mod": (2, 2, _mod),
    "pow": (2, 2, _pow),
    "sqrt": (1, 1, _root),
    "cbrt": (1, 1, lambda budget, value: _root(budget, value, 3)),
    "root": (2, 2, _root),
    "abs": (1, 1, lambda budget, value: abs(value)),
    "floor": (1, 1, lambda budget, value: math.floor(settled(value))),
    "ceil": (1, 1, lambda budget, value: math.ceil(settled(value))),
    "factorial": (1, 1, _factorial),
    "binomial": (2, 2, _chosen),
    "permutations": (2, 2, lambda budget, total, chosen: _chosen(budget, total, chosen, ordered=True)),
    "gcd": (2, _MANY, lambda budget, *values: math.gcd(*map(as_whole, values))),
    "lcm": (2, 50, lambda budget, *values: math.lcm(*map(as_whole, values))),
    "min": (2, _MANY, lambda budget, *values: min(values)),
    "max": (2, _MANY, lambda budget, *values: max(values)),
    "numerator": (1, 1, lambda budget, value: as_rational(value).numerator),
    "denominator": (1, 1, lambda budget, value: as_rational(value).denominator),
    "ln": (1, 1, _logarithm),
    "log": (1, 2, _logarithm),
    "log2": (1, 1, lambda budget, value: _logarithm(budget, value, 2)),
    "log10": (1, 1, lambda budget, value: _logarithm(budget, value, 10)),
}
"""By name: the fewest and the most arguments, and the work. The first argument is the budget."""
for _name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "radians"):
    OPERATIONS[_name] = 1, 1, _float_function(_name)
FUNCTION_NAMES = SERIES | OPERATIONS.keys()
