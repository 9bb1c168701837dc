"""Formulas as trees: nodes, their limits, and substitution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from engine.errors import ScaffoldError

MAX_NESTING = 40
MAX_NODES = 2000
SERIES = frozenset({"sum", "product"})


class FormulaError(ScaffoldError):
    """Base class of the errors about formulas, which have a ``kind``."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class FormulaSyntaxError(FormulaError, ValueError):
    """A text is not a formula. ``kind``: ``syntax``, ``prose``, ``ambiguous``, ``too_large``."""


_NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Number:
    """An exact constant."""

    value: int | Fraction
    size: int = 1
    depth: int = 1
    names: frozenset[str] = _NO_NAMES
    functions: frozenset[str] = _NO_NAMES


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, a constant (``pi``), or the index of a series."""

    name: str
    size: int = 1
    depth: int = 1
    functions: frozenset[str] = _NO_NAMES

    @property
    def names(self) -> frozenset[str]:
        """The name itself."""
        return frozenset((self.name,))


@dataclass(frozen=True, slots=True)
class Apply:
    """A function or an operator (``add``, ``mul``, ``div``, ``pow``, ``neg`` ...) and its arguments.

    Those of ``sum`` and ``product`` are the body, the name of the index, its first and its last value (included).
    ``size``, ``depth``, the free ``names`` and all ``functions`` inside are computed when the node is made.
    """

    function: str
    arguments: tuple[Node, ...]
    size: int = field(compare=False)
    depth: int = field(compare=False)
    names: frozenset[str] = field(compare=False, repr=False)
    functions: frozenset[str] = field(compare=False, repr=False)


Node = Number | Name | Apply


def apply(function: str, *arguments: Node) -> Apply:
    """A node, its size and depth checked. Raises FormulaSyntaxError (``too_large``)."""
    size, depth, names, functions = 1, 1, _NO_NAMES, frozenset((function,))
    for argument in arguments:
        size, depth = size + argument.size, max(depth, 1 + argument.depth)
        names, functions = names | argument.names, functions | argument.functions
    if size > MAX_NODES or depth > MAX_NESTING:
        raise FormulaSyntaxError("too_large", f"an expression has more than {MAX_NODES} parts or is too deep")
    if function in SERIES:
        body, index, first, last = arguments
        names = (body.names - index.names) | first.names | last.names
    return Apply(function, arguments, size, depth, names, functions)


def join(function: str, left: Node, right: Node) -> Node:
    """A binary node. A chain of sums or products becomes one node with many arguments, so that the tree is not deep."""
    if function == "sub":
        function, right = "add", apply("neg", right)
    if function in ("add", "mul") and isinstance(left, Apply) and left.function == function:
        return apply(function, *left.arguments, right)
    return apply(function, left, right)


def substitute(node: Node, replacements: Mapping[str, Node]) -> Node:
    """The tree with names replaced by trees. Raises FormulaSyntaxError where it grows too large."""
    if isinstance(node, Number):
        return node
    if isinstance(node, Name):
        return replacements.get(node.name, node)
    if node.function in SERIES:
        replacements = {name: tree for name, tree in replacements.items() if Name(name) != node.arguments[1]}
    return apply(node.function, *(substitute(argument, replacements) for argument in node.arguments))
