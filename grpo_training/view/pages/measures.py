"""What is measured of a group, its means over the groups of a run, and how their curves are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from engine.statistics.paired import Estimate, clustered_mean, clustered_share
from engine.storage.summaries import GroupSummary

POINTS = 300
"""Of a curve, at most."""

Measure = Callable[[GroupSummary], float | None]
"""A figure of a group; None where it has none."""

Shown = Literal["percent", "decimal"]
"""How a figure is written: as a share, or as a number from 0 to 1."""

MEASURES: Mapping[str, Measure] = {
    "accuracy": lambda group: group.right / group.checked if group.checked else None,
    "reward": lambda group: group.mean,
    "sigma": lambda group: group.sigma,
    "triggered": lambda group: float(group.triggered) if group.is_scored else None,
    "tokens": lambda group: group.completion_tokens / group.rollouts if group.completion_tokens else None,
    "latency": lambda group: group.latency_s or None,
}

_SHARE, _UNIT = {"format": "percent", "min": 0, "max": 1}, {"format": "decimal", "min": 0, "max": 1}
AXES: Mapping[str, Mapping[str, Any]] = {
    "accuracy": _SHARE,
    "reward": _UNIT,
    "components": _UNIT,
    "sigma": {"format": "decimal", "min": 0},
    "triggered": _SHARE,
    "tokens": {"format": "count", "min": 0},
    "latency": {"format": "seconds", "min": 0},
    "experiences": {"format": "count", "min": 0},
}
"""Chart -> its axis, for ``charts.js``."""


def component(name: str) -> Measure:
    """The mean of a reward component."""
    return lambda group: group.components[name].mean if name in group.components else None


def mean_of(groups: Sequence[GroupSummary], measure: Measure, shown: Shown) -> Estimate | None:
    """The mean over groups with its interval, clustered by problem; None without a value.

    The interval of a ``decimal`` ends at 0 or 1 if no value is beyond: few values give a wide one.
    """
    clusters: dict[str, list[float]] = {}
    for group in groups:
        value = measure(group)
        if value is not None:
            clusters.setdefault(group.problem_id, []).append(value)
    if not clusters:
        return None
    if shown == "percent":
        return clustered_share(clusters, sum(group.checked or 1 for group in groups if measure(group) is not None))
    estimate = clustered_mean(clusters)
    if estimate.low is None or estimate.high is None:
        return estimate
    values = [value for cluster in clusters.values() for value in cluster]
    return replace(
        estimate,
        low=max(estimate.low, 0.0) if min(values) >= 0 else estimate.low,
        high=min(estimate.high, 1.0) if max(values) <= 1 else estimate.high,
    )


def positions(count: int, points: int) -> list[int]:
    """At most ``points`` indices of ``count`` values, evenly spaced, with the last one."""
    if count <= points:
        return list(range(count))
    return [round((number + 1) * count / points) - 1 for number in range(points)]


def window_for(count: int) -> int:
    """The window of a run of ``count`` groups: a tenth, between 5 and 200."""
    return max(5, min(200, count // 10))


def moving_mean(
    values: Sequence[float | None], window: int, at: Sequence[int], *, is_share: bool = False
) -> dict[str, list[float | None]]:
    """The means of windows with their 95 % intervals, as ``values``, ``low`` and ``high`` of a curve.

    The interval is that of :func:`engine.statistics.paired.clustered_mean` with one observation in each cluster.

    Args:
        values: one per group; None where it has none.
        window: number of groups.
        at: indices of groups; the window of each ends with it.
        is_share: values in [0, 1]; the interval is then that of :func:`engine.statistics.paired.clustered_share`.
    """
    points = []
    for last in at:
        recent = enumerate(values[max(0, last + 1 - window) : last + 1])
        clusters = {str(number): [value] for number, value in recent if value is not None}
        mean = (clustered_share if is_share else clustered_mean)(clusters) if clusters else None
        points.append((None, None, None) if mean is None else (mean.value, mean.low, mean.high))
    means, lows, highs = zip(*points, strict=True) if points else ((), (), ())
    return {"values": list(means), "low": list(lows), "high": list(highs)}


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """Shorter in the page; no reader sees more digits."""
    return [None if value is None else round(value, 5) for value in values]


def chart_of(name: str, at: Sequence[int], series: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The chart of some curves over the groups at some places, as ``charts.js`` draws it; None without any value."""
    has_values = any(value is not None for curve in series for value in curve["values"])
    return {"x": [index + 1 for index in at], "y": AXES[name], "series": series} if has_values else None
