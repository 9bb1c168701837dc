"""One run of a generator in figures and curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.statistics.paired import Clusters, Estimate, clustered_mean, clustered_share
from engine.storage.summaries import GroupSummary
from grpo_training.view.data.index import RolloutIndex
from grpo_training.view.data.journal import NAME as JOURNAL
from grpo_training.view.data.journal import moments_between
from grpo_training.view.data.moving import moving_mean, positions, window_for
from grpo_training.view.data.runs import Store
from grpo_training.view.pages.taught import library_table
from grpo_training.view.web.page import CHART_SCRIPTS, CHART_STYLES, Page, Request, runs_of

_POINTS = 300
_SLOTS = 120
_SHORTEST_SLOT_S = 5.0
_SHORTEST_RUN_S = 60.0
"""A shorter run has no time line: numbers per minute would say nothing."""


@dataclass(frozen=True)
class Figures:
    """The figures of a run over its current groups. Estimates are clustered by problem; None without data."""

    groups: int
    problems: int
    incomplete: int
    rollouts: int
    accuracy: Estimate | None
    reward: Estimate | None
    components: dict[str, Estimate]
    sigma: float | None
    triggered: Estimate | None
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    outcomes: dict[str, int]
    faults: dict[str, int]
    duration_s: float | None


def build(store: Store, request: Request) -> dict[str, Any]:
    """The figures and charts of a run."""
    run = store.run(request.params["run"], "generator")
    index = store.index(run)
    index.update(request.budget_s)
    groups = index.current()
    spending = store.spending(run)
    is_behind = request.budget_s is not None and index.progress() < 1  # of a large run, the rollouts come first
    return {
        "run": run,
        "state": run.state(),
        "index": index,
        "figures": figures_of(index),
        "alarms": index.dead_rewards(),
        "window": window_for(len(groups)),
        "charts": {**index.memo("charts", lambda: charts(groups)), **timeline(run.folder / JOURNAL, groups)},
        "lessons": library_table(store, run),
        "spent": spending.update(0.0 if is_behind else request.budget_s),
        "spent_is_complete": spending.is_complete,
        "settings": run.configuration(),
    }


def figures_of(index: RolloutIndex) -> Figures:
    """The figures of a run as far as its file was read."""
    return index.memo("figures", lambda: figures(index.current()))


def figures(groups: Sequence[GroupSummary]) -> Figures:
    """The figures of some groups."""
    outcomes: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for group in groups:
        outcomes.update(group.outcomes)
        faults.update(group.faults)
    complete = [group for group in groups if group.is_scored]
    costs = [group.cost_usd for group in groups if group.cost_usd is not None]
    names = dict.fromkeys(name for group in groups for name in group.components)
    sigmas = [group.sigma for group in complete if group.sigma is not None]
    return Figures(
        groups=len(groups),
        problems=len({group.problem_id for group in groups}),
        incomplete=len(groups) - len(complete),
        rollouts=sum(group.rollouts for group in groups),
        accuracy=_share([group for group in complete if group.checked], lambda group: group.right / group.checked),
        reward=_mean(complete, lambda group: group.mean or 0.0),
        components={name: estimate for name in names if (estimate := _component_mean(complete, name)) is not None},
        sigma=sum(sigmas) / len(sigmas) if sigmas else None,
        triggered=_share(complete, lambda group: float(group.triggered)),
        prompt_tokens=sum(group.prompt_tokens for group in groups),
        completion_tokens=sum(group.completion_tokens for group in groups),
        cost_usd=sum(costs) if costs else None,
        outcomes=dict(outcomes.most_common()),
        faults=dict(faults.most_common()),
        duration_s=_duration(groups),
    )


def charts(groups: Sequence[GroupSummary]) -> dict[str, Any]:
    """The curves over the groups in order, as ``charts.js`` draws them. Those without any value are left out."""
    at, window = positions(len(groups), _POINTS), window_for(len(groups))

    def curve(label: str, value: Callable[[GroupSummary], float | None], *, share: bool = False) -> dict[str, Any]:
        mean = moving_mean([value(group) for group in groups], window, at, is_share=share)
        low = [None if one is None else max(0.0, one) for one in mean.low]
        return {"label": label, "values": _rounded(mean.values), "low": _rounded(low), "high": _rounded(mean.high)}

    names = dict.fromkeys(name for group in groups for name in group.components)
    share, unit = {"format": "percent", "min": 0, "max": 1}, {"format": "decimal", "min": 0, "max": 1}
    found = {
        "accuracy": (share, [curve("", lambda one: one.right / one.checked if one.checked else None, share=True)]),
        "reward": (unit, [curve("", lambda one: one.mean, share=True)]),
        "components": (unit, [curve(name, _mean_of(name), share=True) for name in names]),
        "sigma": ({"format": "decimal", "min": 0}, [curve("", lambda one: one.sigma)]),
        "triggered": (share, [curve("", lambda one: float(one.triggered) if one.is_scored else None, share=True)]),
        "tokens": (
            {"format": "count", "min": 0},
            [curve("", lambda one: one.completion_tokens / one.rollouts if one.completion_tokens else None)],
        ),
        "latency": ({"format": "seconds", "min": 0}, [curve("", lambda one: one.latency_s or None)]),
        "experiences": (
            {"format": "count", "min": 0},
            [{"label": "", "values": [groups[place].experiences or None for place in at], "step": True}],
        ),
    }
    numbers = [place + 1 for place in at]
    return {
        name: {"x": numbers, "y": axis, "series": series}
        for name, (axis, series) in found.items()
        if any(value is not None for one in series for value in one["values"])
    }


def timeline(journal: Path, groups: Sequence[GroupSummary]) -> dict[str, Any]:
    """Replies and finished groups per slot of time, as a chart; empty for a short run or without time stamps."""
    finished = [moment for group in groups if (moment := _seconds(group.timestamp)) is not None]
    replies = moments_between(journal, min(finished) - 3600, max(finished) + 3600) if finished else []
    moments = replies or finished
    if len(moments) < 2 or max(moments) - min(moments) < _SHORTEST_RUN_S:
        return {}
    start, duration = min(moments), max(moments) - min(moments)
    slots = min(_SLOTS, int(duration / _SHORTEST_SLOT_S))
    width = duration / slots
    counts = Counter(min(slots - 1, int((moment - start) / width)) for moment in moments)
    values = [counts[slot] / width * 60 for slot in range(slots)]
    xs = [round(start + slot * width, 2) for slot in range(slots)]
    series = [{"label": "", "values": _rounded(values), "step": True}]
    name = "replies" if replies else "finished"
    return {name: {"x": xs, "xTime": True, "y": {"format": "count", "min": 0}, "series": series}}


def _mean_of(name: str) -> Callable[[GroupSummary], float | None]:
    return lambda group: group.components[name].mean if name in group.components else None


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    """Shorter in the page; no reader sees more digits."""
    return [None if value is None else round(value, 5) for value in values]


def _by_problem(groups: Sequence[GroupSummary], value: Callable[[GroupSummary], float]) -> dict[str, list[float]]:
    clusters: dict[str, list[float]] = {}
    for group in groups:
        clusters.setdefault(group.problem_id, []).append(value(group))
    return clusters


def _mean(groups: Sequence[GroupSummary], value: Callable[[GroupSummary], float]) -> Estimate | None:
    return bounded_mean(_by_problem(groups, value)) if groups else None


def bounded_mean(clusters: Clusters) -> Estimate:
    """The mean with its interval, which ends at 0 or 1 if no value is beyond: few values give a wide one."""
    estimate = clustered_mean(clusters)
    if estimate.low is None or estimate.high is None:
        return estimate
    lowest = min(min(values) for values in clusters.values())
    highest = max(max(values) for values in clusters.values())
    return replace(
        estimate,
        low=max(estimate.low, 0.0) if lowest >= 0 else estimate.low,
        high=min(estimate.high, 1.0) if highest <= 1 else estimate.high,
    )


def _component_mean(groups: Sequence[GroupSummary], name: str) -> Estimate | None:
    return _mean([group for group in groups if name in group.components], lambda group: group.components[name].mean)


def _share(groups: Sequence[GroupSummary], value: Callable[[GroupSummary], float]) -> Estimate | None:
    return clustered_share(_by_problem(groups, value), sum(one.checked or 1 for one in groups)) if groups else None


def _seconds(timestamp: str) -> float | None:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _duration(groups: Sequence[GroupSummary]) -> float | None:
    moments = [moment for group in groups if (moment := _seconds(group.timestamp)) is not None]
    return max(moments) - min(moments) if len(moments) > 1 else None


PAGE = Page(
    "overview",
    "{run}/overview.html",
    "overview.html.j2",
    build,
    runs_of("generator"),
    nav="run",
    kinds=("generator",),
    key="o",
    scripts=CHART_SCRIPTS,
    styles=(*CHART_STYLES, "library.css", "overview.css"),
)
