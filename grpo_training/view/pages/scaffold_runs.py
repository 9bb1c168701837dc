"""Scaffolds as pictures: what each variable is worth, and where the rollouts of a group part.

Pure functions on records. Executing a scaffold evaluates formulas with the bounded evaluator of the engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from engine.mathematics.values import Value, agree, format_value
from engine.records import Scaffold
from engine.scaffold.execution import Execution, execute

MAX_DRAWN = 120
"""Variables of the largest graph that is drawn; larger ones are only listed."""
_MAX_FRACTION = 24
_SECONDS = 3.0
_MAX_NAME, _MAX_VALUE, _MAX_RULE = 120, 60, 400

Standing = Literal["", "same", "other", "first", "failed"]
"""A value beside those of the right rollouts: the same, another one, the first other one, or none."""


@dataclass(frozen=True)
class ScaffoldRun:
    """A scaffold with its execution."""

    scaffold: Scaffold
    execution: Execution


@dataclass(frozen=True)
class Divergence:
    """The first step of a rollout whose value no right rollout has.

    Args:
        variable: its variable.
        value: its value as text; empty if it has none.
        rule: the rule that gives it; empty for a known.
        failure: why there is no value.
        other_value, other_rule: value and rule of the variable in the reference; empty where it has none.
    """

    variable: str
    value: str
    rule: str
    failure: str
    other_value: str
    other_rule: str


def run_scaffolds(
    scaffolds: Mapping[int, Scaffold], clock: Callable[[], float] = time.monotonic
) -> dict[int, ScaffoldRun]:
    """Execute the scaffolds of a group in order, until a time limit of the page; ordinary ones need milliseconds.

    Args:
        scaffolds: the scaffolds by the numbers of their rollouts, those that matter most first.
        clock: monotonic time in seconds.
    """
    deadline = clock() + _SECONDS
    runs: dict[int, ScaffoldRun] = {}
    for number, scaffold in scaffolds.items():
        if clock() > deadline:
            break
        runs[number] = ScaffoldRun(scaffold, execute(scaffold))
    return runs


def value_text(value: Value | None) -> str:
    """A value in the picture; empty without one. A fraction has its decimals beside it: ``60/49 ≈ 1.22449``."""
    if value is None:
        return ""
    text = format_value(value) or "(a very long number)"
    if isinstance(value, Fraction) and len(text) < _MAX_FRACTION:
        short = f"{float(value):.6g}"
        text = short if Fraction(short) == value else f"{text} ≈ {short}"
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"


def standings(run: ScaffoldRun, references: Sequence[ScaffoldRun]) -> dict[str, Standing]:
    """Each variable of a run beside the values of the references, in the order in which they were computed.

    A variable is the same if a reference has its name with an equal value or, where none has its name, if a reference
    has an equal value under another name. Only variables that the target rests on can be the first other one.
    """
    if not references:
        return {}
    named: dict[str, list[Value]] = {}
    for reference in references:
        for name, value in reference.execution.values.items():
            named.setdefault(name, []).append(value)
    every = [value for values in named.values() for value in values]
    marks: dict[str, Standing] = {}
    for name in _in_order(run):
        if name not in run.execution.values:
            marks[name] = "failed"
            continue
        value = run.execution.values[name]
        marks[name] = "same" if any(agree(value, other) for other in named.get(name, every)) else "other"
    first = _first(run, marks)
    return marks if first is None else marks | {first: "first"}


def divergence(run: ScaffoldRun, marks: Mapping[str, Standing], reference: ScaffoldRun) -> Divergence | None:
    """The first step that differs; None if none does."""
    name = next((name for name, mark in marks.items() if mark == "first"), None)
    if name is None:
        return None
    failure = next((failed.message or failed.kind for failed in run.execution.failures if failed.effect == name), "")
    value = run.execution.values.get(name)
    other = reference.execution.values.get(name)
    return Divergence(
        variable=name[:_MAX_NAME],
        value=value_text(value),
        rule=_rule_of(run.scaffold, name),
        failure="" if value is not None else failure[:_MAX_RULE],
        other_value=value_text(other),
        other_rule=_rule_of(reference.scaffold, name),
    )


def graph_data(run: ScaffoldRun, marks: Mapping[str, Standing]) -> dict[str, Any] | None:
    """Nodes and edges for the drawing in the browser; None for a graph that is too large to draw."""
    names = _in_order(run)
    if not names or len(names) > MAX_DRAWN:
        return None
    ids = {name: str(number) for number, name in enumerate(names)}
    failed = {failure.effect: failure.message or failure.kind for failure in run.execution.failures}
    nodes = [
        {
            "id": ids[name],
            "name": name[:_MAX_NAME],
            "value": value_text(run.execution.values.get(name)),
            "role": role_of(run.scaffold, name),
            "rule": _rule_of(run.scaffold, name),
            "mark": marks.get(name, ""),
            "fault": failed.get(name, "")[:_MAX_RULE],
        }
        for name in names
    ]
    pairs = dict.fromkeys((ids[cause], ids[edge.effect]) for edge in run.scaffold.causal_graph for cause in edge.cause)
    return {"nodes": nodes, "edges": [list(pair) for pair in pairs]}


def role_of(scaffold: Scaffold, name: str) -> str:
    """``target``, ``known`` or ``step``."""
    if name == scaffold.target_variable:
        return "target"
    return "known" if name in scaffold.knowns else "step"


def rule_rows(run: ScaffoldRun) -> list[dict[str, str]]:
    """Each rule with the value of its effect, or the reason why it has none, in the scaffold's order."""
    failed = {(failure.effect, failure.rule): failure.message or failure.kind for failure in run.execution.failures}
    return [
        {
            "effect": edge.effect[:_MAX_NAME],
            "rule": edge.rule[:_MAX_RULE],
            "value": value_text(run.execution.values.get(edge.effect)),
            "fault": failed.get((edge.effect, edge.rule), "")[:_MAX_RULE],
        }
        for edge in run.scaffold.causal_graph[:MAX_DRAWN]
    ]


def _in_order(run: ScaffoldRun) -> list[str]:
    """The variables: knowns, computed ones in order of computation, then those without a value."""
    scaffold = run.scaffold
    of_rules = [name for edge in scaffold.causal_graph for name in (*edge.cause, edge.effect)]
    return list(dict.fromkeys([*scaffold.knowns, *run.execution.order, *of_rules, scaffold.target_variable]))


def _first(run: ScaffoldRun, marks: Mapping[str, Standing]) -> str | None:
    """The first variable with another value or none that the target's value rests on, if it was computed."""
    target = run.scaffold.target_variable
    if run.execution.executed:
        used = {*run.execution.rests_on, target}
        return next((name for name, mark in marks.items() if mark == "other" and name in used), None)
    effects = {edge.effect for edge in run.scaffold.causal_graph} | {target}
    return next((name for name, mark in marks.items() if mark != "same" and name in effects), None)


def _rule_of(scaffold: Scaffold, name: str) -> str:
    rules = dict.fromkeys(edge.rule for edge in scaffold.causal_graph if edge.effect == name)
    return "; ".join(rules)[:_MAX_RULE]
