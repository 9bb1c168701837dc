"""The page of a group: its rollouts beside each other, and the step at which they part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.mathematics.solver import Solver, solve_in_worker
from engine.mathematics.values import agree
from engine.records import Candidate, Problem, Rollout, RolloutGroup, Scaffold
from engine.scaffold.given_values import read_known
from engine.task import Task
from engine.tasks.registry import task_named
from grpo_training.view.data.record_index import lines_beside
from grpo_training.view.data.runs import Store
from grpo_training.view.pages.prompt_view import prompts_of
from grpo_training.view.pages.rollout_view import CutText, RolloutView, cut, rollout_view
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


@dataclass(frozen=True)
class Cell:
    """The value of a variable in a rollout; ``given`` if it is a known."""

    text: str
    mark: str
    given: bool


@dataclass(frozen=True)
class VariableRow:
    """A variable and its values, one per rollout; None where a rollout does not have it."""

    name: str
    role: str
    differs: bool
    cells: list[Cell | None]


@dataclass(frozen=True)
class GroupPage:
    """What the page of a group shows.

    Args:
        rollouts: the reference first, then those that differ from it, then the others.
        divergences: each first step that differs, with the rollouts that have it.
        reference: the rollout that the others are compared with; None without one that can be compared.
        reference_is_right: whether its answer is right; otherwise it is the best paid one.
        left_out: rollouts beyond the limit of a page.
        not_executed: scaffolds beyond the time limit of a page.
    """

    problem_id: str
    problem: CutText
    truth: CutText
    facts: list[tuple[str, str]]
    rollouts: list[RolloutView]
    divergences: list[tuple[list[str], Divergence]]
    variables: list[VariableRow]
    reference: str | None
    reference_is_right: bool
    left_out: int = 0
    not_executed: int = 0


def group_page(
    group: RolloutGroup,
    folder: Path,
    solver: Solver = solve_in_worker,
) -> GroupPage:
    """The page of a group. Its scaffolds are executed, in bounded time.

    Args:
        group: the group.
        folder: the folder of its file, where a task may have put pictures.
        solver: solves equations.
    """
    group = _numbered(group)
    shown = group.rollouts[:_MAX_ROLLOUTS]
    problem = problem_of(group)
    task, truth = task_and_truth(problem)
    candidates = {one.rollout_id: _candidate(task, one, problem) for one in shown}
    scaffolds = {
        one.rollout_id: candidate.content
        for one in sorted(shown, key=lambda one: one.is_correct is not True)
        if (candidate := candidates[one.rollout_id]) is not None and isinstance(candidate.content, Scaffold)
    }
    runs = run_scaffolds(scaffolds, solver)
    others = {one.rollout_id: _other_value(one, runs[one.rollout_id]) for one in shown if one.rollout_id in runs}
    sound = [one for one in shown if one.is_correct and others.get(one.rollout_id) == ""]
    reference = reference_of(sound, runs) or reference_of(shown, runs)
    right = [runs[one.rollout_id] for one in sound]
    compared = right or ([runs[reference.rollout_id]] if reference is not None else [])
    marks = {number: standings(run, compared) for number, run in runs.items()}
    paid = group.stats.advantages if group.stats else []
    advantages = dict(zip((one.rollout_id for one in group.rollouts), paid, strict=False))
    base = None if reference is None else runs[reference.rollout_id]
    parted = {
        number: divergence(run, marks[number], base)
        for number, run in runs.items()
        if base is not None and run is not base
    }
    views = [
        replace(
            rollout_view(
                one,
                candidates[one.rollout_id],
                problem,
                task=task,
                folder=folder,
                run=runs.get(one.rollout_id),
                marks=marks.get(one.rollout_id, {}),
            ),
            advantage=advantages.get(one.rollout_id),
            divergence=parted.get(one.rollout_id),
            graph_gives=others.get(one.rollout_id, ""),
        )
        for one in shown
    ]
    first = None if reference is None else str(reference.rollout_id)
    if first is None:
        views.sort(key=lambda view: (view.verdict != "right", -(view.total or 0.0), int(view.name)))
    else:
        views.sort(key=lambda view: (view.name != first, not view.divergence, view.verdict == "right", int(view.name)))
    ordered = [int(view.name) for view in views]
    return GroupPage(
        problem_id=group.problem_id,
        problem=cut(group.problem_text),
        truth=cut(truth, 4000),
        facts=_facts(group),
        rollouts=views,
        divergences=_divergences(views),
        variables=_variables([number for number in ordered if number in runs], runs, marks),
        reference=first,
        reference_is_right=bool(reference is not None and reference.is_correct),
        left_out=len(group.rollouts) - len(shown),
        not_executed=len(scaffolds) - len(runs),
    )


def _numbered(group: RolloutGroup) -> RolloutGroup:
    """The group with numbers that identify its rollouts; another program may have given one to several."""
    if len({one.rollout_id for one in group.rollouts}) == len(group.rollouts):
        return group
    numbered = [one.model_copy(update={"rollout_id": number}) for number, one in enumerate(group.rollouts, 1)]
    return group.model_copy(update={"rollouts": numbered})


def problem_of(group: RolloutGroup) -> Problem:
    """The problem of a stored group."""
    return Problem(id=group.problem_id, text=group.problem_text, answer=group.ground_truth, task=group.task)


def task_and_truth(problem: Problem) -> tuple[Task | None, str]:
    """The task of a record and the right answer in its words; None and the stored text if it cannot read the record."""
    try:
        task = task_named(problem.task)
        return task, task.truth(problem)
    except (InputError, TypeError, ValueError):  # a task of another program, or a damaged record
        return None, problem.answer


def reference_of(rollouts: Sequence[Rollout], runs: dict[int, ScaffoldRun]) -> Rollout | None:
    """The rollout that the others are compared with: the best paid right one, else the best paid one."""
    usable = [one for one in rollouts if one.rollout_id in runs and one.r_total is not None]
    return max(usable, key=lambda one: (one.is_correct is True, one.r_total or 0.0, -one.rollout_id), default=None)


def _candidate(task: Task | None, one: Rollout, problem: Problem) -> Candidate | None:
    return None if task is None else task.candidate_from_record(one.scaffold, one.answer, problem)


def _other_value(one: Rollout, run: ScaffoldRun) -> str:
    """The value of the target where it is not the number that was scored, as in files of other programs; else empty."""
    executed = run.execution.answer
    known = None if one.answer is None or one.answer_source == "executed" else read_known(one.answer)
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
    found = [("task", group.task), ("generator", group.generator_id), ("time", moment(group.timestamp))]
    if group.epoch:
        found.append(("epoch", str(group.epoch)))
    if policy is not None:
        found += [("model", policy.model), ("library version", policy.library_version)]
        found += [(name, str(value)) for name, value in policy.sampling.model_dump(exclude_none=True).items() if value]
    return [(name, value[:300]) for name, value in found if value]


def _divergences(views: Iterable[RolloutView]) -> list[tuple[list[str], Divergence]]:
    names: dict[Divergence, list[str]] = {}
    for view in views:
        if view.divergence is not None:
            names.setdefault(view.divergence, []).append(view.name)
    return [(together, one) for one, together in sorted(names.items(), key=lambda item: -len(item[1]))]


def _variables(
    order: Sequence[int], runs: Mapping[int, ScaffoldRun], marks: Mapping[int, Mapping[str, Standing]]
) -> list[VariableRow]:
    """The variables of all rollouts: those of the first in its order of computation, then those of the others."""
    names: dict[str, str] = {}
    for number in order:
        for name in marks[number]:
            if name not in names and len(names) < _MAX_ROWS:
                names[name] = role_of(runs[number].scaffold, name)
    rows = []
    for name, role in names.items():
        cells = [_cell(name, runs[number], marks[number]) for number in order]
        texts = {None if cell is None else cell.text for cell in cells}
        differs = len(texts) > 1 or any(cell is not None and cell.mark != "same" for cell in cells)
        rows.append(VariableRow(name[:120], role, differs, cells))
    return rows


def _cell(name: str, run: ScaffoldRun, marks: Mapping[str, Standing]) -> Cell | None:
    if name not in marks:
        return None
    return Cell(value_text(run.execution.values.get(name)), marks[name], name in run.scaffold.knowns)


def build(store: Store, request: Request) -> dict[str, Any]:
    """The group of a line of a run's file."""
    run = store.run(request.params["run"], "generator")
    index = store.index(run).update(request.budget_s)
    summary, group = index.record_of_line(request.params["line"])
    library = store.library_of(run)
    page = group_page(group, run.folder)
    lines = [one.line for one in index.current() if request.has_group(run, one.line)]
    before, after = lines_beside(lines, summary.line)
    return {
        "run": run,
        "group": page,
        "prompts": prompts_of(group, None if library is None else library.path.parent),
        "summary": summary,
        "library": library,
        "right": sum(one.is_correct is True for one in group.rollouts),
        "components": list(dict.fromkeys(part.name for one in page.rollouts for part in one.components)),
        "replaced": not index.is_current(summary),
        "before": before,
        "after": after,
    }


def instances(store: Store, request: Request) -> Iterator[Params]:
    """The groups that an export has."""
    for run in store.runs:
        if run.kind == "generator":
            for line in sorted((request.groups or {}).get(run.id, ())):
                yield {"run": run.id, "line": str(line)}


_STYLES = ("library.css", "group.css", "graph.css")
PAGE = Page("group", "A group", "{run}/groups/{line}.html", build, instances, scripts=GRAPH_SCRIPTS, styles=_STYLES)
