"""Constants that the rules of a scaffold make out of conventional ones: 100 + 9 * 10 + 10/2 is 195.

A conventional constant is free in a formula, and a product of several is too (``4/3 * pi``, ``60 * 60``). A sum of them
can be any number, also where its terms stand apart: in ``x = crates + 100; t = x + 90 - 7`` the target is a given
number plus 183. So the constant terms and factors are collected along the rules, from the knowns to the target.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from engine.mathematics.binding import BoundRule
from engine.mathematics.evaluation import CONSTANTS, evaluate
from engine.mathematics.parsing.tree import Apply, Name, Node, Number, Series
from engine.mathematics.values import FormulaValueError, Value, WorkBudget, bits_of
from engine.scaffold.conventions import is_conventional_fraction

_COMMON = frozenset((0, 1, 2))
_SMALL = 10  # a sum of constants of this size spells no answer that was not near before
_OWN_LEAVES = 4
"""A sum of so few constants that the problem states, such as ``12 - 2``, is the problem's."""
_OWN_FACTORS = 2
"""A term may be a product of so many conventional constants, such as ``2 * 90``."""
_FACTORS = frozenset(("pow", "sqrt", "abs", "div", "mul", "neg", "root", "cbrt", "exp"))
_SMOOTH = 30  # 2 * 3 * 5
_MOST_NODES = 4000
_MOST_BITS = 512
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
    """

    offset: Value = 0
    scale: Value | None = None
    leaves: int = 0
    added: bool = False
    own: bool = True


_REST = _Part(scale=1)


@dataclass(frozen=True, slots=True)
class MadeConstants:
    """The constants behind a target.

    Args:
        values: those that are made of others and are neither conventional, nor small, nor the problem's.
        around_target: the constant term and the constant factor of the target, unless they are conventional. If one of
            them is the answer, what depends on the problem is 0 or 1 in it.
    """

    values: tuple[Value, ...]
    around_target: tuple[Value, ...]


def made_constants(
    rules: Iterable[BoundRule],
    target: str,
    constants: Mapping[str, Value],
    gives: Callable[[Value], bool],
) -> MadeConstants:
    """Collect the constants behind a target.

    Args:
        rules: the rules that the target needs, in the order in which their effects get values.
        target: the variable.
        constants: the knowns that are constants, with their values. All other knowns are numbers of the problem.
        gives: whether the problem gives a number.
    """
    collector = _Collector(constants, gives)
    for rule in rules:
        collector.apply(rule)
    return collector.found(target)


class _Collector:
    """Reads rules in order, and keeps the part of each effect and the constants that were found."""

    def __init__(self, constants: Mapping[str, Value], gives: Callable[[Value], bool]) -> None:
        self._parts = {name: _constant(value) for name, value in constants.items()}
        self._gives = gives
        self._made: list[Value] = []
        self._nodes = 0
        self._budget = WorkBudget(units=20_000, terms=1000)

    def apply(self, rule: BoundRule) -> None:
        sides = [rule.right] if rule.left is None else [rule.right, rule.left]
        self._nodes += sum(side.size for side in sides)
        if self._nodes > _MOST_NODES:
            return
        part = self._part(rule.right)
        if rule.left is not None:  # an equation is solved for its effect: what counts is the constant between its sides
            self._seal(self._sum([part, _scaled(self._part(rule.left), -1)]))
            part = _REST
        if rule.effect in self._parts:
            self._seal(part)
        else:
            self._parts[rule.effect] = part

    def found(self, target: str) -> MadeConstants:
        part = self._parts.get(target, _REST)
        self._seal(part)
        around = (part.offset, 1 if part.scale is None else part.scale)
        return MadeConstants(
            tuple(dict.fromkeys(self._made)), tuple(value for value in around if not is_conventional_fraction(value))
        )

    def _part(self, node: Node) -> _Part:
        match node:
            case Number():
                return self._number(node.value)
            case Name():
                constant = CONSTANTS.get(node.name) if node.name not in self._parts else None
                return self._parts.get(node.name, _REST) if constant is None else _constant(constant)
            case Series():
                parts = [self._part(part) for part in (node.first, node.last, node.body)]
                return self._function(node, parts, free=frozenset(node.names))
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
        own = value in _COMMON or (is_conventional and self._gives(value))
        return replace(_constant(value), own=own)

    def _sum(self, parts: list[_Part]) -> _Part:
        terms = [part for part in parts if part.offset]
        rests = [part for part in parts if part.scale is not None]
        offset = _total(part.offset for part in terms)
        added = len(terms) > 1 or any(part.added for part in terms)
        scale: Value | None = None
        if len(rests) == 1:
            scale = rests[0].scale
        elif rests:
            scale = 1
            for part in rests:
                self._check_factor(part.scale)
        return _Part(offset, scale, sum(part.leaves for part in terms), added, all(part.own for part in terms))

    def _product(self, parts: list[_Part]) -> _Part:
        rests = [part for part in parts if part.scale is not None]
        constants = [part for part in parts if part.scale is None]
        factor = _multiplied(part.offset for part in constants)
        if not rests:
            return _Part(
                factor,
                None,
                sum(part.leaves for part in constants),
                any(part.added for part in constants),
                all(part.own for part in constants),
            )
        for part in constants:  # 9 as 10 - 1 is no conventional factor
            self._seal(part)
        if len(rests) == 1:
            return _scaled(rests[0], factor)
        for part in rests:
            self._seal(replace(part, scale=1))
        return _scaled(_Part(scale=_multiplied(part.scale or 1 for part in rests)), factor)

    def _inverse(self, part: _Part) -> _Part:
        if part.scale is None:
            return replace(part, offset=_quotient(part.offset)) if part.offset else _REST
        self._seal(replace(part, scale=1))
        return _Part(scale=_quotient(part.scale))

    def _function(self, node: Apply | Series, parts: list[_Part], free: frozenset[str] = frozenset()) -> _Part:
        """A function: a constant where its arguments are, else a rest of its own."""
        is_constant = all(part.scale is None for part in parts)
        if is_constant and not free:
            value = self._value(node)
            if value is not None:
                added = any(part.added for part in parts) or node.function not in _FACTORS
                leaves = sum(part.leaves for part in parts)
                return _Part(value, None, leaves, added, all(part.own for part in parts))
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
        if part.scale is not None:
            self._check_factor(part.scale)
        is_own = part.own and part.leaves <= _OWN_LEAVES
        is_term = part.scale is not None and part.leaves > _OWN_FACTORS  # (10/2) * 10 beside a given number
        if (part.added or is_term) and not is_own and not self._is_harmless(part.offset, part.leaves):
            self._made.append(part.offset)

    def _check_factor(self, scale: Value | None) -> None:
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
    return _Part(value, None, 1, False, value in _COMMON)


def _scaled(part: _Part, factor: Value) -> _Part:
    scale = None if part.scale is None or not factor else _multiplied([part.scale, factor])
    return replace(part, offset=_multiplied([part.offset, factor]), scale=scale)


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


def _quotient(value: Value) -> Value:
    return 1 / value if isinstance(value, float) else Fraction(1, value)
