"""Evaluate the tree of a formula.

``Evaluator`` uses exact integers and fractions where possible, and floats elsewhere. ``high_precision`` replaces its
numbers and functions by those of many digits. Every operation is charged to a budget before it is done, so that the
cost is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from engine.mathematics.functions import OPERATIONS
from engine.mathematics.parsing.tree import SERIES, Apply, Name, Node, Number
from engine.mathematics.values import FormulaValueError, Value, WorkBudget, as_whole, bits_of, checked, fail

CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e}


def evaluate(node: Node, values: Mapping[str, Value], budget: WorkBudget | None = None) -> Value:
    """The value of a tree. ``log`` without a base is the natural logarithm.

    Args:
        node: the tree.
        values: numbers by name; they have priority over ``pi`` and ``e``.
        budget: shared by all evaluations of one scaffold; a new one if None.

    Raises:
        FormulaValueError: there is no value; ``kind`` is the reason.
    """
    value: Value = Evaluator(values, budget or WorkBudget()).value(node)
    return value


def exact_value(node: Node) -> Fraction | None:
    """The value of a formula without names; None if it is not rational, or too large."""
    if node.names:
        return None
    try:
        value = evaluate(node, {})
    except FormulaValueError:
        return None
    return None if isinstance(value, float) else Fraction(value)


class Evaluator:
    """Computes the value of a tree with numbers of the type ``Value``; a subclass may define another type.

    Args:
        values: the numbers of variables.
        budget: the work that the evaluation may do.
    """

    constants: Mapping[str, Any] = CONSTANTS
    angle_functions = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})
    """Functions whose argument may be in degrees or in radians."""

    def __init__(self, values: Mapping[str, Any], budget: WorkBudget) -> None:
        self._values = dict(values)
        self._budget = budget

    def value(self, node: Node) -> Any:
        """The value of a tree. Raises FormulaValueError."""
        self._budget.charge(1)
        if isinstance(node, Number):
            return self.number(node.value)
        if isinstance(node, Name):
            return self._named(node.name)
        if node.function in SERIES:
            return self._series(node)
        arguments = [self.value(argument) for argument in node.arguments]
        # sin(30) and sin(theta) with theta = 30 are refused, because many authors mean degrees
        is_angle = node.function in self.angle_functions and len(node.names) <= 1
        if is_angle and not isinstance(arguments[0], float) and not -6.2832 < arguments[0] < 6.2832:
            fail("ambiguous_angle", f"{node.function} of more than a turn: degrees or radians?")
        return self.applied(node.function, arguments)

    def number(self, value: Any) -> Any:
        """A number that is written in the formula, or the value of a variable."""
        return value

    def applied(self, function: str, arguments: list[Any]) -> Any:
        """The value of a function."""
        bits = max(map(bits_of, arguments), default=0)
        if bits > 64:  # the time of an operation with a gcd
            self._budget.charge(len(arguments) * (bits * bits >> 16))
        if function not in OPERATIONS:
            fail("unknown_function", f"there is no function {function[:40]}")
        fewest, most, work = OPERATIONS[function]
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

    def _named(self, name: str) -> Any:
        if self._values.get(name) is not None:
            return self.number(self._values[name])
        return self.constants[name] if name in self.constants else fail("unknown_name", f"{name} has no value")

    def _series(self, node: Apply) -> Any:
        body, index, *ends = node.arguments
        first, last = (as_whole(self.value(end)) for end in ends)
        self._budget.charge(max(0, last - first + 1))
        outer = self._values
        self._values = dict(outer)
        function, start = ("add", 0) if node.function == "sum" else ("mul", 1)
        total = self.number(start)
        try:
            for number in range(first, last + 1):
                self._values.update(dict.fromkeys(index.names, number))
                total = self.applied(function, [total, self.value(body)])
        finally:
            self._values = outer
        return total
