"""Evaluate the tree of a formula.

``Evaluator`` traverses a tree; its subclasses define the arithmetic. ``evaluate`` uses exact integers and fractions
where possible, and floats elsewhere; ``exact_value`` uses exact numbers only; ``high_precision`` uses many digits and
complex numbers. Every operation is charged to a budget before it is done, so that the cost is bounded.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from engine.mathematics.functions import OPERATIONS
from engine.mathematics.parsing.tree import Apply, Name, Node, Number, Series
from engine.mathematics.values import (
    FormulaValueError,
    Value,
    WorkBudget,
    as_whole,
    bits_of,
    checked,
    fail,
)

CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e}
_ANGLE_FUNCTIONS = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})


def evaluate(node: Node, values: Mapping[str, Value], budget: WorkBudget | None = None) -> Value:
    """The value of a tree. ``log`` without a base is the natural logarithm.

    Args:
        node: the tree.
        values: numbers by name; they have priority over ``pi`` and ``e``.
        budget: shared by all evaluations of one scaffold; a new one if None.

    Raises:
        FormulaValueError: there is no value; ``kind`` is the reason.
    """
    value: Value = _MachineEvaluator(values, budget or WorkBudget()).value(node)
    return value


def exact_value(node: Node) -> Fraction | None:
    """The value of a formula without names; None if it is not rational, or too large."""
    if node.names:
        return None
    try:
        return Fraction(_ExactEvaluator({}, WorkBudget()).value(node))
    except FormulaValueError:
        return None


class Evaluator(ABC):
    """Computes the value of a tree. Subclasses define the type of numbers and the functions on them.

    Args:
        values: the numbers of variables.
        budget: the work that the evaluation may do.
    """

    def __init__(self, values: Mapping[str, Any], budget: WorkBudget) -> None:
        self._values = dict(values)
        self._budget = budget

    def value(self, node: Node) -> Any:
        """The value of a tree. Raises FormulaValueError."""
        self._budget.charge(1)
        if isinstance(node, Number):
            return self.number(node.value)
        if isinstance(node, Name):
            return self.named(node.name)
        if isinstance(node, Series):
            return self._series(node)
        return self.application(node)

    @abstractmethod
    def number(self, value: Value) -> Any:
        """A number that is written in the formula."""

    @abstractmethod
    def named(self, name: str) -> Any:
        """The value of a variable or a constant."""

    @abstractmethod
    def applied(self, function: str, arguments: list[Any]) -> Any:
        """The value of a function."""

    @abstractmethod
    def whole(self, value: Any) -> int:
        """A value as an integer. Raises FormulaValueError if it is not one."""

    def application(self, node: Apply) -> Any:
        """The value of a function at the values of its arguments."""
        return self.applied(node.function, [self.value(argument) for argument in node.arguments])

    def _series(self, node: Series) -> Any:
        first, last = self.whole(self.value(node.first)), self.whole(self.value(node.last))
        self._budget.charge_terms(max(0, last - first + 1))
        outer = self._values
        self._values = dict(outer)
        total = self.number(0 if node.function == "sum" else 1)
        function = "add" if node.function == "sum" else "mul"
        try:
            for index in range(first, last + 1):
                self._values[node.index] = index
                total = self.applied(function, [total, self.value(node.body)])
        finally:
            self._values = outer
        return total


class _MachineEvaluator(Evaluator):
    """Exact integers and fractions, and floats where there is no exact value."""

    def number(self, value: Value) -> Value:
        return value

    def whole(self, value: Value) -> int:
        return as_whole(value)

    def named(self, name: str) -> Value:
        value = self._values.get(name)
        if value is None:
            value = CONSTANTS.get(name)
        return fail("unknown_name", f"{name} has no value") if value is None else value

    def application(self, node: Apply) -> Value:
        arguments = [self.value(argument) for argument in node.arguments]
        if node.function in _ANGLE_FUNCTIONS and len(arguments) == 1:
            self._guard_angle(node, arguments[0])
        return self.applied(node.function, arguments)

    def applied(self, function: str, arguments: list[Value]) -> Value:
        bits = max(map(bits_of, arguments), default=0)
        if bits > 64:  # a product costs its length; an operation with a gcd costs the square of it
            exact = function in ("mul", "add", "neg", "abs")
            plain = exact and not any(isinstance(argument, Fraction) for argument in arguments)
            self._budget.charge(len(arguments) * (bits >> 8 if plain else bits * bits >> 16))
        entry = OPERATIONS.get(function)
        if entry is None:
            fail("unknown_function", f"there is no function {function[:40]}")
        fewest, most, work = entry
        if not fewest <= len(arguments) <= most:
            fail("arity", f"{function} does not take {len(arguments)} arguments")
        try:
            return checked(work(self._budget, *arguments))
        except ZeroDivisionError:
            return fail("division_by_zero", f"a division by zero in {function}")
        except OverflowError:
            return fail("too_large", f"{function} leads to a number that is too large")
        except ValueError:
            return fail("domain", f"{function} is not defined there")

    def _guard_angle(self, node: Apply, value: Value) -> None:
        """Refuse ``sin(30)`` and ``sin(theta)`` with theta = 30, because many authors mean degrees."""
        turns = not isinstance(value, float) and not -6.2832 < value < 6.2832
        if turns and len(node.names) <= 1:
            fail("ambiguous_angle", f"{node.function} of more than a turn: degrees or radians?")


class _ExactEvaluator(_MachineEvaluator):
    """As ``_MachineEvaluator``, but fails at the first float, which could later be rounded to a wrong integer."""

    def applied(self, function: str, arguments: list[Value]) -> Value:
        value = super().applied(function, arguments)
        return fail("inexact", f"{function} has no exact value") if isinstance(value, float) else value
