"""Merge the scaffolds of one problem if they do not contradict each other.

Contradictions are listed for the critic. There is no majority vote.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.mathematics.binding import BoundRule
from engine.mathematics.values import Value, WorkBudget, agree, format_value
from engine.records import CausalEdge, PlanStep, Scaffold
from engine.scaffold.execution import Execution, compile_scaffold, execute, run
from engine.scaffold.given_values import read_known
from engine.scaffold.graph import find_cycle, reached

MAX_MERGED_RULES = 500


@dataclass(frozen=True)
class _Alternative:
    """One scaffold's rule for an effect.

    ``rule`` is None if it cannot be parsed. ``value`` and ``changed`` are the effect's values before and after the
    shared knowns are changed.
    """

    edge: CausalEdge
    rule: BoundRule | None
    value: Value | None
    changed: Value | None


def merge_scaffolds(
    scaffolds: Sequence[Scaffold],
    answers: Sequence[str | None] = (),
    is_stated: Callable[[str, str], bool] | None = None,
) -> Scaffold | list[str]:
    """Merge scaffolds of one problem.

    Two rules of an effect are equivalent if they are written alike, or if their values are equal, also after all shared
    knowns are changed. A rule that only some scaffolds have is used if the target depends on it. A rule that can be
    parsed is preferred to one that cannot.

    Args:
        scaffolds: the scaffolds.
        answers: their stated answers, if known. If all are the same and the merged scaffold executes to another
            number, that is a conflict about the target.
        is_stated: whether an executed value is a stated answer; by default, whether both are the same number.

    Returns:
        the merged scaffold, whose final answer is the executed one; or the contradictions in what the target depends
        on: a variable and its different rules or values. Their list is empty if the merged scaffold does not execute.
    """
    if not scaffolds or sum(len(scaffold.causal_graph) for scaffold in scaffolds) > MAX_MERGED_RULES:
        return []
    targets = list(dict.fromkeys(scaffold.target_variable for scaffold in scaffolds))
    if len(targets) > 1:
        return [_conflict("target_variable", targets)]
    groups = _alternatives(scaffolds)
    needed = _needed(targets[0], groups)
    knowns, conflicts = _merged_knowns(scaffolds, needed)
    chosen: list[CausalEdge] = []
    for effect in (effect for effect in groups if effect in needed):
        candidates = _distinct(groups[effect])
        if len(candidates) > 1:
            conflicts.append(_conflict(effect, [candidate.edge.rule for candidate in candidates]))
        chosen.append(candidates[0].edge)
    if conflicts:
        return conflicts
    merged = _assembled(scaffolds, knowns, _in_order(chosen, knowns))
    cycle = find_cycle(merged)
    if cycle is not None:
        return [_conflict(cycle[0], [edge.rule for edge in merged.causal_graph if edge.effect in cycle])]
    executed = execute(merged).answer
    if executed is None:
        return []
    stated = {answer.strip() for answer in answers if answer and answer.strip()}
    if len(stated) == 1 and not (is_stated or _same_known)(executed, *stated):
        return [_conflict(targets[0], [executed, *stated])]
    return merged.model_copy(update={"final_answer": executed})


def _conflict(name: str, alternatives: Iterable[str]) -> str:
    return f"{name}: {' | '.join(alternatives)}"


def _alternatives(scaffolds: Sequence[Scaffold]) -> dict[str, list[_Alternative]]:
    """All rules by effect, each with its effect's value in its own scaffold."""
    groups: dict[str, list[_Alternative]] = defaultdict(list)
    programs = [compile_scaffold(scaffold) for scaffold in scaffolds]
    shared = set.intersection(*(set(program.knowns) for program in programs))
    for program in programs:
        budget = WorkBudget()
        base = run(program, budget=budget)
        changes: dict[str, Value] = {name: program.knowns[name] + 1 for name in shared}
        changed = run(program, changes, budget=budget) if changes else base
        for index, edge in enumerate(program.scaffold.causal_graph):
            rule, values = program.rules.get(index), [_value(execution, edge) for execution in (base, changed)]
            groups[edge.effect].append(_Alternative(edge, rule, *values))
    return groups


def _value(execution: Execution, edge: CausalEdge) -> Value | None:
    """The effect's value, if the rule did not fail."""
    failed = any(failure.effect == edge.effect and failure.rule == edge.rule for failure in execution.failures)
    return None if failed else execution.values.get(edge.effect)


def _distinct(alternatives: Iterable[_Alternative]) -> list[_Alternative]:
    """The first of each group of equivalent rules: those that can be parsed, or all if none can."""
    distinct: list[_Alternative] = []
    for alternative in alternatives:
        if not any(_equivalent(earlier, alternative) for earlier in distinct):
            distinct.append(alternative)
    return [alternative for alternative in distinct if alternative.rule is not None] or distinct


def _equivalent(left: _Alternative, right: _Alternative) -> bool:
    if _written(left.edge) == _written(right.edge):
        return True
    if left.value is None or right.value is None or not agree(left.value, right.value):
        return False
    # One equal value is not enough: x + 2 and 2 x are equal for x = 2.
    if left.changed is None or right.changed is None:
        return left.changed is right.changed
    return agree(left.changed, right.changed)


def _written(edge: CausalEdge) -> str:
    """The text of a rule without spaces and without its effect before an equals sign."""
    return "".join(edge.rule.split()).removeprefix("".join(edge.effect.split()) + "=")


def _needed(target: str, groups: Mapping[str, Sequence[_Alternative]]) -> set[str]:
    """The target and everything that it may depend on in any of the scaffolds."""
    causes: dict[str, set[str]] = defaultdict(set)
    for effect, alternatives in groups.items():
        for item in alternatives:
            causes[effect].update(item.edge.cause, item.rule.reads if item.rule else ())
    return {target, *reached(target, causes)}


def _merged_knowns(scaffolds: Sequence[Scaffold], needed: set[str]) -> tuple[dict[str, Any], list[str]]:
    merged: dict[str, Any] = {}
    conflicts: list[str] = []
    for name in dict.fromkeys(name for scaffold in scaffolds for name in scaffold.knowns if name in needed):
        values = [scaffold.knowns[name] for scaffold in scaffolds if name in scaffold.knowns]
        if not all(_same_known(values[0], value) for value in values[1:]):
            conflicts.append(_conflict(name, dict.fromkeys(map(_shown, values))))
        merged[name] = values[0]
    return merged, conflicts


def _same_known(left: Any, right: Any) -> bool:
    first, second = read_known(left), read_known(right)
    if first is None or second is None:
        return _shown(left) == _shown(right)
    return agree(first.value, second.value) and first.unit == second.unit


def _shown(value: Any) -> str:
    known = read_known(value)
    if known is not None and isinstance(value, str):
        return " ".join(value.split())
    shown = None if known is None else format_value(known.value)
    return shown or json.dumps(value, default=str, sort_keys=True)


def _in_order(edges: list[CausalEdge], knowns: Mapping[str, Any]) -> list[CausalEdge]:
    """Sort the rules so that each comes after the rules of its causes, as far as possible."""
    ordered: list[CausalEdge] = []
    have = set(knowns)
    effects = {edge.effect for edge in edges}
    while edges:
        ready = [edge for edge in edges if all(cause in have or cause not in effects for cause in edge.cause)]
        ready = ready or edges  # a cycle: find_cycle reports it
        ordered += ready
        have.update(edge.effect for edge in ready)
        edges = [edge for edge in edges if edge not in ready]
    return ordered


def _assembled(scaffolds: Sequence[Scaffold], knowns: Mapping[str, Any], edges: Sequence[CausalEdge]) -> Scaffold:
    target = scaffolds[0].target_variable
    # the chosen rules may need fewer variables than all alternatives
    kept = {target, *reached(target, {edge.effect: edge.cause for edge in edges})}
    rules = [edge for edge in edges if edge.effect in kept]
    causes = {cause for edge in rules for cause in edge.cause}
    step_ids = {edge.effect: f"step{number}" for number, edge in enumerate(rules, start=1)}
    descriptions = {
        step.target: step.description
        for scaffold in reversed(scaffolds)
        for step in scaffold.computation_plan
        if step.description
    }
    plan = [
        PlanStep(
            id=step_ids[edge.effect],
            target=edge.effect,
            inputs=[step_ids.get(cause, cause) for cause in edge.cause],
            description=descriptions.get(edge.effect, edge.rule),
        )
        for edge in rules
    ]
    return Scaffold(
        constraints_and_premises=list(
            dict.fromkeys(text for scaffold in scaffolds for text in scaffold.constraints_and_premises)
        ),
        problem_model=_first(scaffold.problem_model for scaffold in scaffolds),
        chosen_strategy=_first(scaffold.chosen_strategy for scaffold in scaffolds),
        target_variable=target,
        expected_answer_type=_first(scaffold.expected_answer_type for scaffold in scaffolds),
        knowns={name: value for name, value in knowns.items() if name in causes},
        causal_graph=rules,
        computation_plan=plan,
    )


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")
