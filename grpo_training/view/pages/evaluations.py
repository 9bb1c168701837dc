"""Gates and evaluations: what was tested on problems, with which result, and at what price."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.errors import InputError
from grpo_training.view.data.evaluations import Evaluation, TaskResult
from grpo_training.view.data.runs import Store
from grpo_training.view.pages.library_view import plot_range
from grpo_training.view.web.page import Page, Params, Request

_MAX_LISTED = 1000


def build_list(store: Store, request: Request) -> dict[str, Any]:
    """All gates, newest first, and all evaluations."""
    gates = [
        {"library": library, "event": gate, "is_current": gate.version == library.summary()["version"]}
        for library in store.libraries
        for gate in library.summary()["gates"]
    ]
    gates.sort(key=lambda row: row["event"].at, reverse=True)
    rows = [_row(evaluation) for evaluation in store.evaluations]
    shown = [row["event"] for row in gates]
    shown += [row["report"].difference for row in rows if row["report"] is not None]
    ends = [end for effect in shown if effect is not None for end in (effect.low, effect.high) if end is not None]
    return {"gates": gates[:_MAX_LISTED], "evaluations": rows, "range_points": plot_range(ends)}


def _row(evaluation: Evaluation) -> dict[str, Any]:
    """An evaluation in the list; ``error`` says why it cannot be read."""
    try:
        return {"evaluation": evaluation, "report": evaluation.report(), "error": ""}
    except InputError as error:
        return {"evaluation": evaluation, "report": None, "error": str(error)}


def build(store: Store, request: Request) -> dict[str, Any]:
    """One evaluation with its problems: those that differ most from the base first, else the hardest first."""
    evaluation = store.evaluation(request.params["evaluation"])
    report = evaluation.report()
    base = report.base.task_results if report.base is not None else {}
    rows: list[dict[str, Any]] = [
        {"name": name, "result": report.task_results.get(name), "base": base.get(name)}
        for name in dict.fromkeys([*report.task_results, *base])
    ]
    rows.sort(key=lambda row: _order(**row))
    return {
        "evaluation": evaluation,
        "report": report,
        "ks": sorted(report.pass_at_k_estimates, key=lambda k: int(k) if k.isdigit() else 0),
        "problems": rows[:_MAX_LISTED],
        "left_out": max(0, len(rows) - _MAX_LISTED),
    }


def _order(name: str, result: TaskResult | None, base: TaskResult | None) -> tuple[float, float, str]:
    share, base_share = _share(result), _share(base)
    difference = 0.0 if share is None or base_share is None else share - base_share
    return -abs(difference), 1.0 if share is None else share, name


def _share(result: TaskResult | None) -> float | None:
    return result["num_correct"] / result["num_total"] if result and result["num_total"] else None


def _instances(store: Store, request: Request) -> Iterator[Params]:
    for row in map(_row, store.evaluations):
        if row["report"] is not None:  # the list says what is wrong with the others
            yield {"evaluation": row["evaluation"].id}


LIST = Page("evaluations", "Tests", "evaluations.html", build_list, key="v", styles=("library.css",))
_STYLES = ("library.css", "overview.css")
PAGE = Page("evaluation", "An evaluation", "evaluations/{evaluation}.html", build, _instances, styles=_STYLES)
