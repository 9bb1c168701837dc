"""The critic's fusions: a list, and a page for each with its inputs, their conflicts and what it added."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from engine.mathematics.solver import Solver, solve_in_worker
from engine.records import Fusion, Problem, Rollout, RolloutGroup, Scaffold
from engine.reward_evaluator import fusion_baseline, measured_total
from engine.storage.summaries import FusionSummary
from engine.task import Task
from grpo_training.view.data.record_index import NotFoundError, RecordIndex, lines_beside
from grpo_training.view.data.runs import Run, Store
from grpo_training.view.pages.group import task_and_truth
from grpo_training.view.pages.rollout_view import View, cut, rollout_view, verdict_of
from grpo_training.view.pages.scaffold_runs import GroupSolver, run_scaffold
from grpo_training.view.web.formats import moment
from grpo_training.view.web.page import GRAPH_SCRIPTS, Page, Params, Request

_MAX_LISTED = 2000
_MAX_EXPORTED = 500
_MAX_INPUTS = 32


def fusion_page(fusion: Fusion, group: RolloutGroup | None, folder: Path, solver: Solver = solve_in_worker) -> View:
    """The page of a fusion.

    ``baseline`` is the best and the majority of the inputs by their stored rewards, and ``own`` the total of the fusion
    by the same weights.

    Args:
        fusion: the fusion.
        group: the rollouts that were fused; None if they are not known.
        folder: of the file.
        solver: solves equations of the fused scaffold.
    """
    problem = Problem(id=fusion.problem_id, text=fusion.problem_text, answer=fusion.ground_truth, task=fusion.task)
    task, truth = task_and_truth(problem)
    rollouts = group.rollouts if group is not None else []
    totals = [_total(task, rollout) for rollout in rollouts]
    measured = [total for total in totals if total is not None]
    baseline = None
    if task is not None and len(measured) == len(rollouts):
        baseline = fusion_baseline([rollout.answer for rollout in rollouts], measured, task.same_answer)
    return {
        "problem_id": fusion.problem_id,
        "problem": cut(fusion.problem_text),
        "truth": cut(truth, 4000),
        "facts": _facts(fusion),
        "result": _result(fusion, task, problem, folder, GroupSolver(solver)),
        "inputs": [
            _input(rollout, total, fusion, task) for rollout, total in zip(rollouts[:_MAX_INPUTS], totals, strict=False)
        ],
        "baseline": baseline,
        "own": None if task is None else measured_total(task, fusion.rewards, fusion.reward_detail),
    }


def _total(task: Task | None, rollout: Rollout) -> float | None:
    return rollout.r_total if task is None else measured_total(task, rollout.rewards, rollout.reward_detail)


def _input(rollout: Rollout, total: float | None, fusion: Fusion, task: Task | None) -> View:
    same = task.same_answer if task is not None else str.__eq__
    both = rollout.answer is not None and fusion.final_answer is not None
    return {
        "name": str(rollout.rollout_id),
        "verdict": verdict_of(rollout.is_correct, rollout.outcome.carries_reward),
        "answer": (rollout.answer or "")[:500],
        "total": total,
        "agrees": both and same(str(rollout.answer), str(fusion.final_answer)),
    }


def _result(fusion: Fusion, task: Task | None, problem: Problem, folder: Path, solver: Solver) -> View:
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


def build_list(store: Store, request: Request) -> View:
    """The fusions of a critic's run."""
    run = store.run(request.params["run"], "critic")
    index = store.index(run).update(request.budget_s)
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


def build(store: Store, request: Request) -> View:
    """One fusion."""
    run = store.run(request.params["run"], "critic")
    index = store.index(run).update(request.budget_s)
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


def fusion_figures(index: RecordIndex[FusionSummary, Fusion]) -> View:
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
            index = store.index(run).update()
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
