"""The numbers of formulas: their types, size limits, work budget and text form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from engine.mathematics.parsing.tree import FormulaError

Value = int | Fraction | float
"""A number, exact where possible. A fraction with denominator 1 is stored as an int."""

MAX_INTEGER_BITS = 1 << 16
MAX_FRACTION_BITS = 1 << 12

MAX_ANSWER_BITS = 4096
_NOISE = 1e-12
_SNAP = 1e-9
_MAX_DENOMINATOR = 10_000


class FormulaValueError(FormulaError, ArithmeticError):
    """A formula has no value.

    ``kind``: ``unknown_name``, ``unknown_function``, ``arity``, ``too_large``, ``division_by_zero``,
    ``domain``, ``not_an_integer``, ``not_rational``, ``ambiguous_angle``.
    """


@dataclass
class WorkBudget:
    """The work that an evaluation may still do, in units of about a microsecond."""

    units: int = 200_000

    def charge(self, units: int) -> None:
        """Subtract work before it is done. Raises FormulaValueError (``too_large``) when the budget is used up."""
        self.units -= units
        if self.units < 0:
            fail("too_large", "the rules take more work than is allowed")


def agree(left: Value, right: Value) -> bool:
    """Whether two values are the same: exact ones exactly, floats within a relative 1e-9."""
    if isinstance(left, float) or isinstance(right, float):
        try:
            return math.isclose(left, right, rel_tol=_SNAP, abs_tol=_NOISE)
        except OverflowError:
            return False
    return left == right


def canonical(value: Value) -> Value:
    """The value, with a fraction of denominator 1 as an int."""
    return value.numerator if isinstance(value, Fraction) and value.denominator == 1 else value


def format_value(value: Value) -> str | None:
    """A value as text: ``"116"``, ``"25/8"`` or the shortest float without rounding noise; None where it is too long.

    Args:
        value: an exact value is written exactly; 115.99999999999999 becomes ``"116"``.
    """
    if isinstance(value, float):
        for digits in (15, 14, 13):
            short = f"{value:.{digits}g}"
            # At least three digits less than requested: the last ones are zeros, so the rest was rounding noise.
            if len(short.partition("e")[0].strip("-0.").replace(".", "")) <= digits - 3:
                return short
        return repr(value)
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_ANSWER_BITS:
        return None
    return str(value)


def as_rational(value: Value) -> int | Fraction:
    """A float as a fraction, where one with a small denominator is within its rounding noise.

    Raises:
        FormulaValueError: ``not_rational``.
    """
    if not isinstance(value, float):
        return value
    near = Fraction(value).limit_denominator(_MAX_DENOMINATOR)
    if abs(float(near) - value) > _NOISE * max(abs(value), 1e-300):
        fail("not_rational", f"{value!r} is not a fraction")
    return near.numerator if near.denominator == 1 else near


def fail(kind: str, message: str) -> NoReturn:
    """Raise FormulaValueError."""
    raise FormulaValueError(kind, message)


def bits_of(value: Value) -> int:
    """The bit length of an exact value; 0 for a float."""
    if isinstance(value, int):
        return value.bit_length()
    if isinstance(value, Fraction):
        return max(value.numerator.bit_length(), value.denominator.bit_length())
    return 0


def checked(value: Value) -> Value:
    """The canonical value, if it is small enough; a long fraction becomes a float. Raises ``too_large``."""
    value = canonical(value)
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            fail("too_large", "an integer is too large")
        return value
    if isinstance(value, Fraction):
        return value if bits_of(value) <= MAX_FRACTION_BITS else as_float(value)
    if not math.isfinite(value):
        fail("too_large", "a number is too large for a float")
    return value


def as_float(value: Value) -> float:
    """The nearest float. Raises ``too_large`` where there is none."""
    try:
        number = float(value)
    except OverflowError:
        fail("too_large", "a number is too large for a float")
    if number == 0 and value != 0:
        fail("too_large", "a number is too small for a float")
    return number


def as_whole(value: Value) -> int:
    """A value as an integer; rounding noise of floats is ignored."""
    number = settled(value)
    return number if isinstance(number, int) else fail("not_an_integer", "an integer is needed here")


def settled(value: Value) -> Value:
    """A float within rounding noise of an integer becomes that integer, so that floor(2.9999999999999996) is 3."""
    if isinstance(value, float) and abs(value) < 1e15:
        near = round(value)
        if abs(value - near) <= _SNAP * max(1.0, abs(value)):
            return near
    return value
