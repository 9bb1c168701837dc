"""The value of a rule's tree: exact integers and fractions as long as possible, floats where not.

Every operation is paid from a budget before it is done, so that no rule can hold a process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from engine.mathematics.functions import OPERATIONS, positive
from engine.mathematics.tree import Apply, Name, Node, Number, Series
from engine.mathematics.values import Value, WorkBudget, agree, as_whole, bits_of, canonical, checked, fail

CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e}
_MODULAR_BITS = 4096
_ANGLE_FUNCTIONS = frozenset({"sin", "cos", "tan"})
_COMPARE: dict[str, Callable[[Value, Value, bool], bool]] = {
    "lt": lambda left, right, same: left < right and not same,
    "le": lambda left, right, same: left < right or same,
    "gt": lambda left, right, same: left > right and not same,
    "ge": lambda left, right, same: left > right or same,
    "eq": lambda left, right, same: same,
    "ne": lambda left, right, same: not same,
}


def evaluate(
    node: Node,
    values: Mapping[str, Value],
    budget: WorkBudget | None = None,
    *,
    logarithm: Callable[[float], float] = math.log,
) -> Value:
    """The value of a tree.

    Args:
        node: the tree.
        values: numbers by name; they come before ``pi`` and ``e``.
        budget: shared by all that is evaluated for one scaffold; a fresh one where None.
        logarithm: what ``log`` of one argument means.

    Raises:
        RuleEvaluationError: there is no value; ``kind`` says why.
    """
    return _Evaluation(values, budget or WorkBudget(), logarithm).value(node)


def evaluate_rule(node: Node, values: Mapping[str, Value], budget: WorkBudget | None = None) -> Value:
    """As ``evaluate``; but where ``log`` could be base e or base 10 and it matters, there is no value."""
    budget = budget or WorkBudget()
    value = evaluate(node, values, budget)
    if _has_bare_log(node) and not agree(value, evaluate(node, values, budget, logarithm=math.log10)):
        fail("ambiguous_log", "log without a base could be natural or decimal, and the value differs")
    return value


def _has_bare_log(node: Node) -> bool:
    if isinstance(node, Apply):
        bare = node.function == "log" and len(node.arguments) == 1
        return bare or any(_has_bare_log(argument) for argument in node.arguments)
    return isinstance(node, Series) and any(_has_bare_log(part) for part in (node.body, node.first, node.last))


class _Evaluation:
    def __init__(self, values: Mapping[str, Value], budget: WorkBudget, logarithm: Callable[[float], float]) -> None:
        self._values = dict(values)
        self._budget = budget
        self._logarithm = logarithm

    def value(self, node: Node) -> Value:
        self._budget.charge(1)
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Name):
            return self._named(node.name)
        if isinstance(node, Series):
            return self._series(node)
        if node.function == "if":
            return self._choice(node)
        if node.function == "mod" and len(node.arguments) == 2:
            residue = self._modular_power(node)
            if residue is not None:
                return residue
        arguments = [self.value(argument) for argument in node.arguments]
        if node.function in _ANGLE_FUNCTIONS and len(arguments) == 1:
            self._guard_angle(node, arguments[0])
        return self._applied(node.function, arguments)

    def _named(self, name: str) -> Value:
        value = self._values.get(name)
        if value is None:
            value = CONSTANTS.get(name)
        return fail("unknown_name", f"{name} has no value") if value is None else value

    def _applied(self, function: str, arguments: list[Value]) -> Value:
        bits = max(map(bits_of, arguments), default=0)
        if bits > 64:  # products cost by length; what needs a gcd costs by its square
            exact = function in ("mul", "add", "neg", "abs")
            plain = exact and not any(isinstance(argument, Fraction) for argument in arguments)
            self._budget.charge(len(arguments) * (bits >> 8 if plain else bits * bits >> 16))
        if function == "log" and len(arguments) == 1:
            return checked(self._logarithm(positive(arguments[0])))
        entry = OPERATIONS.get(function)
        if entry is None:
            fail("unknown_function", f"there is no function {function[:40]}")
        fewest, most, work = entry
        if not fewest <= len(arguments) <= most:
            fail("arity", f"{function} does not take {len(arguments)} arguments")
        try:
            return checked(canonical(work(self._budget, *arguments)))
        except ZeroDivisionError:
            return fail("division_by_zero", f"a division by zero in {function}")
        except OverflowError:
            return fail("too_large", f"{function} leads to a number that is too large")
        except ValueError:
            return fail("domain", f"{function} is not defined there")

    def _choice(self, node: Apply) -> Value:
        if len(node.arguments) != 3:
            fail("arity", "if takes a comparison and two values")
        test, then, otherwise = node.arguments
        if not isinstance(test, Apply) or test.function not in _COMPARE:
            fail("domain", "if needs a comparison")
        left, right = (self.value(side) for side in test.arguments)
        same = agree(left, right)
        return self.value(then if _COMPARE[test.function](left, right, same) else otherwise)

    def _series(self, node: Series) -> Value:
        first, last = as_whole(self.value(node.first)), as_whole(self.value(node.last))
        self._budget.charge_terms(max(0, last - first + 1))
        outer = self._values.get(node.index)
        total: Value = 0 if node.function == "sum" else 1
        function = "add" if node.function == "sum" else "mul"
        try:
            for index in range(first, last + 1):
                self._values[node.index] = index
                total = self._applied(function, [total, self.value(node.body)])
        finally:
            if outer is None:
                self._values.pop(node.index, None)
            else:
                self._values[node.index] = outer
        return total

    def _modular_power(self, node: Apply) -> int | None:
        """``a^b mod m`` without the power itself, where all three are integers; else None."""
        power, modulus_node = node.arguments
        if not (isinstance(power, Apply) and power.function == "pow" and len(power.arguments) == 2):
            return None
        base, exponent, modulus = (self.value(part) for part in (*power.arguments, modulus_node))
        if not (isinstance(base, int) and isinstance(exponent, int) and isinstance(modulus, int)):
            return None
        if modulus == 0 or exponent < 0 or max(map(bits_of, (base, exponent, modulus))) > _MODULAR_BITS:
            return None
        self._budget.charge(bits_of(exponent) * (1 + bits_of(modulus) >> 8))
        return pow(base, exponent, modulus)

    def _guard_angle(self, node: Apply, value: Value) -> None:
        """``sin(30)`` and ``sin(theta)`` with theta = 30 are degrees to many: refused, not guessed."""
        turns = not isinstance(value, float) and not -6.2832 < value < 6.2832
        if turns and len(node.names) <= 1:
            fail("ambiguous_angle", f"{node.function} of more than a turn: degrees or radians?")
