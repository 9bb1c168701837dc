"""Resolve the names in a rule to variables of the scaffold.

A name refers to the variable of that name. Models also write a variable as a term (``OC^2`` for ``OC_squared``,
``log2(x)`` for ``log2_x``) or change its case. Such a spelling is accepted only for declared causes, only if exactly
one variable matches, and only if the name has no other meaning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.mathematics.evaluation import CONSTANTS
from engine.mathematics.functions import FUNCTION_NAMES, OPERATIONS
from engine.mathematics.parsing.tokens import FUNCTIONS
from engine.mathematics.parsing.tree import SERIES, Apply, Name, Node, Number, apply
from engine.mathematics.rule import Rule

_SPELLED: Mapping[str, Callable[[list[str]], str]] = {
    "pow": "".join,
    "mul": "".join,
    "log": lambda texts: "log" + "".join(reversed(texts)),
}
_POWERS = {"squared": "2", "cubed": "3"}


@dataclass(frozen=True, slots=True)
class BoundRule:
    """A rule whose names have been resolved to variables.

    Args:
        effect: the variable that the rule computes.
        left: the left side of an equation to solve for the effect; None where ``right`` is its value.
        right: the expression, or the right side of the equation.
        reads: the variables that must have values first (the effect is not among them).
        unknown: names that refer to no variable; a rule with such names has no value.
    """

    effect: str
    left: Node | None
    right: Node
    reads: frozenset[str]
    unknown: frozenset[str]


def bind_rule(rule: Rule, effect: str, causes: Sequence[str], variables: Collection[str]) -> BoundRule:
    """Resolve a rule's names to variables.

    Args:
        rule: the parsed rule.
        effect: the variable that the rule computes.
        causes: its declared causes.
        variables: all variables of the scaffold; one that is used but is not a declared cause is found by its exact
            name and is then in ``reads``.

    Raises:
        FormulaSyntaxError: the bound rule is too large.
    """
    binder = _Binder(rule, effect, causes, variables)
    right = binder.bound(rule.right)
    left: Node | None = None
    if rule.left is not None and not binder.names_effect(rule.left, right):
        left = binder.bound(rule.left)
    # "slope = ..." in the rule for slope_AB: a name without another meaning is a short name of the effect.
    if isinstance(left, Name) and left.name not in variables and left.name not in right.names:
        left = None
    names, called = right.names, right.functions
    if left is not None:
        names, called = names | left.names, called | left.functions
    used = names - {effect}
    reads = used.intersection(variables)
    return BoundRule(effect, left, right, reads, used.difference(reads, CONSTANTS) | (called - FUNCTION_NAMES))


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """A name without case, spaces, hyphens and underscores, so that ``Total Time`` and ``total_time`` are equal.

    A single letter keeps its case, because ``R`` and ``r`` are usually different variables.
    """
    bare = re.sub(r"[\s_\-]+", "", name)
    return bare.casefold() if len(bare) > 1 else bare


@lru_cache(maxsize=4096)
def signature(variable: str) -> str:
    """A variable's name in the form of ``spelling``: ``OC_squared`` gives ``oc2``, ``m_over_n`` gives ``movern``.

    A digit after an underscore is an index (``x_2``), not a power, and is marked by ``#``.
    """
    text = re.sub(r"_(?=\d)", "#", re.sub(r"log_(?=\d)", "log", variable.lower()))
    for word, digit in _POWERS.items():
        text = re.sub(rf"_?{word}", digit, text)
    return re.sub(r"[^\w#]|_", "", text)


class _Binder:
    """Binds the sides of one rule to the variables of its scaffold."""

    def __init__(self, rule: Rule, effect: str, causes: Sequence[str], variables: Collection[str]) -> None:
        self._effect = effect
        self._declared = set(causes)
        self._variables = variables
        self._written = _names_in(rule.right) | (_names_in(rule.left) if rule.left else frozenset())
        self._by_fold = _unique({cause: folded(cause) for cause in causes if cause not in self._written})
        self._by_signature = _unique({cause: signature(cause) for cause in causes})

    def names_effect(self, node: Node, right: Node) -> bool:
        """Whether a left side is only the effect, as a name or a term, and the right side does not contain it."""
        if self._effect in right.names:
            return False
        if not isinstance(node, Name):
            return self._spells(node, self._effect)
        is_other = node.name in self._declared or (node.name != self._effect and node.name in self._variables)
        return not is_other and folded(node.name) == folded(self._effect)

    def _spells(self, node: Node, variable: str) -> bool:
        if not isinstance(node, Apply) or spelling(node) != signature(variable):
            return False
        # x^2 may be x_squared, but not x2, because x2 may also be the second of several x.
        return node.function != "pow" or variable.lower().endswith(tuple(_POWERS))

    def _meaning(self, name: str) -> str | None:
        if name in self._declared or name == self._effect or name in self._variables:
            return name
        if name in CONSTANTS:
            return None
        variable = self._by_fold.get(folded(name))
        return variable if sum(folded(other) == folded(name) for other in self._written) == 1 else None

    def bound(self, node: Node, local: frozenset[str] = frozenset()) -> Node:
        """A tree with the names of variables in it; those in ``local`` are indices of series."""
        if isinstance(node, Number):
            return node
        if isinstance(node, Name):
            return node if node.name in local else Name(self._meaning(node.name) or node.name)
        if node.function in SERIES:
            local |= node.arguments[1].names
            return apply(node.function, *[self.bound(argument, local) for argument in node.arguments])
        return self._spelled_out(node) or self._bound_call(node, local)

    def _spelled_out(self, node: Apply) -> Node | None:
        """The cause whose name a term spells."""
        cause = self._by_signature.get(spelling(node) or "")
        return Name(cause) if cause is not None and self._spells(node, cause) else None

    def _bound_call(self, node: Apply, local: frozenset[str]) -> Node:
        arguments = [self.bound(argument, local) for argument in node.arguments]
        function = FUNCTIONS.get(node.function, node.function)
        variable = self._meaning(node.function)
        callable_so = function == "log" or (function in OPERATIONS and OPERATIONS[function][0] == 1)
        if variable is not None and len(arguments) == 1 and not callable_so:
            return apply("mul", Name(variable), arguments[0])  # n(n - 3) with a variable n is a product
        return apply(function if function in FUNCTION_NAMES else node.function, *arguments)


def spelling(node: Node) -> str | None:
    """A tree as part of a variable name: ``log2(x^4*y)`` gives ``log2x4y``; None if it cannot be written so."""
    if isinstance(node, Number):
        return str(node.value) if isinstance(node.value, int) else None
    if isinstance(node, Name):
        return re.sub(r"_(?=\d)", "#", node.name.lower()).replace("_", "")
    texts = [text for argument in node.arguments if (text := spelling(argument)) is not None]
    if len(texts) < len(node.arguments):
        return None
    joined = _SPELLED.get(node.function)
    return joined(texts) if joined else node.function.lower().replace("_", "") + "".join(texts)


def _unique(keys: Mapping[str, str]) -> dict[str, str]:
    """The names by key, without the keys that several names share."""
    counts = Counter(keys.values())
    return {key: name for name, key in keys.items() if counts[key] == 1}


def _names_in(node: Node) -> frozenset[str]:
    """The names in a tree, also those of called functions that the grammar does not define."""
    return node.names | node.functions.difference(FUNCTION_NAMES, FUNCTIONS)
