"""Dimensional analysis of a scaffold's rules.

A dimension is a mapping from base dimension to power, which is not 0 ({} is a pure number). None means unknown: a
constant such as 9.8 may have a unit that is not written, so expressions that contain it are not checked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter

from engine.mathematics.evaluation import CONSTANTS, exact_value
from engine.mathematics.parsing.tree import Apply, FormulaSyntaxError, Name, Node, Number
from engine.mathematics.rule import parse_rule
from engine.records import Scaffold

Dimension = Mapping[str, Fraction]

_PURE: Dimension = {}
_SAME = frozenset({"neg", "abs", "floor", "ceil", "add", "mod", "min", "max", "gcd", "lcm"})
_PURE_ONLY = frozenset(
    "sin cos tan cot sec csc asin acos atan sinh cosh tanh exp ln log log2 log10 factorial binomial "
    "permutations".split()
)
_EXPONENTS: Mapping[str, Iterable[Fraction | int]] = {
    "mul": itertools.repeat(1), "div": (1, -1), "sqrt": (Fraction(1, 2),), "cbrt": (Fraction(1, 3),)
}  # fmt: skip
"""The powers of the arguments in a product."""
_MOST_RULES = 500
_MOST_PURE_INTEGER = 9  # a larger one may have a unit: 10 may be g in m/s^2


class DimensionMismatchError(ValueError):
    """Quantities of different dimensions are added, or an argument that must be a pure number has a dimension."""


def dimension_checks(
    scaffold: Scaffold, known: Mapping[str, Dimension | None], stated: Dimension | None
) -> dict[str, bool]:
    """Check each rule's dimensions, in an order in which causes come before effects. A cyclic graph has no checks.

    Args:
        scaffold: the scaffold.
        known: the knowns' dimensions; None where a known's unit cannot be read.
        stated: the dimension of the stated answer; None where there is none.

    Returns:
        for each effect, whether its rule is consistent; for the key ``target``, whether the target's dimension is the
        stated one. Effects of unknown dimension have no entry. Empty for a graph of more than 500 rules.
    """
    if len(scaffold.causal_graph) > _MOST_RULES:
        return {}
    dimensions: dict[str, Dimension | None] = dict(known)
    checks: dict[str, bool] = {}
    edges = {edge.effect: edge for edge in scaffold.causal_graph}
    try:
        order = list(TopologicalSorter({name: edge.cause for name, edge in edges.items()}).static_order())
    except CycleError:
        return {}
    for edge in (edges[name] for name in order if name in edges):
        dimension = None
        try:
            rule = parse_rule(edge.rule, edge.effect, edge.cause)
            if rule.left in (None, Name(edge.effect)):  # no analysis of equations that must be solved
                dimension = dimension_of_tree(rule.right, dimensions.get)
        except FormulaSyntaxError:
            pass
        except DimensionMismatchError:
            checks[edge.effect] = False
        dimensions[edge.effect] = dimension
        if dimension is not None:
            checks[edge.effect] = True
    target = dimensions.get(scaffold.target_variable)
    if target is not None and stated is not None:
        checks["target"] = target == stated
    return checks


def dimension_of_tree(tree: Node, dimension: Callable[[str], Dimension | None]) -> Dimension | None:
    """The dimension of an expression; None if it is unknown.

    Args:
        tree: the expression.
        dimension: returns the dimension of a variable.

    Raises:
        DimensionMismatchError: terms of different dimensions are combined, or an argument must be a pure number.
    """
    if isinstance(tree, Number):
        return _PURE if is_pure_constant(Fraction(tree.value)) else None
    if isinstance(tree, Name):
        return _PURE if tree.name in CONSTANTS else dimension(tree.name)
    return _of_application(tree, [dimension_of_tree(item, dimension) for item in tree.arguments])


def is_pure_constant(value: Fraction) -> bool:
    """Whether a written number certainly has no unit: 2, 1/2 or 3/4, but not 9.8 or 10."""
    return abs(value.numerator) <= _MOST_PURE_INTEGER and value.denominator <= _MOST_PURE_INTEGER


def _of_application(tree: Apply, dimensions: list[Dimension | None]) -> Dimension | None:
    name = tree.function
    if name in _SAME:
        return _same(dimensions)
    if name in _PURE_ONLY:
        _same([*dimensions, _PURE])
        return _PURE
    if name in _EXPONENTS:
        return _combine(dimensions, _EXPONENTS[name])
    if name != "pow":
        return None  # such as a series, which is not analysed
    _same([dimensions[1], _PURE])
    exponent = exact_value(tree.arguments[1])
    if exponent is not None:
        return _combine(dimensions[:1], itertools.repeat(exponent))
    return _PURE if dimensions[0] == _PURE else None


def _same(dimensions: list[Dimension | None]) -> Dimension | None:
    """The common dimension of terms that must agree; unknown terms agree with anything."""
    known = [dimension for dimension in dimensions if dimension is not None]
    if any(dimension != known[0] for dimension in known[1:]):
        raise DimensionMismatchError(f"{known}")
    return known[0] if known and len(known) == len(dimensions) else None


def _combine(dimensions: list[Dimension | None], exponents: Iterable[Fraction | int]) -> Dimension | None:
    """The dimension of a product of powers."""
    total: dict[str, Fraction] = {}
    for dimension, exponent in zip(dimensions, exponents, strict=False):
        if dimension is None:
            return None
        for base, power in dimension.items():
            total[base] = total.get(base, Fraction(0)) + exponent * power
    return {base: power for base, power in total.items() if power}
