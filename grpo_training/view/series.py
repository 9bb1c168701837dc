"""Metrics of a training as series: which are present, thinned to a drawable number of points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from statistics import fmean
from typing import Any

Row = dict[str, Any]
"""One line of metrics.jsonl."""

_COLUMNS = 200
_LARGEST = 1e12  # larger values are drawn at this height
_SMALLEST = 1e-300


def number(row: Row, name: str) -> float | None:
    """A metric of a row; None where it is absent, null, not a number or not finite; between 1e-300 and 1e12, or 0."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == math.inf:
        return None
    value = float(max(-_LARGEST, min(_LARGEST, value)))
    return value if abs(value) > _SMALLEST else 0.0


def thinned(rows: Sequence[Row], columns: int = _COLUMNS) -> list[Row]:
    """About ``columns`` rows at most: in a longer run each is the mean of neighbours of one stage."""
    size = math.ceil(len(rows) / columns)
    result = []
    for start, end, _ in stages(rows):
        result += [_mean_row(rows[first : min(first + size, end)]) for first in range(start, end, size)]
    return result


def _mean_row(rows: Sequence[Row]) -> Row:
    """The mean of each metric, at the step of the last row."""
    mean: Row = {"step": rows[-1]["step"], "stage": rows[-1].get("stage")}
    for name in dict.fromkeys(name for row in rows for name in row if name not in mean):
        values = [value for row in rows if (value := number(row, name)) is not None]
        mean[name] = fmean(values) if values else None
    return mean


def stages(rows: Sequence[Row]) -> list[tuple[int, int, str]]:
    """The stages of a run in order: index of the first row, index after the last, name."""
    spans, start = [], 0
    for name, rows_of_stage in groupby(str(row.get("stage") or "") for row in rows):
        end = start + len(list(rows_of_stage))
        spans.append((start, end, name))
        start = end
    return spans


def matching(patterns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The metrics that match a pattern and have a value in any row, in the order of the patterns.

    Args:
        patterns: names, in which ``*`` stands for any text.
        rows: of a run.
    """
    present = dict.fromkeys(name for row in rows for name in row if number(row, name) is not None)
    return list(dict.fromkeys(name for pattern in patterns for name in present if fnmatchcase(name, pattern)))


def shown(value: float) -> str:
    """A number in four digits."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def short(name: str) -> str:
    """A metric's name in a legend: ``rewards/r_ans/mean`` is ``r_ans``."""
    return name.removeprefix("rewards/").removesuffix("/mean").removeprefix("completions/").removeprefix("clip_ratio/")
