"""Check the graph that a scaffold declares, and measure how well its rules and plan follow the graph."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Set as AbstractSet

from engine.records import Scaffold
from engine.scaffold.execution import Program
from engine.scaffold.graph import find_cycle, work_through

STRUCTURE_VERSION = 7
"""Version of the definitions of ``r_graph`` and ``r_logic``; stored with each reward."""


def check_structure(program: Program) -> dict[str, float]:
    """Measure a scaffold's graph, in time linear in its size; of one beyond the limits no rule counts as readable.

    Returns:
        parts of ``r_graph``, in [0, 1]: ``acyclic``; ``knowns_used``, the share of the knowns that are a cause of some
        rule (0 without knowns); ``target_covered``, whether the target is the effect of a rule; ``rules_parse``, the
        share of the rules that can be read; ``target_reachable``, whether the target follows from knowns (and rules
        without causes) along the edges.
    """
    scaffold, edges = program.scaffold, program.scaffold.causal_graph
    causes = {cause for edge in edges for cause in edge.cause}
    effects = {edge.effect for edge in edges}
    used = [name in causes for name in scaffold.knowns]
    return {
        "acyclic": float(find_cycle(scaffold) is None),
        "knowns_used": sum(used) / len(used) if used else 0.0,
        "target_covered": float(scaffold.target_variable in effects),
        "rules_parse": len(program.rules) / len(edges) if edges else 0.0,
        "target_reachable": float(scaffold.target_variable in _reachable(scaffold) & effects),
    }


def _reachable(scaffold: Scaffold) -> set[str]:
    """Variables that follow from knowns: an effect does when all causes of one of its rules do."""
    edges, have = scaffold.causal_graph, set(scaffold.knowns)

    def add(index: int) -> bool:
        is_new = edges[index].effect not in have
        have.add(edges[index].effect)
        return is_new

    work_through({index: (edge.effect, edge.cause) for index, edge in enumerate(edges)}, scaffold.knowns, add)
    return have


def rule_cause_agreement(program: Program) -> float:
    """How well the used variables of rules agree with their listed causes: the mean over rules, in [0, 1].

    A rule's share is |used and listed| / |used or listed|; 1 where both are empty, 0 where the rule cannot be
    read. A name that is no variable counts as used and not listed. 0 if there are no rules.
    """
    edges = program.scaffold.causal_graph
    shares = (_overlap(rule.reads | rule.unknown, set(edges[index].cause)) for index, rule in program.rules.items())
    return sum(shares) / len(edges) if edges else 0.0


def _overlap(first: AbstractSet[str], second: AbstractSet[str]) -> float:
    """|first and second| / |first or second|; 1 where both are empty."""
    return len(first & second) / len(first | second) if first | second else 1.0


def plan_agreement(scaffold: Scaffold) -> float:
    """How far the computation plan follows the graph, in [0, 1].

    A step's share is |inputs and causes| / |inputs or causes| of the rule of its target that fits best
    (a step id counts as the step's target), 0 where no rule gives its target or an input is neither known nor
    the target of an earlier step. Steps with the same target count as one, by their mean, so that repeating a step
    gains nothing. The mean is over the steps and over the effects that no step computes, which count 0. 0 without a
    plan or without rules.
    """
    steps, edges = scaffold.computation_plan, scaffold.causal_graph
    if not steps or not edges:
        return 0.0
    rules: dict[str, list[frozenset[str]]] = defaultdict(list)
    for edge in edges:
        rules[edge.effect].append(frozenset(edge.cause))
    target_of: dict[str, str] = {}
    available = set(scaffold.knowns)
    shares: dict[str, list[float]] = defaultdict(list)
    for step in steps:
        inputs = {name if name in available else target_of.get(name, name) for name in step.inputs}
        in_order = all(name in available for name in inputs)
        fits = [_overlap(inputs, causes) for causes in rules.get(step.target, ())] if in_order else []
        shares[step.target].append(max(fits, default=0.0))
        available.add(step.target)
        target_of[step.id] = step.target
    total = math.fsum(math.fsum(fits) / len(fits) for fits in shares.values())
    return total / len(rules.keys() | shares.keys())
