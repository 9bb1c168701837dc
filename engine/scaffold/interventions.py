"""Numeric do(): change one known, execute again, and compare the values that changed with the graph's descendants."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

from engine.mathematics.solver import UNMEASURED
from engine.mathematics.values import Value, WorkBudget, agree, canonical
from engine.records import Scaffold
from engine.scaffold.execution import Execution, run
from engine.scaffold.graph import reached

MAX_KNOWNS = 8
_UNITS = 400_000


def intervene(scaffold: Scaffold, execution: Execution) -> float | None:
    """Change each numeric known by itself and compare the changed values with the graph's descendants.

    Args:
        scaffold: the scaffold.
        execution: its execution without interventions; the target must have a value in it.

    Returns:
        the mean of the scores of the knowns, in [0, 1]: 1 if exactly the descendants of each known reacted. At most 8
        knowns are changed, in the order of the scaffold. Not measured are knowns whose changed runs failed, or that
        have no descendants in the graph and no effect on any value. None where none was measured.
    """
    if scaffold.target_variable not in execution.order:
        return None
    children: dict[str, list[str]] = defaultdict(list)
    for edge in scaffold.causal_graph:
        for cause in edge.cause:
            children[cause].append(edge.effect)
    budget = WorkBudget(units=_UNITS)
    scores = []
    for known in list(execution.program.knowns)[:MAX_KNOWNS]:
        descendants = reached(known, children)
        effects = frozenset(execution.order) - {known}
        scores.append(_score(execution, known, descendants & effects, effects, budget))
    measured = [score for score in scores if score is not None]
    return math.fsum(measured) / len(measured) if measured else None


def _score(
    execution: Execution, known: str, expected: frozenset[str], effects: frozenset[str], budget: WorkBudget
) -> float | None:
    """Half if the target reacted to a known where it was expected to and only there, and half the overlap.

    The overlap is |expected and reacted| / |expected or reacted|. None where nothing could be measured.
    """
    target = execution.program.scaffold.target_variable
    reacted: set[str] = set()
    is_measured = False
    for changed in _changes(execution.values[known]):
        moved = _moved(execution, run(execution.program, {known: changed}, budget), effects)
        if moved is None:
            continue
        is_measured = True
        reacted |= moved
        if reacted >= expected:  # no further change is needed; min(a, b) may need several
            break
    if not is_measured or not (expected or reacted):
        return None
    target_agrees = (target in expected) == (target in reacted)
    return 0.5 * target_agrees + 0.5 * len(expected & reacted) / len(expected | reacted)


def _moved(before: Execution, after: Execution, effects: frozenset[str]) -> set[str] | None:
    """The effects whose values differ or are lost; None if a new failure shows nothing about the rules."""
    failed = {failure.effect for failure in before.failures if failure.kind in UNMEASURED}
    if any(failure.kind in UNMEASURED and failure.effect not in failed for failure in after.failures):
        return None
    old, new = before.values, after.values
    return {effect for effect in effects if effect not in new or not agree(old[effect], new[effect])}


def _changes(value: Value) -> tuple[Value, ...]:
    """Other values to try, in this order. Integers stay integers, as functions such as factorial need them."""
    if isinstance(value, int):
        return (value + 1, 2 * value or 2, value - 1)
    if isinstance(value, Fraction):
        return tuple(canonical(other) for other in (value * Fraction(3, 2), value + 1, value / 2))
    return tuple(other for other in (value * 1.5, value + 1, value / 2) if math.isfinite(other))
