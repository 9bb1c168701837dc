"""The graph that a scaffold declares: what is reached along its edges, and whether it has a cycle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from graphlib import CycleError, TopologicalSorter

from engine.records import Scaffold


def reached(start: str, following: Callable[[str], Iterable[str]]) -> frozenset[str]:
    """The names that follow from one in one step or more; the first is among them only if it follows from itself."""
    found: set[str] = set()
    stack = [start]
    while stack:
        new = set(following(stack.pop())) - found
        found |= new
        stack += new
    return frozenset(found)


def find_cycle(scaffold: Scaffold) -> tuple[str, ...] | None:
    """One cycle of the declared graph, in the direction of its edges; None if it has none."""
    causes: dict[str, set[str]] = defaultdict(set)
    for edge in scaffold.causal_graph:
        causes[edge.effect].update(edge.cause)
    try:
        TopologicalSorter(causes).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]  # its first name is its last one, too
        return tuple(cycle[1:])
    return None
