"""Line charts as coordinates, which the template ``chart.svg.j2`` draws. There is no script: CSS shows the values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from grpo_training.view.series import Row, matching, number, short, shown, ticks

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
        metrics: one ``*`` in a name matches any text.
        note: a hint for the reader.
        axis: what is counted from left to right.
    """

    title: str
    metrics: tuple[str, ...]
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
        series: the metrics.
        strips: the values by step.
    """

    chart: Chart
    label: str
    grid: list[float]
    labels: list[tuple[Point, str, str]]
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
    names = matching(chart.metrics, rows)
    if not names:
        return None
    axis = _Axis.of(value for row in rows for name in names if (value := number(row, name)) is not None)
    steps = [int(row["step"]) for row in rows]
    span = max(steps[-1] - steps[0], 1)
    xs = [round(LEFT + (RIGHT - LEFT) * (step - steps[0]) / span, 1) for step in steps]
    return Drawing(
        chart=chart,
        label=f"{chart.title}: {', '.join(names)} by {chart.axis}",
        grid=[axis.y(mark) for mark in axis.marks],
        labels=[*_axis_labels(axis, LEFT - 6, "end"), *_step_labels(steps[0], steps[-1], span)],
        series=[_series(rows, name, place % COLORS, axis, xs) for place, name in enumerate(names)],
        strips=_strips(chart.axis, rows, names, axis, xs),
    )


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


def _strips(title: str, rows: Sequence[Row], names: Sequence[str], axis: _Axis, xs: Sequence[float]) -> list[Strip]:
    borders = [LEFT - 4, *((first + second) / 2 for first, second in pairwise(xs)), RIGHT + 4]
    strips = []
    for index, row in enumerate(rows):
        values = {name: value for name in names if (value := number(row, name)) is not None}
        texts = [f"{title} {row['step']}", *(f"{short(name)} {shown(value)}" for name, value in values.items())]
        dots = [
            (place % COLORS, (xs[index], axis.y(values[name]))) for place, name in enumerate(names) if name in values
        ]
        width = max(borders[index + 1] - borders[index], 0.5)
        strips.append(Strip(round(borders[index], 1), round(width, 1), xs[index], dots, "  ".join(texts)))
    return strips
