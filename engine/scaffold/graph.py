"""The graph that a scaffold declares: what is reached along its edges, and whether it has a cycle."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from engine.records import Scaffold


def reached(start: str, following: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """The names that follow from one in one step or more; the first is among them only if it follows from itself."""
    names: set[str] = set()
    stack = [start]
    while stack:
        new = set(following.get(stack.pop(), ())) - names
        names |= new
        stack += new
    return frozenset(names)


def work_through(
    rules: Mapping[int, tuple[str, Collection[str]]], have: Collection[str], apply: Callable[[int], bool]
) -> list[int]:
    """Apply each rule as soon as all variables that it reads are there. The time is linear in their number.

    Args:
        rules: by index: the variable that the rule gives, and those that it reads.
        have: the variables that are there at the start.
        apply: applies the rule of an index; returns whether its variable is new.

    Returns:
        the indices of the rules that were never ready.
    """
    missing = {index: {name for name in reads if name not in have} for index, (_, reads) in rules.items()}
    waiting: dict[str, list[int]] = defaultdict(list)
    for index, names in missing.items():
        for name in names:
            waiting[name].append(index)
    ready = deque(index for index, names in missing.items() if not names)
    while ready:
        index = ready.popleft()
        effect = rules[index][0]
        for waiter in waiting[effect] if apply(index) else ():
            missing[waiter].discard(effect)
            if not missing[waiter]:
                ready.append(waiter)
    return [index for index, names in missing.items() if names]


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
