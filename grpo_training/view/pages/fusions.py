"""The critic's fusions as a list. A fusion itself is on the page of the group that was fused."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from engine.records import Fusion
from engine.storage.summaries import FusionSummary
from grpo_training.view.data.record_index import RecordIndex
from grpo_training.view.data.runs import Run, Store
from grpo_training.view.pages.rollout_view import View, verdict_of
from grpo_training.view.web.page import Page, Request

_MAX_LISTED = 2000


def build(store: Store, request: Request) -> View:
    """The fusions of a critic's run."""
    run = store.run(request.params["run"], "critic")
    index = store.index(run).update(request.budget_s)
    generators = {other.name: other for other in store.beside(run, "generator")}
    for generator in generators.values():
        store.index(generator).update(request.budget_s)
    rows = index.current()
    added = [row.added for row in rows if row.added is not None]
    return {
        "run": run,
        "rows": [_row(store, request, generators.get(row.generator), row) for row in rows[-_MAX_LISTED:]],
        "left_out": max(0, len(rows) - _MAX_LISTED),
        "better": sum(lead > 0 for lead in added),
        "worse": sum(lead < 0 for lead in added),
        "structural": sum(row.merged == "structural" for row in rows),
        "used": fusion_figures(index),
        "broken": len(index.broken),
        "progress": index.progress(),
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


def _row(store: Store, request: Request, generator: Run | None, fusion: FusionSummary) -> tuple[Any, ...]:
    """A fusion, its verdict, and run and line of the group that was fused; None if that has no page."""
    group_page = None
    if generator is not None:
        group = store.index(generator).latest((fusion.problem_id, fusion.epoch))
        if group is not None and request.has_group(generator, group.line):
            group_page = generator.id, group.line
    return fusion, verdict_of(fusion.is_correct, fusion.complete), group_page


PAGE = Page("fusions", "Fusions", "{run}/fusions.html", build, kinds=("critic",), key="f", styles=("group.css",))
