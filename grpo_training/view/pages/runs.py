"""All runs in a list, with their figures."""

from __future__ import annotations

import time
from itertools import groupby
from typing import Any

from grpo_training.view.data.runs import LANDING, Run, Store
from grpo_training.view.pages.fusions import fusion_figures
from grpo_training.view.pages.overview import figures_of
from grpo_training.view.web.page import Page, Request


def build(store: Store, request: Request) -> dict[str, Any]:
    """The runs by folder, with their state and figures."""
    runs = store.runs
    deadline = None if request.budget_s is None else time.monotonic() + request.budget_s
    for run in runs:
        budget_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        if run.kind != "training":
            store.index(run).update(budget_s)
    rows = [_row(store, run) for run in runs]
    summaries = [(library, library.summary()) for library in store.libraries]
    return {
        "folders": [(folder, list(of_folder)) for folder, of_folder in groupby(rows, lambda row: row["run"].folder)],
        "searched": store.folders,
        "count": len(runs),
        "landing": LANDING,
        "verdicts": [
            (library, summary["version"], summary["gates"][0]) for library, summary in summaries if summary["gates"]
        ],
    }


def _row(store: Store, run: Run) -> dict[str, Any]:
    row: dict[str, Any] = {
        "run": run,
        "state": run.state(),
        "model": run.model(),
        "dataset": str(run.configuration().get("dataset") or ""),
        "figures": None,
        "fusions": None,
        "progress": 1.0,
        "last": "",
    }
    if run.kind == "training":
        return row
    index = store.index(run)
    row["progress"] = index.progress()
    if run.kind == "critic":
        return row | {"fusions": fusion_figures(index)}
    groups = index.all()
    last = {"last": groups[-1].timestamp, "model": row["model"] or groups[-1].model} if groups else {}
    return row | {"figures": figures_of(index)} | last


PAGE = Page("runs", "Runs", "index.html", build, key="r", styles=("runs.css",))
