"""A rollout or a fusion as plain values for a template. Pure functions; nothing of a model's text is interpreted."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.abilities import DisplaysItself
from engine.records import Candidate, Completion, DisplayBlock, Fault, Fusion, Problem, Rollout, Scaffold
from engine.task import Task
from grpo_training.view.pages.scaffold_runs import (
    Divergence,
    ScaffoldRun,
    Standing,
    graph_data,
    intervention_rows,
    rule_rows,
)

MAX_TEXT = 60_000
"""Characters of a text on a page; longer ones are cut, with a remark."""
_MAX_PARTS, _MAX_DEPTH = 60, 4


@dataclass(frozen=True)
class CutText:
    """A text, and the number of characters that were left out."""

    text: str
    left_out: int = 0


@dataclass(frozen=True)
class ComponentView:
    """A reward component: its value (None: not measured) and the figures behind it, by name."""

    name: str
    value: float | None
    parts: list[tuple[str, str]]


@dataclass(frozen=True)
class BlockView:
    """A :class:`DisplayBlock`; ``picture`` is a ``data:`` address."""

    title: str
    kind: str
    text: CutText
    rows: Sequence[Sequence[str]] = ()
    picture: str = ""


@dataclass(frozen=True)
class ScaffoldView:
    """A scaffold: its picture as data for the browser, its rules, plan and interventions."""

    strategy: str
    premises: list[str]
    graph: dict[str, Any] | None
    rules: list[dict[str, str]]
    plan: list[tuple[str, str]]
    interventions: list[dict[str, Any]]
    executed: bool
    rules_left_out: int = 0


@dataclass(frozen=True)
class RolloutView:
    """What a page shows of a rollout.

    Args:
        name: number or generator.
        verdict: ``right``, ``wrong``, ``unchecked`` or ``failed`` (no reward).
        divergence: the first step whose value no right rollout has.
        graph_gives: the value of the target where it is not the answer that was scored; else empty.
        facts: what else is known, by name.
    """

    name: str
    verdict: str
    answer: str
    stated: str
    source: str
    total: float | None
    components: list[ComponentView]
    facts: list[tuple[str, str]]
    scaffold: ScaffoldView | None
    blocks: list[BlockView]
    reply: CutText | None
    reasoning: CutText | None
    advantage: float | None = None
    divergence: Divergence | None = None
    graph_gives: str = ""


def rollout_view(
    one: Rollout | Fusion,
    candidate: Candidate | None,
    problem: Problem,
    *,
    task: Task | None,
    folder: Path,
    run: ScaffoldRun | None,
    marks: Mapping[str, Standing] = MappingProxyType({}),
) -> RolloutView:
    """The view of a rollout or of a fusion by itself: without what only its group says.

    Args:
        one: the record.
        candidate: what the task reads in it; None if the task is not known.
        problem: its problem.
        task: its task; None if it is not known.
        folder: the folder of its file, where a task may have put pictures.
        run: its scaffold, executed.
        marks: how the values of the scaffold compare with those of others.
    """
    name, answer = (str(one.rollout_id), one.answer) if isinstance(one, Rollout) else ("fusion", one.final_answer)
    components = one.rewards.by_name()
    thinking, blocks = None, []
    if task is not None:
        thinking = task.thinking(one.completion) if one.completion is not None else None
        if candidate is not None and isinstance(task, DisplaysItself):
            blocks = list(task.display(candidate, problem, one.reward_detail, folder))
    reply, reasoning = reply_texts(one.completion, candidate, thinking)
    return RolloutView(
        name=name,
        verdict=verdict_of(one.is_correct, one.outcome.carries_reward),
        answer=(answer or "")[:2000],
        stated="" if one.stated_answer in (None, answer) else str(one.stated_answer)[:2000],
        source=one.answer_source or "",
        total=one.rewards.r_total,
        components=component_views(components, one.reward_detail),
        facts=[
            *call_facts(one.completion, one.fault, one.repairs),
            *([("prompt", one.prompt_half)] if one.prompt_half else []),
            *remaining_facts(components, one.reward_detail),
        ],
        scaffold=None if run is None else scaffold_view(run, marks),
        blocks=[block_view(block) for block in blocks],
        reply=reply,
        reasoning=reasoning,
    )


def cut(text: str, limit: int = MAX_TEXT) -> CutText:
    """The start of a text."""
    return CutText(text[:limit], max(0, len(text) - limit))


def verdict_of(is_correct: bool | None, carries_reward: bool) -> str:
    """One word for how a rollout ended."""
    if not carries_reward:
        return "failed"
    return {True: "right", False: "wrong", None: "unchecked"}[is_correct]


def component_views(components: Mapping[str, float | None], detail: Mapping[str, Any]) -> list[ComponentView]:
    """The components, each with the part of the detail that has its name (``r_graph``: ``graph``)."""
    found = []
    for name, value in components.items():
        parts: Any = next((detail[key] for key in (name, name.removeprefix("r_")) if key in detail), {})
        if value is not None or parts:
            found.append(ComponentView(name, value, flat(parts)))
    return found


def remaining_facts(components: Mapping[str, float | None], detail: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a detail holds beside the parts of the components; ``text`` repeats the reply and is left out."""
    used = {key for name in components for key in (name, name.removeprefix("r_"))} | {"text"}
    return flat({key: value for key, value in detail.items() if key not in used})


def flat(value: Any, name: str = "", depth: int = 0) -> list[tuple[str, str]]:
    """A JSON value as pairs of a dotted name and a text."""
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        pairs = [
            pair
            for key, item in list(value.items())[:_MAX_PARTS]
            for pair in flat(item, f"{name}.{key}" if name else str(key), depth + 1)
        ]
        return pairs[:_MAX_PARTS]
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return [(name, item[:2000]) for item in value[:_MAX_PARTS]]
    return [(name, _plain(value))]


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if value is None:
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text[:2000]


def scaffold_view(run: ScaffoldRun, marks: Mapping[str, Standing]) -> ScaffoldView:
    """The view of a scaffold that was executed."""
    scaffold: Scaffold = run.scaffold
    rules = rule_rows(run)
    return ScaffoldView(
        strategy=scaffold.chosen_strategy[:2000],
        premises=[one[:500] for one in scaffold.constraints_and_premises[:_MAX_PARTS]],
        graph=graph_data(run, marks),
        rules=rules,
        plan=[
            (step.id[:60], step.description[:500] or f"{step.target} ← {', '.join(step.inputs)}"[:500])
            for step in scaffold.computation_plan[:_MAX_PARTS]
        ],
        interventions=intervention_rows(run),
        executed=run.execution.executed,
        rules_left_out=len(scaffold.causal_graph) - len(rules),
    )


def block_view(block: DisplayBlock) -> BlockView:
    """A block of a task; an image becomes a ``data:`` address of a PNG file and of nothing else."""
    picture = "data:image/png;base64," + base64.b64encode(block.image).decode() if block.kind == "image" else ""
    rows = [[cell[:2000] for cell in row] for row in block.rows]
    return BlockView(block.title, block.kind, cut(block.text), rows, picture)


def reply_texts(
    completion: Completion | None, candidate: Candidate | None, thinking: str | None
) -> tuple[CutText | None, CutText | None]:
    """Reply and reasoning; without a completion, the text that was kept of an unreadable reply."""
    if completion is not None:
        return cut(completion.text), cut(thinking) if thinking else None
    return (cut(candidate.text) if candidate is not None and candidate.text else None), None


def call_facts(completion: Completion | None, fault: Fault | None, repairs: Sequence[str]) -> list[tuple[str, str]]:
    """What is known about the call: model, tokens, time, cost, how it ended; and the repairs of the parser."""
    facts = [] if fault is None else [("fault", f"{fault.kind}: {fault.message}"[:2000])]
    facts += [("repair", repair[:500]) for repair in repairs[:_MAX_PARTS]]
    if completion is None:
        return facts
    usage = completion.usage
    facts += [
        ("tokens", f"{usage.prompt_tokens:,} + {usage.completion_tokens:,}"),
        ("time", f"{completion.latency_s:.1f} s"),
        ("ended by", completion.finish_reason or "–"),
    ]
    if usage.cost_usd is not None:
        facts.append(("cost", f"${usage.cost_usd:.4f}"))
    if usage.attempts > 1:
        facts.append(("attempts", str(usage.attempts)))
    return [*facts, ("model", completion.model or "–")]
