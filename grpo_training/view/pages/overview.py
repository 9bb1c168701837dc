"""One run of a generator in figures and curves."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from statistics import fmean
from typing import Any

from engine.records import RolloutGroup
from engine.statistics.groups import ComponentSummary, DeadRewardWatch
from engine.storage.summaries import GroupSummary
from grpo_training.view.data.record_index import RecordIndex
from grpo_training.view.data.runs import Run, Store
from grpo_training.view.pages.library_view import effect_views
from grpo_training.view.pages.measures import (
    AXES,
    MEASURES,
    POINTS,
    Measure,
    chart_of,
    component,
    mean_of,
    moving_mean,
    positions,
    rounded,
    window_for,
)
from grpo_training.view.web.page import CHART_SCRIPTS, CHART_STYLES, Page, Request


def build(store: Store, request: Request) -> dict[str, Any]:
    """The figures and charts of a run."""
    run = store.run(request.params["run"], "generator")
    index = store.index(run).update(request.budget_s)
    groups = index.current()
    return {
        "run": run,
        "state": run.state(),
        "index": index,
        "figures": figures_of(index),
        "alarms": index.memo("alarms", lambda: dead_rewards(index.all())),
        "window": window_for(len(groups)),
        "charts": index.memo("charts", lambda: charts(groups)),
        "lessons": library_table(store, run),
        "settings": run.configuration(),
    }


def library_table(store: Store, run: Run) -> dict[str, Any] | None:
    """The library of a run for a table: measured effects first, then the other experiences; None without one."""
    library = store.library_of(run)
    state = None if library is None else library.state()
    if library is None or state is None:
        return None
    views, range_points = effect_views(state)
    effects = [view for view in views if view["state"] != "retired"]
    measured = {view["experience"].id for view in effects}
    others = [experience for experience in state.live if experience.id not in measured]
    return {
        "library": library,
        "version": state.version,
        "gate": state.gate,
        "count": len(state.live),
        "effects": effects,
        "others": others,
        "range_points": range_points,
    }


def dead_rewards(groups: Sequence[GroupSummary]) -> list[ComponentSummary]:
    """The reward components that do not vary now, or did not for a while."""
    watch = DeadRewardWatch()
    for group in groups:
        if group.is_scored:
            watch.feed({name: spread.as_values() for name, spread in group.components.items()})
    return [summary for summary in watch.summary() if summary.alarms]


def figures_of(index: RecordIndex[GroupSummary, RolloutGroup]) -> dict[str, Any]:
    """The figures of a run as far as its file was read."""
    return index.memo("figures", lambda: figures(index.current()))


def figures(groups: Sequence[GroupSummary]) -> dict[str, Any]:
    """The figures of some groups. Estimates are clustered by problem; a figure without data is None."""
    outcomes: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for group in groups:
        outcomes.update(group.outcomes)
        faults.update(group.faults)
    complete = [group for group in groups if group.is_scored]
    costs = [group.cost_usd for group in groups if group.cost_usd is not None]
    names = dict.fromkeys(name for group in groups for name in group.components)
    sigmas = [group.sigma for group in complete if group.sigma is not None]
    moments = _moments(groups)
    return {
        "groups": len(groups),
        "problems": len({group.problem_id for group in groups}),
        "incomplete": len(groups) - len(complete),
        "rollouts": sum(group.rollouts for group in groups),
        "accuracy": mean_of(complete, MEASURES["accuracy"], "percent"),
        "reward": mean_of(complete, MEASURES["reward"], "decimal"),
        "components": {
            name: mean for name in names if (mean := mean_of(complete, component(name), "decimal")) is not None
        },
        "sigma": fmean(sigmas) if sigmas else None,
        "triggered": mean_of(complete, MEASURES["triggered"], "percent"),
        "prompt_tokens": sum(group.prompt_tokens for group in groups),
        "completion_tokens": sum(group.completion_tokens for group in groups),
        "cost_usd": sum(costs) if costs else None,
        "outcomes": dict(outcomes.most_common()),
        "faults": dict(faults.most_common()),
        "duration_s": max(moments) - min(moments) if len(moments) > 1 else None,
    }


def charts(groups: Sequence[GroupSummary]) -> dict[str, Any]:
    """The curves over the groups in order, as ``charts.js`` draws them. Those without any value are left out."""
    at, window = positions(len(groups), POINTS), window_for(len(groups))

    def curve(chart: str, label: str, measure: Measure) -> dict[str, Any]:
        mean = moving_mean([measure(group) for group in groups], window, at, is_share="max" in AXES[chart])
        mean["low"] = [None if end is None else max(0.0, end) for end in mean["low"]]
        return {"label": label} | {name: rounded(values) for name, values in mean.items()}

    names = dict.fromkeys(name for group in groups for name in group.components)
    experiences = [groups[index].experiences or None for index in at]
    series: dict[str, list[dict[str, Any]]] = {
        **{chart: [curve(chart, "", measure)] for chart, measure in MEASURES.items()},
        "components": [curve("components", name, component(name)) for name in names],
        "experiences": [{"label": "", "values": experiences, "step": True}],
    }
    return {name: chart for name in AXES if (chart := chart_of(name, at, series[name])) is not None}


def _moments(groups: Sequence[GroupSummary]) -> list[float]:
    """When the groups were scored, in seconds since 1970, of those that say it."""
    moments = []
    for group in groups:
        with contextlib.suppress(ValueError, OverflowError, OSError):
            moments.append(datetime.fromisoformat(group.timestamp).timestamp())
    return moments


_STYLES = (*CHART_STYLES, "library.css", "overview.css")
PAGE = Page(
    "overview",
    "Overview",
    "{run}/overview.html",
    build,
    kinds=("generator",),
    key="o",
    scripts=CHART_SCRIPTS,
    styles=_STYLES,
)
