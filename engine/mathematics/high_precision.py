"""Evaluate formulas with mpmath to many decimal digits, in real and complex numbers. The size of values is bounded.

Only worker processes import this module, because mpmath is slow to import.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import mpmath
from mpmath.libmp import NoConvergence

from engine.mathematics.evaluation import Evaluator
from engine.mathematics.parsing.tree import Node
from engine.mathematics.values import WorkBudget, fail

CONSTANTS = frozenset({"pi", "e", "i", "inf"})
_MAX_BITS = 40_000
_MAX_ROOT = 1000
_ANGLES = Evaluator.angle_functions
_GROWING = frozenset({"exp", "sinh", "cosh", "tanh"})
_LARGEST = {
    **dict.fromkeys(("factorial", "binomial", "permutations"), 5000),
    **dict.fromkeys(_GROWING, _MAX_BITS),
    **dict.fromkeys(_ANGLES, 2**500),
}
"""The largest arguments of functions."""
_OF_CONTEXT = (*_ANGLES, *_GROWING, "asin", "acos", "atan", "factorial", "binomial")
"""Functions that have the same name in mpmath."""


class HighPrecision(Evaluator):
    """Evaluates formulas to a number of decimal digits.

    Args:
        digits: working precision.
        log_base: base of ``log`` without a base: 10, or None for the natural logarithm.
    """

    angle_functions = frozenset()  # radians

    def __init__(self, digits: int, log_base: int | None = None) -> None:
        super().__init__({}, WorkBudget())
        self.context: Any = mpmath.MPContext()
        self.context.dps = digits
        self._log_base = log_base
        context = self.context
        self.constants = {"pi": +context.pi, "e": +context.e, "inf": context.inf, "i": context.j}
        self._functions: dict[str, Callable[..., Any]] = {
            "add": lambda first, *others: sum(others, first),
            "neg": lambda value: -value,
            "mul": lambda first, *others: math.prod(others, start=first),
            "div": lambda top, bottom: top / bottom,
            "pow": self._power,
            "root": self._root,
            "sqrt": lambda value: self._root(value, 2),
            "cbrt": lambda value: self._root(value, 3),
            "abs": context.fabs,
            "log": self._logarithm,
            "log2": lambda value: context.log(value, 2),
            "log10": lambda value: context.log(value, 10),
            "ln": context.log,
            "radians": lambda value: value * context.pi / 180,
            "permutations": context.ff,
            "floor": lambda value: context.floor(self._real(value)),
            "ceil": lambda value: context.ceil(self._real(value)),
            **{name: getattr(context, name) for name in _OF_CONTEXT},
        }

    def value_at(self, node: Node, point: Mapping[str, Fraction]) -> Any:
        """The value (an mpf or mpc) of a formula where its variables have the values of ``point``.

        Raises:
            FormulaValueError: a pole, an argument outside a function's domain, or a value of too many digits.
        """
        self._values, self._budget = dict(point), WorkBudget(units=20_000)
        try:
            return self.value(node)
        except (ZeroDivisionError, ValueError, TypeError, OverflowError, NoConvergence) as error:
            return fail("domain", str(error))

    def number(self, value: Any) -> Any:
        """A number that is written in the formula, or the value of a variable."""
        return self.context.mpf(value.numerator) / value.denominator

    def applied(self, function: str, arguments: list[Any]) -> Any:
        """The value of a function; of bounded size."""
        work = self._functions.get(function)
        if work is None:
            fail("unknown_function", f"{function[:40]} is not evaluated here")
        if function in _LARGEST and any(abs(argument) > _LARGEST[function] for argument in arguments):
            fail("too_large", f"too large an argument of {function}")
        value, context = work(*arguments), self.context
        if context.isnan(value):
            fail("domain", "not a number")
        if value and not context.isinf(value) and abs(context.mag(value)) > _MAX_BITS:
            fail("too_large", "too large a value")
        return value

    def _logarithm(self, value: Any, base: Any = None) -> Any:
        return self.context.log(value, self._log_base if base is None else base)

    def _power(self, base: Any, power: Any) -> Any:
        context = self.context
        if not context.isfinite(base) or not context.isfinite(power) or not base or not power:
            if not base and context.re(power) < 0:
                fail("division_by_zero", "zero to a negative power")
            return context.power(base, power)
        if context.mag(power) > 60 or abs(float(abs(power)) * float(context.log(abs(base), 2))) > _MAX_BITS:
            fail("too_large", "too large a power")
        return context.power(base, power)

    def _root(self, value: Any, degree: Any) -> Any:
        context = self.context
        if context.im(degree) or not context.isint(degree) or not 2 <= degree <= _MAX_ROOT:
            return self._power(value, 1 / degree)
        count = int(degree)
        if count % 2 and not context.im(value) and context.re(value) < 0:
            return -context.root(-context.re(value), count)  # the real root: cbrt(-8) is -2
        return context.root(value, count)

    def _real(self, value: Any) -> Any:
        return fail("domain", "not a real number") if self.context.im(value) else self.context.re(value)
