"""A rollout or a fusion as plain values for a template. Pure functions; nothing of a model's text is interpreted."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.records import Candidate, Completion, DisplayBlock, Fault, Fusion, Problem, Rollout
from engine.task import Task
from engine.task_protocols import DisplaysItself
from grpo_training.view.pages.scaffold_runs import ScaffoldRun, Standing, graph_data, rule_rows

MAX_TEXT = 60_000
"""Characters of a text on a page; longer ones are cut, with a remark."""
_MAX_PARTS, _MAX_DEPTH = 60, 4


@dataclass(frozen=True)
class CutText:
    """A text, and the number of characters that were left out."""

    text: str
    left_out: int = 0


View = dict[str, Any]
"""The values of a template."""


def rollout_view(
    rollout: Rollout | Fusion,
    candidate: Candidate | None,
    problem: Problem,
    *,
    task: Task | None,
    folder: Path,
    run: ScaffoldRun | None,
    marks: Mapping[str, Standing] = MappingProxyType({}),
) -> View:
    """The view of a rollout or of a fusion by itself: without what only its group says.

    Args:
        rollout: the record.
        candidate: what the task reads in it; None if the task is not known.
        problem: its problem.
        task: its task; None if it is not known.
        folder: the folder of its file, where a task may have put pictures.
        run: its scaffold, executed.
        marks: how the values of the scaffold compare with those of others.
    """
    components, completion = rollout.rewards.by_name(), rollout.completion
    thinking, blocks = None, []
    if task is not None:
        thinking = task.thinking(completion) if completion is not None else None
        if candidate is not None and isinstance(task, DisplaysItself):
            blocks = list(task.display(candidate, problem, rollout.reward_detail, folder))
    kept = candidate.text if candidate is not None and completion is None else ""  # of a reply that was unreadable
    reply = kept if completion is None else completion.text
    return {
        "name": str(rollout.rollout_id) if isinstance(rollout, Rollout) else "fusion",
        "verdict": verdict_of(rollout.is_correct, rollout.outcome.carries_reward),
        "answer": (rollout.answer or "")[:2000],
        "stated": "" if rollout.stated_answer in (None, rollout.answer) else str(rollout.stated_answer)[:2000],
        "source": rollout.answer_source or "",
        "total": rollout.rewards.r_total,
        "components": component_views(components, rollout.reward_detail),
        "facts": [
            *call_facts(completion, rollout.fault, rollout.repairs),
            *([("prompt", rollout.prompt_half)] if rollout.prompt_half else []),
            *remaining_facts(components, rollout.reward_detail),
        ],
        "scaffold": None if run is None else scaffold_view(run, marks),
        "blocks": [block_view(block) for block in blocks],
        "reply": cut(reply) if reply or completion is not None else None,
        "reasoning": cut(thinking) if thinking and completion is not None else None,
        "divergence": None,
        "graph_gives": "",
    }


def cut(text: str, limit: int = MAX_TEXT) -> CutText:
    """The start of a text."""
    return CutText(text[:limit], max(0, len(text) - limit))


def verdict_of(is_correct: bool | None, carries_reward: bool) -> str:
    """One word for how a rollout ended."""
    if not carries_reward:
        return "failed"
    return {True: "right", False: "wrong", None: "unchecked"}[is_correct]


def component_views(components: Mapping[str, float | None], detail: Mapping[str, Any]) -> list[View]:
    """The components, each with the part of the detail that has its name (``r_graph``: ``graph``)."""
    views = []
    for name, value in components.items():
        parts: Any = next((detail[key] for key in (name, name.removeprefix("r_")) if key in detail), {})
        if value is not None or parts:
            views.append({"name": name, "value": value, "parts": flat(parts)})
    return views


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


def scaffold_view(run: ScaffoldRun, marks: Mapping[str, Standing]) -> View:
    """The view of a scaffold that was executed: its picture as data for the browser, rules, plan."""
    scaffold = run.scaffold
    rules = rule_rows(run)
    return {
        "strategy": scaffold.chosen_strategy[:2000],
        "premises": [text[:500] for text in scaffold.constraints_and_premises[:_MAX_PARTS]],
        "graph": graph_data(run, marks),
        "rules": rules,
        "plan": [
            (step.id[:60], step.description[:500] or f"{step.target} ← {', '.join(step.inputs)}"[:500])
            for step in scaffold.computation_plan[:_MAX_PARTS]
        ],
        "executed": run.execution.executed,
        "rules_left_out": len(scaffold.causal_graph) - len(rules),
    }


def block_view(block: DisplayBlock) -> View:
    """A block of a task; an image becomes a ``data:`` address of a PNG file and of nothing else."""
    return {
        "title": block.title,
        "kind": block.kind,
        "text": cut(block.text),
        "rows": [[cell[:2000] for cell in row] for row in block.rows],
        "picture": f"data:image/png;base64,{base64.b64encode(block.image).decode()}" if block.kind == "image" else "",
    }


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
