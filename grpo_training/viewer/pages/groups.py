"""The groups of a run as a table that the browser filters and sorts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_training.viewer.web.page import Page, runs_of

if TYPE_CHECKING:
    from grpo_training.viewer.data.runs import Store
    from grpo_training.viewer.web.page import Request


def build(store: Store, request: Request) -> dict[str, Any]:
    """The table's columns."""
    run = store.run(request.params["run"], "generator")
    index = store.index(run)
    index.update(request.budget_s)
    return {"run": run, "index": index}


PAGE = Page(
    "groups",
    "{run}/groups.html",
    "groups.html.j2",
    build,
    runs_of("generator"),
    nav="run",
    kinds=("generator",),
    key="l",
    scripts=("groups.js",),
)
