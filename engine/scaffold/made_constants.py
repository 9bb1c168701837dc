"""Constants that the rules of a scaffold make out of conventional ones: 100 + 9 * 10 + 10/2 is 195.

A conventional constant is free in a formula, and a product of several is too (``4/3 * pi``, ``60 * 60``). A sum of them
can be any number, also where its terms stand apart: in ``x = crates + 100; t = x + 90 - 7`` the target is a given
number plus 183. So the constant terms and factors are collected along the rules, from the knowns to the target. A part
of a rule whose value does not change with the problem's numbers is a constant, whatever it reads.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from engine.mathematics.binding import BoundRule
from engine.mathematics.evaluation import CONSTANTS, evaluate
from engine.mathematics.parsing.tree import Apply, Name, Node, Number, Series
from engine.mathematics.values import FormulaValueError, Value, WorkBudget, agree, bits_of
from engine.scaffold.conventions import COMMON, is_conventional_fraction, is_physical_constant
from engine.scaffold.joint_moves import Surroundings
from engine.scaffold.problem_numbers import leaves

_SMALL = 10  # a sum of constants of this size spells no answer that was not near before
_OWN_LEAVES = 4
"""A sum of so few constants that the problem states, such as ``12 - 2``, is the problem's."""
_OWN_FACTORS = 2
"""A term may be a product of so many conventional constants, such as ``2 * 90``."""
_FACTORS = frozenset(("pow", "sqrt", "abs", "div", "mul", "neg", "root", "cbrt", "exp"))
_SMOOTH = 30  # 2 * 3 * 5
_MOST_NODES = 4000
_MOST_BITS = 512
_MOST_WORK = 1_000_000
_MOST_WORK_OF_ONE = 200_000
_UNKNOWN = math.inf
"""The value of a constant that is too large to be followed; it is no answer."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a formula as ``scale * rest + offset``, where the rest depends on numbers of the problem.

    Args:
        offset: the constant term; the value of a part that is a constant.
        scale: the constant factor of the rest; None where there is no rest.
        leaves: how many constants the offset is made of.
        added: whether the offset is a sum or another function, not only a product.
        own: whether the problem states all constants in the offset but 0, 1 and 2.
        nature: the product of the constants of nature in the scale; without a rest, in the offset.
    """

    offset: Value = 0
    scale: Value | None = None
    leaves: int = 0
    added: bool = False
    own: bool = True
    nature: Value = 1


_REST = _Part(scale=1)


@dataclass(frozen=True, slots=True)
class MadeConstants:
    """The constants behind a target.

    Args:
        values: those that are made of others and are neither conventional, nor small, nor the problem's.
        around_target: the constant term and the constant factor of the target, unless they are conventional. If one of
            them is the answer, what depends on the problem is 0 or 1 in it.
        is_all: whether nothing in the target depends on the problem, and it is not small.
    """

    values: tuple[Value, ...]
    around_target: tuple[Value, ...]
    is_all: bool = False


def made_constants(
    rules: Iterable[BoundRule],
    target: str,
    constants: Mapping[str, Value],
    gives: Callable[[Value], bool],
    surroundings: Sequence[Surroundings],
) -> MadeConstants:
    """Collect the constants behind a target.

    Args:
        rules: the rules that the target needs, in the order in which their effects get values.
        target: the variable.
        constants: the knowns that are constants, with their values. All other knowns are numbers of the problem.
        gives: whether the problem gives a number.
        surroundings: the values of variables, first as they are, then after changes of the problem's numbers.
    """
    collector = _Collector(constants, gives, surroundings)
    for rule in rules:
        collector.apply(rule)
    return collector.found(target)


class _Collector:
    """Reads rules in order, and keeps the part of each effect and the constants that were found."""

    def __init__(
        self,
        constants: Mapping[str, Value],
        gives: Callable[[Value], bool],
        surroundings: Sequence[Surroundings],
    ) -> None:
        self._parts = {name: _constant(value) for name, value in constants.items()}
        self._written = dict.fromkeys(constants, (False, 1))
        self._unknown = ""
        self._surroundings = surroundings
        self._work = _MOST_WORK
        self._gives = gives
        self._made: list[Value] = []
        self._nodes = 0
        self._budget = WorkBudget(units=20_000, terms=1000)

    def apply(self, rule: BoundRule) -> None:
        self._nodes += sum(side.size for side in rule.sides)
        if self._nodes > _MOST_NODES:
            self._made.append(_UNKNOWN)
            return
        self._unknown = rule.effect if rule.left is not None else ""
        part = self._part(rule.right)
        self._written.setdefault(rule.effect, self._own_and_count(*rule.sides))
        if rule.left is not None:  # an equation is solved for its effect: what counts is the constant between its sides
            self._seal(self._sum([part, _scaled(self._part(rule.left), -1)]))
            self._unknown = ""
            part = self._unless_fixed(Name(rule.effect), _REST)
        if rule.effect in self._parts:
            self._seal(part)
        else:
            self._parts[rule.effect] = part

    def found(self, target: str) -> MadeConstants:
        part = self._parts.get(target, _REST)
        self._seal(part)
        around = (part.offset, 1 if part.scale is None else _over(part.scale, part.nature))
        return MadeConstants(
            tuple(dict.fromkeys(self._made)),
            tuple(value for value in around if not is_conventional_fraction(value)),
            is_all=part.scale is None and not -_SMALL <= part.offset <= _SMALL and not self._gives(part.offset),
        )

    def _part(self, node: Node) -> _Part:
        match node:
            case Number():
                return self._number(node.value)
            case Name():
                constant = CONSTANTS.get(node.name) if node.name not in self._parts else None
                return self._parts.get(node.name, _REST) if constant is None else _constant(constant)
        return self._unless_fixed(node, self._compound(node))

    def _unless_fixed(self, node: Node, part: _Part) -> _Part:
        """The part of a node; a constant where the node's value does not depend on the numbers of the problem.

        This is also assumed of a value of 0, 1 or -1 that three or more numbers lead to, some of them not the
        problem's, such as ``crates - 3 * 4``: as a term, a factor or an exponent it changes nothing.
        """
        if part.scale is None:
            return part
        value, *moved = (self._valued(node, one) for one in self._surroundings)
        if value is None:
            return part
        own, count = self._own_and_count(node)
        if self._unknown in node.names:  # (t - 4 * 10) as a factor: a constant is the solution
            if node.names == {self._unknown} and agree(value, 0) and not own and not self._is_harmless(part.offset):
                self._made.append(part.offset)
            return part
        found = [other for other in moved if other is not None]
        is_fixed = len(found) > 1 and all(agree(value, other) for other in found)
        is_neutral = any(agree(value, neutral) for neutral in (0, 1, -1, part.offset))
        if is_fixed or (is_neutral and count > 2 and not own):
            return _Part(value, None, count, True, own)
        return part

    def _valued(self, node: Node, surroundings: Surroundings) -> Value | None:
        """The value of a node; the work is bounded, and what it does not suffice for counts as a made constant."""
        given = max(0, min(self._work, _MOST_WORK_OF_ONE))
        budget = WorkBudget(units=given)
        value = surroundings.value(node, budget)
        self._work -= given - max(0, budget.units)
        if self._work <= 0:
            self._made.append(_UNKNOWN)
        return value

    def _own_and_count(self, *nodes: Node) -> tuple[bool, int]:
        """Whether the problem gives all numbers of nodes but 0, 1 and 2, and how many there are."""
        found = [
            self._written.get(leaf.name, (True, 1))
            if isinstance(leaf, Name)
            else (leaf.value in COMMON or self._gives(leaf.value), 1)
            for node in nodes
            for leaf in leaves(node)
        ]
        return all(own for own, _ in found), sum(count for _, count in found)

    def _compound(self, node: Apply | Series) -> _Part:
        if isinstance(node, Series):
            return self._function(node, [self._part(part) for part in (node.first, node.last, node.body)])
        parts = [self._part(argument) for argument in node.arguments]
        match node.function:
            case "add":
                return self._sum(parts)
            case "neg":
                return _scaled(parts[0], -1)
            case "mul":
                return self._product(parts)
            case "div" if len(parts) == 2:
                return self._product([parts[0], self._inverse(parts[1])])
        return self._function(node, parts)

    def _number(self, value: Value) -> _Part:
        is_conventional = is_conventional_fraction(value)
        if not is_conventional and self._gives(value):
            return _REST
        own = value in COMMON or (is_conventional and self._gives(value))
        return replace(_constant(value), own=own)

    def _sum(self, parts: list[_Part]) -> _Part:
        terms = [part for part in parts if part.offset]
        rests = [part for part in parts if part.scale is not None]
        offset = _total(part.offset for part in terms)
        rest = _Part()
        if len(rests) == 1:
            rest = rests[0]
        elif rests:
            rest = _REST
            for part in rests:
                self._check_factor(part)
        return _made_of(terms, offset, rest.scale, rest.nature, added=len(terms) > 1)

    def _product(self, parts: list[_Part]) -> _Part:
        rests = [part for part in parts if part.scale is not None]
        constants = [part for part in parts if part.scale is None]
        factor = _multiplied(part.offset for part in constants)
        nature = _multiplied(part.nature for part in constants)
        if not rests:
            return _made_of(constants, factor, None, nature)
        for part in constants:  # 9 as 10 - 1 is no conventional factor
            self._seal(part)
        if len(rests) == 1:
            return _scaled(rests[0], factor, nature)
        for part in rests:
            self._seal(replace(part, scale=1, nature=1))
        scale = _multiplied(part.scale or 1 for part in rests)
        return _scaled(_Part(scale=scale, nature=_multiplied(part.nature for part in rests)), factor, nature)

    def _inverse(self, part: _Part) -> _Part:
        if part.scale is None:
            return replace(part, offset=_over(1, part.offset), nature=_over(1, part.nature)) if part.offset else _REST
        self._seal(replace(part, scale=1, nature=1))
        return _Part(scale=_over(1, part.scale), nature=_over(1, part.nature))

    def _function(self, node: Apply | Series, parts: list[_Part]) -> _Part:
        """A function: a constant where its arguments are, else a rest of its own."""
        if all(part.scale is None for part in parts):
            value = self._value(node)
            if value is not None:
                is_natural = value and any(part.nature != 1 for part in parts)
                nature = value if is_natural else 1
                return _made_of(parts, value, None, nature, added=node.function not in _FACTORS)
        for part in parts:
            self._seal(part)
        return _REST

    def _value(self, node: Node) -> Value | None:
        values = {name: self._parts[name].offset for name in node.names if name in self._parts}
        try:
            return evaluate(node, values, self._budget)
        except (FormulaValueError, OverflowError):
            return None

    def _seal(self, part: _Part) -> None:
        """Check the constants of a part whose term and factor cannot be collected further."""
        self._check_factor(part)
        is_own = part.own and part.leaves <= _OWN_LEAVES
        is_term = part.scale is not None and part.leaves > _OWN_FACTORS  # (10/2) * 10 beside a given number
        if (part.added or is_term) and not is_own and not self._is_harmless(part.offset, part.leaves):
            self._made.append(part.offset)

    def _check_factor(self, part: _Part) -> None:
        scale = None if part.scale is None else _over(part.scale, part.nature)
        if scale is None or isinstance(scale, float):
            return
        if not _is_smooth(scale) and not self._is_harmless(scale):
            self._made.append(scale)

    def _is_harmless(self, value: Value, leaves: int = 1) -> bool:
        if not math.isfinite(value):
            return True
        near = Fraction(value).limit_denominator(1000) if isinstance(value, float) else Fraction(value)
        if not math.isclose(near, value, rel_tol=1e-9):  # irrational, such as 1 + sqrt(5)
            return leaves <= _OWN_LEAVES
        is_small = near.denominator == 1 and abs(near) <= _SMALL
        return is_small or is_conventional_fraction(near) or self._gives(value)


def _constant(value: Value) -> _Part:
    is_natural = not is_conventional_fraction(value) and is_physical_constant(value)
    return _Part(value, None, 1, False, value in COMMON, value if is_natural else 1)


def _made_of(
    parts: Sequence[_Part], offset: Value, scale: Value | None, nature: Value, *, added: bool = False
) -> _Part:
    """A part whose offset is made of those of other parts."""
    count, own = sum(part.leaves for part in parts), all(part.own for part in parts)
    return _Part(offset, scale, count, added or any(part.added for part in parts), own, nature)


def _scaled(part: _Part, factor: Value, nature: Value = 1) -> _Part:
    scale = None if part.scale is None or not factor else _multiplied([part.scale, factor])
    offset, nature = _multiplied([part.offset, factor]), _multiplied([part.nature, nature])
    return replace(part, offset=offset, scale=scale, nature=nature)


def _is_smooth(value: Value) -> bool:
    """Whether 2, 3 and 5 are the only prime factors of a fraction: then it is a product of conventional constants."""
    exact = Fraction(value)
    return all(pow(_SMOOTH, part.bit_length(), part) == 0 for part in (abs(exact.numerator), exact.denominator) if part)


def _total(values: Iterable[Value]) -> Value:
    return _folded(operator.add, 0, values)


def _multiplied(values: Iterable[Value]) -> Value:
    return _folded(operator.mul, 1, values)


def _folded(operation: Callable[[Value, Value], Value], start: Value, values: Iterable[Value]) -> Value:
    """The sum or product of values; ``_UNKNOWN`` where it is too large."""
    result = start
    for value in values:
        try:
            result = operation(result, value)
        except OverflowError:
            return _UNKNOWN
        if bits_of(result) > _MOST_BITS:
            return _UNKNOWN
    return result


def _over(value: Value, divisor: Value) -> Value:
    if isinstance(value, float) or isinstance(divisor, float):
        return value / divisor
    return Fraction(value) / divisor
