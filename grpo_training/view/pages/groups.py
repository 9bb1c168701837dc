"""The groups of a run as a table that the browser filters and sorts, so that it works without a server too."""

from __future__ import annotations

from typing import Any

from engine.reading.model_text import as_one_line
from engine.storage.summaries import GroupSummary
from grpo_training.view.data.runs import Store
from grpo_training.view.pages.measures import component, rounded
from grpo_training.view.web.formats import moment
from grpo_training.view.web.page import Page, Request

_MAX_ID = 200


def build(store: Store, request: Request) -> dict[str, Any]:
    """The table by columns, in the order of the file. Problems are listed once, and columns refer to their index."""
    run = store.run(request.params["run"], "generator")
    index = store.index(run).update(request.budget_s)
    groups = index.all()
    problems: dict[tuple[str, str], int] = {}
    names = list(dict.fromkeys(name for group in groups for name in group.components))
    has_page = [request.has_group(run, group.line) for group in groups]
    table = {
        "line": [group.line for group in groups],
        "problem": [problems.setdefault((group.problem_id, group.problem_text), len(problems)) for group in groups],
        "problems": [[as_one_line(name[:_MAX_ID]), as_one_line(text)] for name, text in problems],
        "epoch": [group.epoch for group in groups],
        "right": [group.right for group in groups],
        "checked": [group.checked for group in groups],
        "mean": rounded([group.mean for group in groups]),
        "sigma": rounded([group.sigma for group in groups]),
        "teaches": [int(group.triggered) for group in groups],
        "components": {name: rounded([component(name)(group) for group in groups]) for name in names},
        "tokens": [group.completion_tokens for group in groups],
        "experiences": [group.experiences for group in groups],
        "time": [moment(group.timestamp) for group in groups],
        "not_ok": [_not_ok(group) for group in groups],
        "replaced": [int(not index.is_current(group)) for group in groups],
        "page": [int(shown) for shown in has_page],
    }
    return {
        "run": run,
        "index": index,
        "left_out": has_page.count(False),
        "table": table,
        "components": names,
        "outcomes": sorted({name for group in groups for name in (*group.outcomes, *group.faults)} - {"ok"}),
    }


def _not_ok(group: GroupSummary) -> dict[str, int] | int:
    """Outcomes other than ``ok`` and kinds of fault, with their numbers; 0 for none."""
    return {**{name: number for name, number in group.outcomes.items() if name != "ok"}, **group.faults} or 0


PAGE = Page(
    "groups",
    "Groups",
    "{run}/groups.html",
    build,
    kinds=("generator",),
    key="l",
    scripts=("groups.js",),
    styles=("groups.css",),
)
