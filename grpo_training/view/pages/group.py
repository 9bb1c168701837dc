"""The page of a group: its rollouts beside each other, and the step at which they part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from engine.errors import InputError
from engine.mathematics.values import agree
from engine.records import Candidate, Fusion, Problem, Rollout, RolloutGroup, Scaffold
from engine.scaffold.execution import execute
from engine.scaffold.given_values import read_known
from engine.task import Task
from engine.tasks.registry import task_named
from grpo_training.runs.stored_answers import problem_of
from grpo_training.view.data.runs import Run, Store
from grpo_training.view.pages.prompt_view import prompts_of
from grpo_training.view.pages.rollout_view import View, cut, rollout_view
from grpo_training.view.pages.scaffold_runs import (
    Divergence,
    ScaffoldRun,
    Standing,
    divergence,
    role_of,
    run_scaffolds,
    standings,
    value_text,
)
from grpo_training.view.web.formats import moment
from grpo_training.view.web.page import GRAPH_SCRIPTS, Page, Params, Request

_MAX_ROWS = 150
_MAX_ROLLOUTS = 64
_ROUNDED = 1e-3
"""An answer may be rounded."""


def group_page(group: RolloutGroup, folder: Path) -> View:
    """The page of a group. Its scaffolds are executed, in bounded time.

    ``rollouts`` has the reference first, then those that differ from it, then the others; ``divergences`` each first
    step that differs, with the rollouts that have it; ``left_out`` the number of rollouts, and ``not_executed`` that of
    scaffolds, beyond the limits of a page.

    Args:
        group: the group.
        folder: the folder of its file, where a task may have put pictures.
    """
    shown = group.rollouts[:_MAX_ROLLOUTS]
    problem = problem_of(group)
    task, truth = task_and_truth(problem)
    candidates = {rollout.rollout_id: _candidate(task, rollout, problem) for rollout in shown}
    scaffolds = {
        rollout.rollout_id: candidate.content
        for rollout in sorted(shown, key=lambda rollout: rollout.is_correct is not True)
        if (candidate := candidates[rollout.rollout_id]) is not None and isinstance(candidate.content, Scaffold)
    }
    runs = run_scaffolds(scaffolds)
    differing = {
        rollout.rollout_id: _other_value(rollout, runs[rollout.rollout_id])
        for rollout in shown
        if rollout.rollout_id in runs
    }
    sound = [rollout for rollout in shown if rollout.is_correct and differing.get(rollout.rollout_id) == ""]
    reference = reference_of(sound, runs) or reference_of(shown, runs)
    base = None if reference is None else runs[reference.rollout_id]
    compared = [runs[rollout.rollout_id] for rollout in sound] or ([] if base is None else [base])
    marks = {number: standings(run, compared) for number, run in runs.items()}
    paid = group.stats.advantages if group.stats else []
    advantages = dict(zip((rollout.rollout_id for rollout in group.rollouts), paid, strict=False))
    views = []
    for rollout in shown:
        number = rollout.rollout_id
        run, mark = runs.get(number), marks.get(number, {})
        view = rollout_view(rollout, candidates[number], problem, task=task, folder=folder, run=run, marks=mark)
        view |= {"advantage": advantages.get(number), "graph_gives": differing.get(number, "")}
        if base is not None and run is not None and run is not base:
            view["divergence"] = divergence(run, mark, base)
        views.append(view)
    first = None if reference is None else str(reference.rollout_id)
    views.sort(
        key=lambda view: (
            (view["verdict"] != "right", -(view["total"] or 0.0), int(view["name"]))
            if first is None
            else (view["name"] != first, not view["divergence"], view["verdict"] == "right", int(view["name"]))
        )
    )
    ordered = [int(view["name"]) for view in views]
    return {
        "problem_id": group.problem_id,
        "problem": cut(group.problem_text),
        "truth": cut(truth, 4000),
        "facts": _facts(group),
        "rollouts": views,
        "divergences": _divergences(views),
        "variables": _variables([number for number in ordered if number in runs], runs, marks),
        "reference": first,
        "reference_is_right": bool(reference is not None and reference.is_correct),
        "left_out": len(group.rollouts) - len(shown),
        "not_executed": len(scaffolds) - len(runs),
    }


def task_and_truth(problem: Problem) -> tuple[Task | None, str]:
    """The task of a record and the right answer in its words; None and the stored text if it cannot read the record."""
    try:
        task = task_named(problem.task)
        return task, task.truth(problem)
    except (InputError, TypeError, ValueError):  # a task of another program, or a damaged record
        return None, problem.answer


def reference_of(rollouts: Sequence[Rollout], runs: dict[int, ScaffoldRun]) -> Rollout | None:
    """The rollout that the others are compared with: the best paid right one, else the best paid one."""
    usable = [rollout for rollout in rollouts if rollout.rollout_id in runs and rollout.r_total is not None]
    return max(usable, key=_merit, default=None)


def _merit(rollout: Rollout) -> tuple[bool, float, int]:
    """A right rollout before a wrong one, then the better paid, then the earlier one."""
    return rollout.is_correct is True, rollout.r_total or 0.0, -rollout.rollout_id


def _candidate(task: Task | None, record: Rollout | Fusion, problem: Problem) -> Candidate | None:
    return None if task is None else task.candidate_from_record(record.scaffold, record.answer, problem)


def _other_value(rollout: Rollout, run: ScaffoldRun) -> str:
    """The value of the target where it is not the number that was scored, as in files of other programs; else empty."""
    executed = run.execution.answer
    known = None if rollout.answer is None or rollout.answer_source == "executed" else read_known(rollout.answer)
    if executed is None or known is None:
        return ""
    value = run.execution.values[run.scaffold.target_variable]
    try:
        is_same = math.isclose(known.value, value, rel_tol=_ROUNDED)
    except OverflowError:
        is_same = agree(known.value, value)
    return "" if is_same else executed[:200]


def _facts(group: RolloutGroup) -> list[tuple[str, str]]:
    policy = group.policy
    facts = [("task", group.task), ("generator", group.generator_id), ("time", moment(group.timestamp))]
    if group.epoch:
        facts.append(("epoch", str(group.epoch)))
    if policy is not None:
        facts += [("model", policy.model), ("library version", policy.library_version)]
        facts += [(name, str(value)) for name, value in policy.sampling.model_dump(exclude_none=True).items() if value]
    return [(name, value[:300]) for name, value in facts if value]


def _divergences(views: Iterable[View]) -> list[tuple[list[str], Divergence]]:
    names: dict[Divergence, list[str]] = {}
    for view in views:
        if view["divergence"] is not None:
            names.setdefault(view["divergence"], []).append(view["name"])
    return [(together, step) for step, together in sorted(names.items(), key=lambda item: -len(item[1]))]


def _variables(
    order: Sequence[int], runs: Mapping[int, ScaffoldRun], marks: Mapping[int, Mapping[str, Standing]]
) -> list[View]:
    """The variables of all rollouts: those of the first in its order of computation, then those of the others."""
    roles: dict[str, str] = {}
    for number in order:
        for name in marks[number]:
            if name not in roles and len(roles) < _MAX_ROWS:
                roles[name] = role_of(runs[number].scaffold, name)
    rows = []
    for name, role in roles.items():
        cells = [  # None where a rollout does not have the variable
            {"text": value_text(runs[number].execution.values.get(name)), "mark": marks[number][name]}
            if name in marks[number]
            else None
            for number in order
        ]
        texts = {None if cell is None else cell["text"] for cell in cells}
        differs = len(texts) > 1 or any(cell is not None and cell["mark"] != "same" for cell in cells)
        rows.append({"name": name[:120], "role": role, "differs": differs, "cells": cells})
    return rows


def fusion_view(fusion: Fusion, folder: Path) -> View:
    """A fusion as a rollout is shown; its scaffold is executed."""
    problem = problem_of(fusion)
    task, _ = task_and_truth(problem)
    candidate = _candidate(task, fusion, problem)
    content = None if candidate is None else candidate.content
    run = ScaffoldRun(content, execute(content)) if isinstance(content, Scaffold) else None
    return rollout_view(fusion, candidate, problem, task=task, folder=folder, run=run)


def _fusions_of(store: Store, request: Request, run: Run, group: RolloutGroup) -> Iterator[View]:
    """The critic's fusions of a group of a run."""
    for critic in store.beside(run, "critic"):
        index = store.index(critic).update(request.budget_s)
        summary = index.latest((group.problem_id, group.epoch, run.name))
        if summary is not None:
            yield fusion_view(index.record(summary), run.folder)


def build(store: Store, request: Request) -> View:
    """The group of a line of a run's file."""
    run = store.run(request.params["run"], "generator")
    index = store.index(run).update(request.budget_s)
    summary, group = index.record_of_line(request.params["line"])
    library = store.library_of(run)
    page = group_page(group, run.folder)
    lines = [record.line for record in index.current() if request.has_group(run, record.line)]
    position = lines.index(summary.line) if summary.line in lines else len(lines)
    return {
        "run": run,
        "group": page,
        "prompts": prompts_of(group, {} if library is None else library.texts()),
        "summary": summary,
        "fusions": list(_fusions_of(store, request, run, group)),
        "library": library,
        "right": sum(rollout.is_correct is True for rollout in group.rollouts),
        "components": list(dict.fromkeys(entry["name"] for view in page["rollouts"] for entry in view["components"])),
        "replaced": not index.is_current(summary),
        "before": lines[position - 1] if 0 < position < len(lines) else None,
        "after": lines[position + 1] if position + 1 < len(lines) else None,
    }


def instances(store: Store, request: Request) -> Iterator[Params]:
    """The groups that an export has."""
    for run in store.runs:
        if run.kind == "generator":
            for line in sorted((request.groups or {}).get(run.id, ())):
                yield {"run": run.id, "line": str(line)}


_STYLES = ("library.css", "group.css", "graph.css")
PAGE = Page("group", "A group", "{run}/groups/{line}.html", build, instances, scripts=GRAPH_SCRIPTS, styles=_STYLES)
