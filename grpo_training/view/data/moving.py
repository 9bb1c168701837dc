"""Moving means over groups, with the intervals of ``engine.statistics.paired`` in one pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from engine.statistics.paired import share_interval, student_t_quantile

_MANY = 200
"""From so many groups on, Student's t is the same for all numbers that are rounded to hundreds."""


@dataclass(frozen=True)
class MovingMean:
    """A curve: values and interval ends at some positions; None where a window has no value, or no interval."""

    values: list[float | None]
    low: list[float | None]
    high: list[float | None]


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
) -> MovingMean:
    """The mean of the last ``window`` groups, with the 95 % interval of a mean of independent groups.

    It is :func:`engine.statistics.paired.clustered_mean` with one observation in each cluster.

    Args:
        values: one per group; None where it has none.
        window: number of groups.
        at: indices of groups; the window of each ends with it.
        is_share: values in [0, 1]; the interval is then that of :func:`engine.statistics.paired.clustered_share`.
    """
    sums = list(accumulate((value or 0.0 for value in values), initial=0.0))
    squares = list(accumulate(((value or 0.0) ** 2 for value in values), initial=0.0))
    counts = list(accumulate((value is not None for value in values), initial=0))
    curve = MovingMean([], [], [])
    for last in at:
        first, end = max(0, last + 1 - window), last + 1
        count = counts[end] - counts[first]
        mean = (sums[end] - sums[first]) / count if count else None
        low = high = None
        if mean is not None and count > 1:
            spread = max(0.0, squares[end] - squares[first] - count * mean * mean)
            if is_share:
                low, high = share_interval(min(max(mean, 0.0), 1.0), spread / count**2, count, count)
            else:
                half = _quantile(count - 1) * math.sqrt(spread / (count - 1) / count)
                low, high = mean - half, mean + half
        curve.values.append(mean)
        curve.low.append(low)
        curve.high.append(high)
    return curve


def _quantile(degrees: int) -> float:
    return student_t_quantile(0.975, degrees if degrees < _MANY else degrees // 100 * 100)
