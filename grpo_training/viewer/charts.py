"""Line charts as coordinates, which the template ``chart.svg.j2`` draws. There is no script: CSS shows the values."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from grpo_training.viewer.series import matching, number, short, shown, stages, ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grpo_training.viewer.series import Row

COLORS = 6
WIDTH, HEIGHT = 520, 230
LEFT, RIGHT, TOP, BOTTOM = 52, WIDTH - 52, 26, HEIGHT - 26
"""The edges of the plot inside of the drawing."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Chart:
    """Which metrics a chart shows.

    Args:
        title: its heading.
        left: metrics on the left axis; one ``*`` in a name matches any text.
        right: metrics on the right axis.
        band: a metric, and the metric that is its standard deviation.
        note: a hint for the reader.
        axis: what is counted from left to right.
    """

    title: str
    left: tuple[str, ...]
    right: tuple[str, ...] = ()
    band: tuple[str, str] | None = None
    note: str = ""
    axis: str = "step"


@dataclass(frozen=True)
class Series:
    """One metric: its legend, lines where values are contiguous, and dots for single values."""

    name: str
    color: int
    lines: list[list[Point]]
    dots: list[Point]


@dataclass(frozen=True)
class Strip:
    """The values at one step, shown while the pointer is over its vertical strip."""

    left: float
    width: float
    x: float
    dots: list[tuple[int, Point]]
    text: str


@dataclass(frozen=True)
class Drawing:
    """A chart as coordinates in pixels.

    Args:
        chart: what it shows.
        label: describes it for a screen reader.
        grid: heights of the horizontal lines.
        labels: position, anchor and text of the axis labels.
        stages: position and name of each stage, if there are several.
        band: outline of the band; empty without one.
        series: the metrics.
        strips: the values by step.
    """

    chart: Chart
    label: str
    grid: list[float]
    labels: list[tuple[Point, str, str]]
    stages: list[tuple[float, str]]
    band: list[Point]
    series: list[Series]
    strips: list[Strip]


@dataclass(frozen=True)
class _Axis:
    """Maps values to heights; its ends are round values."""

    marks: Sequence[float]

    @classmethod
    def of(cls, values: Iterable[float]) -> _Axis:
        listed = list(values)
        low, high = min(listed), max(listed)
        if 0 < low < high / 2:
            low = 0.0  # show 0 where the values come near it
        return cls(ticks(low, high))

    def y(self, value: float) -> float:
        low, high = self.marks[0], self.marks[-1]
        return round(TOP + (BOTTOM - TOP) * (1 - (value - low) / (high - low)), 1)


def draw(chart: Chart, rows: Sequence[Row]) -> Drawing | None:
    """The drawing of a chart; None where none of its metrics has a value."""
    left, right = matching(chart.left, rows), matching(chart.right, rows)
    names = left + right
    if not names:
        return None
    axes = {name: axis for group in (left, right) if group for axis in [_axis(group, rows, chart)] for name in group}
    steps = [int(row["step"]) for row in rows]
    span = max(steps[-1] - steps[0], 1)
    xs = [round(LEFT + (RIGHT - LEFT) * (step - steps[0]) / span, 1) for step in steps]
    marks = stages(rows)
    band = chart.band if chart.band and chart.band[0] in names else None
    return Drawing(
        chart=chart,
        label=f"{chart.title}: {', '.join(names)} by {chart.axis}",
        grid=[axes[names[0]].y(mark) for mark in axes[names[0]].marks],
        labels=[
            *(_axis_labels(axes[left[0]], LEFT - 6, "end") if left else []),
            *(_axis_labels(axes[right[0]], RIGHT + 6, "start") if right else []),
            *_step_labels(steps[0], steps[-1], span),
        ],
        stages=[(xs[start], name) for start, _, name in marks] if len(marks) > 1 else [],
        band=_band(rows, band, axes[band[0]], xs) if band else [],
        series=[_series(rows, name, place % COLORS, axes[name], xs) for place, name in enumerate(names)],
        strips=_strips(chart.axis, rows, names, band, axes, xs),
    )


def _axis(names: Sequence[str], rows: Sequence[Row], chart: Chart) -> _Axis:
    values = [value for row in rows for name in names if (value := number(row, name)) is not None]
    if chart.band and chart.band[0] in names:
        values += [edge for row in rows for edge in _edges(row, chart.band)]
    return _Axis.of(values)


def _edges(row: Row, band: tuple[str, str]) -> list[float]:
    middle, spread = number(row, band[0]), number(row, band[1])
    return [] if middle is None or spread is None else [middle - spread, middle + spread]


def _axis_labels(axis: _Axis, x: float, anchor: str) -> list[tuple[Point, str, str]]:
    return [((x, axis.y(mark) + 3.5), anchor, shown(mark)) for mark in axis.marks]


def _step_labels(first: int, last: int, span: int) -> list[tuple[Point, str, str]]:
    whole = [mark for mark in ticks(first, max(last, first + 1), 6) if mark == int(mark) and first <= mark <= last]
    return [
        ((round(LEFT + (RIGHT - LEFT) * (mark - first) / span, 1), BOTTOM + 15.0), "middle", str(int(mark)))
        for mark in whole
    ]


def _series(rows: Sequence[Row], name: str, color: int, axis: _Axis, xs: Sequence[float]) -> Series:
    """A line breaks where a value is missing, unless most are (a metric that is measured now and then)."""
    pieces: list[list[Point]] = [[]]
    for row, x in zip(rows, xs, strict=True):
        value = number(row, name)
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((x, axis.y(value)))
    if sum(map(len, pieces)) * 2 < len(rows):
        pieces = [[point for piece in pieces for point in piece]]
    lines = [piece for piece in pieces if len(piece) > 1]
    return Series(short(name), color, lines, [piece[0] for piece in pieces if len(piece) == 1])


def _band(rows: Sequence[Row], band: tuple[str, str], axis: _Axis, xs: Sequence[float]) -> list[Point]:
    edges = [(x, *_edges(row, band)) for row, x in zip(rows, xs, strict=True) if _edges(row, band)]
    if len(edges) < 2:
        return []
    return [(x, axis.y(low)) for x, low, _ in edges] + [(x, axis.y(high)) for x, _, high in reversed(edges)]


def _strips(
    axis: str,
    rows: Sequence[Row],
    names: Sequence[str],
    band: tuple[str, str] | None,
    axes: dict[str, _Axis],
    xs: Sequence[float],
) -> list[Strip]:
    borders = [LEFT - 4, *((first + second) / 2 for first, second in pairwise(xs)), RIGHT + 4]
    strips = []
    for index, row in enumerate(rows):
        values = {name: value for name in names if (value := number(row, name)) is not None}
        texts = [f"{axis} {row['step']}"]
        for name, value in values.items():
            spread = number(row, band[1]) if band and name == band[0] else None
            texts.append(f"{short(name)} {shown(value)}" + ("" if spread is None else f" ± {shown(spread)}"))
        dots = [
            (place % COLORS, (xs[index], axes[name].y(values[name])))
            for place, name in enumerate(names)
            if name in values
        ]
        width = max(borders[index + 1] - borders[index], 0.5)
        strips.append(Strip(round(borders[index], 1), round(width, 1), xs[index], dots, "  ".join(texts)))
    return strips
