"""The value of a formula: exact as a fraction where it is one, else to many digits. Bounded in size.

Runs in a worker process: mpmath is imported here, and an evaluation may be killed from outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import mpmath
from mpmath.libmp import NoConvergence

from engine.mathematics.formulas import Node

_MAX_BITS = 40_000
_MAX_EXACT_FACTORIAL = 2000
_MAX_FACTORIAL = 5000
_MAX_ANGLE_BITS = 500


class TooLargeError(ValueError):
    """A value has more digits than this evaluator grants."""


class UndefinedError(ValueError):
    """The formula has no value there: a pole, 0/0, a function outside its domain."""


def exact_value(node: Node) -> Fraction | None:
    """The value of a formula of rational numbers alone; None where it has roots, symbols or functions.

    Raises:
        TooLargeError: more than 40,000 bits.
        UndefinedError: a division by zero.
    """
    if node.op == "num":
        return node.value
    args = []
    for arg in node.args:
        value = exact_value(arg)
        if value is None:
            return None
        args.append(value)
    operation = _EXACT.get(node.op)
    try:
        return operation(*args) if operation else None
    except ZeroDivisionError:
        raise UndefinedError("division by zero") from None


def _checked(value: Fraction) -> Fraction:
    if value.numerator.bit_length() + value.denominator.bit_length() > _MAX_BITS:
        raise TooLargeError("too many digits")
    return value


def _exact_power(base: Fraction, power: Fraction) -> Fraction | None:
    if power.denominator != 1:
        return None
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(power) * max(bits - 1, 1) > _MAX_BITS and base not in (0, 1, -1):
        raise TooLargeError("too large a power")
    if base in (1, -1):
        return base if power % 2 else Fraction(1)
    return base ** int(power) if base or power >= 0 else _divided(Fraction(1), base)


def _divided(above: Fraction, below: Fraction) -> Fraction:
    return _checked(above / below)


def _exact_factorial(value: Fraction) -> Fraction | None:
    if value.denominator != 1 or value < 0:
        return None
    if value > _MAX_EXACT_FACTORIAL:
        raise TooLargeError("too large a factorial")
    return Fraction(math.factorial(int(value)))


def _exact_binomial(top: Fraction, bottom: Fraction) -> Fraction | None:
    if top.denominator != 1 or bottom.denominator != 1 or top < 0 or bottom < 0:
        return None
    if top > _MAX_FACTORIAL:
        raise TooLargeError("too large a binomial")
    return Fraction(math.comb(int(top), int(bottom)))


def _of_integers(function: Callable[..., int]) -> Callable[..., Fraction | None]:
    def apply(*values: Fraction) -> Fraction | None:
        if any(value.denominator != 1 for value in values):
            return None
        return Fraction(function(*(int(value) for value in values)))

    return apply


_EXACT: dict[str, Callable[..., Fraction | None]] = {
    "add": lambda *terms: _checked(sum(terms, Fraction(0))),
    "neg": lambda value: -value,
    "mul": lambda left, right: _checked(left * right),
    "div": _divided,
    "pow": _exact_power,
    "fact": _exact_factorial,
    "binom": _exact_binomial,
    "abs": abs,
    "floor": lambda value: Fraction(math.floor(value)),
    "ceil": lambda value: Fraction(math.ceil(value)),
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "gcd": _of_integers(math.gcd),
    "lcm": _of_integers(lambda *values: int(_checked(Fraction(math.lcm(*values))))),
}


class Evaluator:
    """Evaluates formulas to a number of decimal digits, at points.

    Args:
        digits: working precision.
        log_base: what ``log`` without a base means: 10, or None for the natural logarithm.
    """

    def __init__(self, digits: int, log_base: int | None = None) -> None:
        self.context: Any = mpmath.MPContext()
        self.context.dps = digits
        self._log_base = log_base

    def value(self, node: Node, point: Mapping[str, Fraction]) -> Any:
        """The value (an mpf or mpc) of a formula where its symbols have these values.

        Raises:
            TooLargeError, UndefinedError
        """
        try:
            return self._value(node, point)
        except (ZeroDivisionError, ValueError, OverflowError, NoConvergence) as error:
            if isinstance(error, (TooLargeError, UndefinedError)):
                raise
            raise UndefinedError(str(error)) from None

    def _value(self, node: Node, point: Mapping[str, Fraction]) -> Any:
        if node.op == "num":
            return self._number(node.value)
        if node.op == "sym":
            return self._number(point[node.name])
        context = self.context
        if node.op == "const":
            named = {"pi": context.pi, "e": context.e, "inf": context.inf, "i": context.j}
            return +named[node.name] if node.name in ("pi", "e") else named[node.name]
        args = [self._value(arg, point) for arg in node.args]
        return self._bounded(self._apply(node.op, args))

    def _number(self, value: Fraction) -> Any:
        return self.context.mpf(value.numerator) / value.denominator

    def _bounded(self, value: Any) -> Any:
        context = self.context
        if context.isnan(value):
            raise UndefinedError("not a number")
        if value and not context.isinf(value) and abs(context.mag(value)) > _MAX_BITS:
            raise TooLargeError("too large a value")
        return value

    def _apply(self, op: str, args: list[Any]) -> Any:
        context = self.context
        first = args[0]
        if op == "add":
            return sum(args[1:], first)
        if op == "neg":
            return -first
        if op == "mul":
            return first * args[1]
        if op == "div":
            return first / args[1]
        if op == "pow":
            return self._power(first, args[1])
        if op == "root":
            return self._root(first, args[1])
        if op == "log":
            return context.log(first) if self._log_base is None else context.log(first) / context.log(self._log_base)
        if op in ("fact", "binom"):
            if any(abs(arg) > _MAX_FACTORIAL for arg in args):
                raise TooLargeError("too large a factorial")
            return context.factorial(first) if op == "fact" else context.binomial(first, args[1])
        if op in ("max", "min", "gcd", "lcm", "floor", "ceil"):
            return self._of_reals(op, args)
        if op in ("exp", "sinh", "cosh", "tanh") and abs(first) > _MAX_BITS:
            raise TooLargeError("too large an exponent")
        if op in ("sin", "cos", "tan", "cot", "sec", "csc") and first and context.mag(first) > _MAX_ANGLE_BITS:
            raise TooLargeError("too large an angle")
        name = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "ln": "log", "abs": "fabs"}.get(op, op)
        return getattr(context, name)(first)

    def _power(self, base: Any, power: Any) -> Any:
        context = self.context
        if not context.isfinite(base) or not context.isfinite(power) or not base or not power:
            if not base and context.re(power) < 0:
                raise UndefinedError("zero to a negative power")
            return context.power(base, power)
        if context.mag(power) > 60 or abs(float(abs(power)) * float(context.log(abs(base), 2))) > _MAX_BITS:
            raise TooLargeError("too large a power")
        return context.power(base, power)

    def _root(self, value: Any, degree: Any) -> Any:
        context = self.context
        if context.im(degree) or not context.isint(degree) or not 2 <= degree <= 1000:
            return self._power(value, 1 / degree)
        count = int(degree)
        if count % 2 and not context.im(value) and context.re(value) < 0:
            return -context.root(-context.re(value), count)  # the real root: cbrt(-8) is -2
        return context.root(value, count)

    def _of_reals(self, op: str, args: list[Any]) -> Any:
        context = self.context
        if any(context.im(arg) for arg in args):
            raise UndefinedError("not real")
        if op in ("max", "min"):
            return max(args) if op == "max" else min(args)
        if op in ("floor", "ceil"):
            return getattr(context, op)(args[0])
        if not all(context.isint(arg) for arg in args) or any(abs(arg) > 10**30 for arg in args):
            raise UndefinedError("not integers")
        integers = [int(arg) for arg in args]
        return context.mpf(math.gcd(*integers) if op == "gcd" else math.lcm(*integers))
