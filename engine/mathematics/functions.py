"""Functions and operators on numbers, exact where possible."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from engine.mathematics.values import (
    MAX_FRACTION_BITS,
    MAX_INTEGER_BITS,
    Value,
    WorkBudget,
    as_float,
    as_rational,
    as_whole,
    bits_of,
    canonical,
    fail,
    settled,
)

MAX_FACTORIAL = 5000


def _root(value: int, degree: int) -> int | None:
    """The exact integer root of a natural number, or None."""
    if value < 2:
        return value
    if degree == 2:
        root = math.isqrt(value)
    elif degree > value.bit_length():
        return None
    else:  # Newton's method from above converges to the floor of the root
        root = 1 << -(-value.bit_length() // degree)
        while (smaller := ((degree - 1) * root + value // root ** (degree - 1)) // degree) < root:
            root = smaller
    return root if root**degree == value else None


def positive(value: Value) -> float:
    """The argument of a logarithm as a float. Raises FormulaValueError (``domain``) if it is not positive."""
    number = as_float(value)
    if number <= 0:
        fail("domain", "a logarithm of a number that is not positive")
    return number


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


def _mod(budget: WorkBudget, left: Value, right: Value) -> Value:
    if isinstance(left, float) or isinstance(right, float):
        left, right = settled(left), settled(right)
        quotient = math.floor(settled(divided(left, right)))
        return settled(left - right * quotient)
    return left % right


def _pow(budget: WorkBudget, base: Value, exponent: Value) -> Value:
    if isinstance(base, float) or isinstance(exponent, float):
        return _float_power(base, exponent)
    if isinstance(exponent, int):
        if base in (0, 1, -1):
            if base == 0 and exponent < 0:
                fail("division_by_zero", "a negative power of zero")
            return base ** abs(exponent)  # also of an exponent that is too large for other bases
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


def _exact_root(value: Value, degree: int) -> int | Fraction | None:
    """The root of a non-negative exact value where it is exact; None where it is not."""
    if isinstance(value, float) or value < 0 or degree > 64 or bits_of(value) > MAX_FRACTION_BITS:
        return None
    top = _root(value.numerator, degree)
    bottom = _root(value.denominator, degree)
    return None if top is None or bottom is None else Fraction(top, bottom)


def _sqrt(budget: WorkBudget, value: Value) -> Value:
    root = _exact_root(value, 2)
    return math.sqrt(as_float(value)) if root is None else root


def _nth_root(budget: WorkBudget, value: Value, degree: Value) -> Value:
    order = as_whole(degree)
    if order < 1 or (value < 0 and order % 2 == 0):
        fail("domain", "an even root of a negative number, or no root at all")
    sign, size = (-1, -value) if value < 0 else (1, value)
    root = _exact_root(size, order)
    if root is None:
        budget.charge(order >> 4)
        return sign * math.pow(as_float(size), 1 / order)
    return sign * root


def _factorial(budget: WorkBudget, value: Value) -> Value:
    number = as_whole(value)
    if number > MAX_FACTORIAL:
        fail("too_large", f"a factorial of more than {MAX_FACTORIAL}")
    budget.charge(max(number, 0) >> 2)
    return math.factorial(number)


def _chosen(budget: WorkBudget, total: Value, part: Value, ordered: bool) -> int:
    n, k = as_whole(total), as_whole(part)
    if n < 0:
        fail("domain", "a binomial coefficient of a negative number")
    if k < 0 or k > n:
        return 0
    steps = k if ordered else min(k, n - k)
    if steps * n.bit_length() > MAX_INTEGER_BITS:
        fail("too_large", "a number of choices is too large")
    budget.charge(steps)
    return math.perm(n, k) if ordered else math.comb(n, steps)


def _rounded(budget: WorkBudget, value: Value, digits: Value = 0) -> Value:
    """Round to the nearest, halves away from zero, as in mathematics (Python rounds halves to even)."""
    places = as_whole(digits)
    if abs(places) > 30:
        fail("domain", "rounding to more than 30 places")
    scaled = Fraction(settled(value)) * Fraction(10) ** places
    whole = math.floor(abs(scaled) + Fraction(1, 2))
    result = canonical(Fraction(whole if scaled >= 0 else -whole) / Fraction(10) ** places)
    return float(result) if isinstance(value, float) and isinstance(result, Fraction) else result


def _logarithm(budget: WorkBudget, value: Value, base: Value | None = None) -> Value:
    """The logarithm; the natural one without a base."""
    if base is None:
        return 0 if value == 1 else math.log(positive(value))
    number, root = positive(value), positive(base)
    if root == 1:
        fail("domain", "a logarithm to the base one")
    power = math.log2(number) / math.log2(root) if root != 10 else math.log10(number)
    near = settled(power)
    # An exact power of the base has an exact logarithm: log2(8) is 3, not 2.9999999999999996.
    if isinstance(near, int) and not isinstance(value, float) and not isinstance(base, float):
        small = abs(near) * bits_of(base) < MAX_FRACTION_BITS
        return near if small and Fraction(base) ** near == value else power
    return power


def _atan(budget: WorkBudget, value: Value, run: Value = 1) -> float:
    return math.atan2(as_float(value), as_float(run))


def _real(work: Callable[[float], float]) -> Callable[..., Value]:
    return lambda budget, value: work(as_float(value))


def _reciprocal(work: Callable[[float], float]) -> Callable[..., Value]:
    return lambda budget, value: 1 / work(as_float(value))


def _at_zero(work: Callable[[float], float], result: int) -> Callable[..., Value]:
    """A function whose value at exact zero is an exact integer."""
    return lambda budget, value: result if value == 0 and not isinstance(value, float) else work(as_float(value))


_MANY = 400
OPERATIONS: dict[str, tuple[int, int, Callable[..., Value]]] = {
    "add": (1, _MANY, lambda budget, *terms: sum(terms)),
    "mul": (1, _MANY, _mul),
    "neg": (1, 1, lambda budget, value: -value),
    "div": (2, 2, lambda budget, left, right: divided(left, right)),
    "floordiv": (2, 2, lambda budget, left, right: math.floor(settled(divided(left, right)))),
    "mod": (2, 2, _mod),
    "pow": (2, 2, _pow),
    "sqrt": (1, 1, _sqrt),
    "isqrt": (1, 1, lambda budget, value: math.isqrt(as_whole(value))),
    "cbrt": (1, 1, lambda budget, value: _nth_root(budget, value, 3)),
    "root": (2, 2, _nth_root),
    "abs": (1, 1, lambda budget, value: abs(value)),
    "sign": (1, 1, lambda budget, value: (value > 0) - (value < 0)),
    "floor": (1, 1, lambda budget, value: math.floor(settled(value))),
    "ceil": (1, 1, lambda budget, value: math.ceil(settled(value))),
    "round": (1, 2, _rounded),
    "factorial": (1, 1, _factorial),
    "binomial": (2, 2, lambda budget, total, part: _chosen(budget, total, part, False)),
    "permutations": (2, 2, lambda budget, total, part: _chosen(budget, total, part, True)),
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
    "atan": (1, 1, _atan),
    "atan2": (2, 2, _atan),
    **{name: (1, 1, _at_zero(getattr(math, name), 0)) for name in ("sin", "tan", "asin", "sinh", "tanh")},
    **{name: (1, 1, _at_zero(getattr(math, name), 1)) for name in ("cos", "cosh", "exp")},
    **{name: (1, 1, _real(getattr(math, name))) for name in ("acos", "degrees", "radians")},
    **{name: (1, 1, _reciprocal(work)) for name, work in (("cot", math.tan), ("sec", math.cos), ("csc", math.sin))},
}
FUNCTION_NAMES = frozenset(OPERATIONS)
