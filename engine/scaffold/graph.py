"""The graph that a scaffold declares: what is reached along its edges, and whether it has a cycle."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable

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
    """One cycle of the declared graph, in the direction of its edges; None if it has none.

    Kahn's algorithm in linear time: variables whose causes have all been removed are removed. Each variable that
    remains has a cause that remains, so following the causes leads to a cycle.
    """
    children: dict[str, list[str]] = defaultdict(list)
    unsettled: dict[str, int] = defaultdict(int)
    for edge in scaffold.causal_graph:
        for cause in edge.cause:
            children[cause].append(edge.effect)
            unsettled[edge.effect] += 1
    queue = deque(cause for cause in children if cause not in unsettled)
    while queue:
        for child in children[queue.popleft()]:
            unsettled[child] -= 1
            if not unsettled[child]:
                queue.append(child)
    parent = {
        edge.effect: cause
        for edge in scaffold.causal_graph
        if unsettled.get(edge.effect)
        for cause in edge.cause
        if unsettled.get(cause)
    }
    if not parent:
        return None
    path = [next(iter(parent))]
    places = {path[0]: 0}
    while (cause := parent[path[-1]]) not in places:
        places[cause] = len(path)
        path.append(cause)
    return tuple(reversed(path[places[cause] :]))
