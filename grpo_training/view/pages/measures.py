"""What is measured of a group, its means over the groups of a run, and how their curves are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from types import MappingProxyType
from typing import Any, Literal

from engine.statistics.paired import Estimate, clustered_mean, clustered_share, share_interval, student_t_quantile
from engine.storage.summaries import GroupSummary

POINTS = 300
"""Of a curve, at most."""

Measure = Callable[[GroupSummary], float | None]
"""A figure of a group; None where it has none."""

Shown = Literal["percent", "decimal"]
"""How a figure is written: as a share, or as a number from 0 to 1."""

MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "accuracy": lambda one: one.right / one.checked if one.checked else None,
        "reward": lambda one: one.mean,
        "sigma": lambda one: one.sigma,
        "triggered": lambda one: float(one.triggered) if one.is_scored else None,
        "tokens": lambda one: one.completion_tokens / one.rollouts if one.completion_tokens else None,
        "latency": lambda one: one.latency_s or None,
    }
)

_SHARE, _UNIT = {"format": "percent", "min": 0, "max": 1}, {"format": "decimal", "min": 0, "max": 1}
AXES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "accuracy": _SHARE,
        "reward": _UNIT,
        "components": _UNIT,
        "sigma": {"format": "decimal", "min": 0},
        "triggered": _SHARE,
        "tokens": {"format": "count", "min": 0},
        "latency": {"format": "seconds", "min": 0},
        "experiences": {"format": "count", "min": 0},
    }
)
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
        return clustered_share(clusters, sum(one.checked or 1 for one in groups if measure(one) is not None))
    estimate = clustered_mean(clusters)
    if estimate.low is None or estimate.high is None:
        return estimate
    values = [value for found in clusters.values() for value in found]
    return replace(
        estimate,
        low=max(estimate.low, 0.0) if min(values) >= 0 else estimate.low,
        high=min(estimate.high, 1.0) if max(values) <= 1 else estimate.high,
    )


def positions(count: int, points: int) -> list[int]:
    """At most ``points`` indices of ``count`` values, evenly spaced, with the last one."""
    if count <= points:
        return list(range(count))
    return [round((place + 1) * count / points) - 1 for place in range(points)]


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
        present = [value for value in values[max(0, last + 1 - window) : last + 1] if value is not None]
        count = len(present)
        mean = fmean(present) if present else None
        low = high = None
        if mean is not None and count > 1:
            spread = math.fsum((value - mean) ** 2 for value in present)
            if is_share:
                low, high = share_interval(mean, spread / count**2, count, count)
            else:
                half = student_t_quantile(0.975, count - 1) * math.sqrt(spread / (count - 1) / count)
                low, high = mean - half, mean + half
        points.append((mean, low, high))
    means, lows, highs = zip(*points, strict=True) if points else ((), (), ())
    return {"values": list(means), "low": list(lows), "high": list(highs)}


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """Shorter in the page; no reader sees more digits."""
    return [None if value is None else round(value, 5) for value in values]


def chart_of(name: str, at: Sequence[int], series: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The chart of some curves over the groups at some places, as ``charts.js`` draws it; None without any value."""
    has_values = any(value is not None for one in series for value in one["values"])
    return {"x": [place + 1 for place in at], "y": AXES[name], "series": series} if has_values else None
