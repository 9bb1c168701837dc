"""The critic's fusions: a list, and a page for each with its inputs, their conflicts and what it added."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from engine.mathematics.solver import Solver, solve_in_worker
from engine.records import Candidate, Fusion, Problem, Rollout, RolloutGroup, Scaffold
from engine.reward_evaluator import Baseline, fusion_baseline, measured_total
from engine.storage.summaries import FusionSummary
from engine.task import Task
from grpo_training.view.data.record_index import NotFoundError, RecordIndex, lines_beside
from grpo_training.view.data.runs import Run, Store
from grpo_training.view.pages.group import task_and_truth
from grpo_training.view.pages.rollout_view import CutText, RolloutView, cut, rollout_view, verdict_of
from grpo_training.view.pages.scaffold_runs import GroupSolver, run_scaffold
from grpo_training.view.web.formats import moment
from grpo_training.view.web.page import GRAPH_SCRIPTS, Page, Params, Request

_MAX_LISTED = 2000
_MAX_EXPORTED = 500
_MAX_INPUTS = 32


@dataclass(frozen=True)
class InputView:
    """A rollout that was fused: ``total`` by the weights of its task, ``agrees`` with the answer of the fusion."""

    name: str
    verdict: str
    answer: str
    total: float | None
    agrees: bool
    shown: CutText


@dataclass(frozen=True)
class FusionPage:
    """What the page of a fusion shows.

    Args:
        inputs: the rollouts of its group; empty if the group is not in the folder.
        baseline: best and majority of the inputs, by the stored rewards.
        own: the fusion's total by the same weights.
        conflicts: what the inputs disagree on, as the critic was told.
    """

    problem_id: str
    problem: CutText
    truth: CutText
    facts: list[tuple[str, str]]
    result: RolloutView
    inputs: list[InputView]
    baseline: Baseline | None
    own: float | None
    conflicts: list[str]


def fusion_page(
    fusion: Fusion, group: RolloutGroup | None, folder: Path, solver: Solver = solve_in_worker
) -> FusionPage:
    """The page of a fusion.

    Args:
        fusion: the fusion.
        group: the rollouts that were fused; None if they are not known.
        folder: of the file.
        solver: solves equations of the fused scaffold.
    """
    problem = Problem(id=fusion.problem_id, text=fusion.problem_text, answer=fusion.ground_truth, task=fusion.task)
    task, truth = task_and_truth(problem)
    rollouts = group.rollouts if group is not None else []
    totals = [_total(task, one) for one in rollouts]
    measured = [total for total in totals if total is not None]
    return FusionPage(
        problem_id=fusion.problem_id,
        problem=cut(fusion.problem_text),
        truth=cut(truth, 4000),
        facts=_facts(fusion),
        result=_result(fusion, task, problem, folder, GroupSolver(solver)),
        inputs=[
            _input(one, total, fusion, task, problem)
            for one, total in zip(rollouts[:_MAX_INPUTS], totals, strict=False)
        ],
        baseline=_baseline(task, rollouts, measured),
        own=None if task is None else measured_total(task, fusion.rewards, fusion.reward_detail),
        conflicts=_conflicts(task, rollouts[:_MAX_INPUTS], problem),
    )


def _baseline(task: Task | None, rollouts: Sequence[Rollout], totals: Sequence[float]) -> Baseline | None:
    if task is None or len(totals) < len(rollouts):
        return None
    return fusion_baseline([one.answer for one in rollouts], totals, task.same_answer)


def _total(task: Task | None, one: Rollout) -> float | None:
    return one.r_total if task is None else measured_total(task, one.rewards, one.reward_detail)


def _conflicts(task: Task | None, rollouts: Sequence[Rollout], problem: Problem) -> list[str]:
    if task is None:
        return []
    merge = task.merge([_candidate(task, one, problem) for one in rollouts], problem)
    return [text[:2000] for text in merge.conflicts]


def _candidate(task: Task, one: Rollout, problem: Problem) -> Candidate:
    return task.candidate_from_record(one.scaffold, one.given_answer, problem)


def _input(one: Rollout, total: float | None, fusion: Fusion, task: Task | None, problem: Problem) -> InputView:
    same = task.same_answer if task is not None else str.__eq__
    both = one.answer is not None and fusion.final_answer is not None
    shown = task.show(_candidate(task, one, problem)) if task is not None else str(one.scaffold or "")
    return InputView(
        name=str(one.rollout_id),
        verdict=verdict_of(one.is_correct, one.outcome.carries_reward),
        answer=(one.answer or "")[:500],
        total=total,
        agrees=both and same(str(one.answer), str(fusion.final_answer)),
        shown=cut(shown, 6000),
    )


def _result(fusion: Fusion, task: Task | None, problem: Problem, folder: Path, solver: Solver) -> RolloutView:
    candidate, run = None, None
    if task is not None:
        candidate = task.candidate_from_record(fusion.fused_scaffold, fusion.final_answer, problem)
        if isinstance(candidate.content, Scaffold):
            run = run_scaffold(candidate.content, solver)
    return rollout_view(fusion, candidate, problem, task=task, folder=folder, run=run)


def _facts(fusion: Fusion) -> list[tuple[str, str]]:
    policy = fusion.policy
    found = [("generator", fusion.generator_id), ("task", fusion.task), ("time", moment(fusion.timestamp))]
    if policy is not None:
        found += [("model", policy.model), ("library version", policy.library_version)]
    found.append(("experiences", ", ".join(fusion.experience_ids)))
    return [(name, value[:300]) for name, value in found if value]


def build_list(store: Store, request: Request) -> dict[str, Any]:
    """The fusions of a critic's run."""
    run = store.run(request.params["run"], "critic")
    index = store.fusions(run).update(request.budget_s)
    rows = index.current()
    added = [row.added for row in rows if row.added is not None]
    return {
        "run": run,
        "rows": [(row, verdict_of(row.is_correct, row.complete)) for row in rows[-_MAX_LISTED:]],
        "left_out": max(0, len(rows) - _MAX_LISTED),
        "better": sum(one > 0 for one in added),
        "worse": sum(one < 0 for one in added),
        "structural": sum(row.merged == "structural" for row in rows),
        "used": fusion_figures(index),
        "broken": len(index.broken),
        "progress": index.progress(),
        "with_page": set(lines_with_page(rows, request)),
    }


def build(store: Store, request: Request) -> dict[str, Any]:
    """One fusion."""
    run = store.run(request.params["run"], "critic")
    index = store.fusions(run).update(request.budget_s)
    summary, fusion = index.record_of_line(request.params["line"])
    place, group = _group_of(store, request, run, fusion)
    before, after = lines_beside(lines_with_page(index.current(), request), summary.line)
    return {
        "run": run,
        "fusion": fusion_page(fusion, group, run.folder),
        "group_place": place,
        "before": before,
        "after": after,
    }


def fusion_figures(index: RecordIndex[FusionSummary, Fusion]) -> dict[str, Any]:
    """Number, verdicts, mean reward, and what the requests used; a fusion that needed no model has no request."""
    fusions = index.current()
    totals = [fusion.total for fusion in fusions if fusion.total is not None]
    costs = [fusion.cost_usd for fusion in fusions if fusion.cost_usd is not None]
    times = [fusion.latency_s for fusion in fusions if fusion.latency_s > 0]
    return {
        "count": len(fusions),
        "right": sum(fusion.is_correct is True for fusion in fusions),
        "checked": sum(fusion.is_correct is not None for fusion in fusions),
        "reward": fmean(totals) if totals else None,
        "prompt_tokens": sum(fusion.prompt_tokens for fusion in fusions),
        "completion_tokens": sum(fusion.completion_tokens for fusion in fusions),
        "cost_usd": sum(costs) if costs else None,
        "mean_s": fmean(times) if times else None,
        "slowest_s": max(times, default=None),
    }


def lines_with_page(rows: Sequence[FusionSummary], request: Request) -> list[int]:
    """The lines of the fusions that have a page: an export has the newest."""
    return [row.line for row in (rows if request.live else rows[-_MAX_EXPORTED:])]


def _group_of(
    store: Store, request: Request, run: Run, fusion: Fusion
) -> tuple[tuple[str, int] | None, RolloutGroup | None]:
    """The group that was fused: run and line, if it has a page, and the group."""
    key = (fusion.problem_id, fusion.epoch)
    for generator in store.runs:
        if generator.kind == "generator" and (generator.folder, generator.name) == (run.folder, fusion.generator_id):
            index = store.index(generator).update(request.budget_s)
            for summary in index.current():
                if summary.key == key:
                    with contextlib.suppress(NotFoundError):
                        group = index.record(summary)
                        has_page = request.has_group(generator, summary.line)
                        return (generator.id, summary.line) if has_page else None, group
    return None, None


def _instances(store: Store, request: Request) -> Iterator[Params]:
    for run in store.runs:
        if run.kind == "critic":
            index = store.fusions(run).update()
            yield from ({"run": run.id, "line": str(line)} for line in lines_with_page(index.current(), request))


_STYLES = ("group.css",)
LIST = Page("fusions", "Fusions", "{run}/fusions.html", build_list, kinds=("critic",), key="f", styles=_STYLES)
PAGE = Page(
    "fusion",
    "A fusion",
    "{run}/fusions/{line}.html",
    build,
    _instances,
    scripts=GRAPH_SCRIPTS,
    styles=(*_STYLES, "graph.css"),
)
