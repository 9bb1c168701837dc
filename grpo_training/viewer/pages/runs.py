"""All runs in a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_training.viewer.web.page import Page

if TYPE_CHECKING:
    from grpo_training.viewer.data.runs import Store
    from grpo_training.viewer.web.page import Request


def build(store: Store, request: Request) -> dict[str, Any]:
    """The runs with their state."""
    return {"rows": [{"run": run, "state": run.state()} for run in store.runs], "folders": store.folders}


PAGE = Page("runs", "index.html", "runs.html.j2", build, nav="site", key="r")
