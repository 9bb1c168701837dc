"""One run of a generator in figures and curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_training.viewer.web.page import Page, runs_of

if TYPE_CHECKING:
    from grpo_training.viewer.data.runs import Store
    from grpo_training.viewer.web.page import Request


def build(store: Store, request: Request) -> dict[str, Any]:
    """The figures of a run."""
    run = store.run(request.params["run"], "generator")
    index = store.index(run)
    index.update(request.budget_s)
    return {"run": run, "index": index, "groups": index.current()}


PAGE = Page(
    "overview",
    "{run}/overview.html",
    "overview.html.j2",
    build,
    runs_of("generator"),
    nav="run",
    kinds=("generator",),
    key="o",
    scripts=("vendor/uPlot-1.6.32/uPlot.iife.min.js", "charts.js"),
    styles=("vendor/uPlot-1.6.32/uPlot.min.css",),
)
