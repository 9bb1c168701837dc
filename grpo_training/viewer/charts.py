"""Curves of a training as SVG: no script, values appear where the pointer is by CSS alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COLORS = 6
_COLUMNS = 200  # points of a curve; of a longer run each is the mean of several steps
_WIDTH, _HEIGHT = 520, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 52, 26, 26
_TICKS = 4

Row = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """What a chart shows.

    Args:
        title: its heading.
        left: metrics on the left axis; a name that ends in ``/*`` or ``/*/mean`` stands for all that fit.
        right: metrics on the right axis.
        band: metric -> metric that holds its standard deviation.
        note: what to look for.
    """

    title: str
    left: tuple[str, ...]
    right: tuple[str, ...] = ()
    band: tuple[str, str] | None = None
    note: str = ""


# ------------------------------------------------------------------ figures


def number(row: Row, name: str) -> float | None:
    """A row's figure; None where it is absent, null, no number or not finite."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def thinned(rows: Sequence[Row], columns: int = _COLUMNS) -> list[Row]:
    """At most so many rows: of a longer run each is the mean of neighbours of one stage, at the last one's step."""
    size = math.ceil(len(rows) / columns)
    result = []
    for start, end, _ in stages(rows):
        result += [_mean_row(rows[first : min(first + size, end)]) for first in range(start, end, size)]
    return result


def _mean_row(rows: Sequence[Row]) -> Row:
    mean: Row = {"step": rows[-1]["step"], "stage": rows[-1].get("stage")}
    for name in dict.fromkeys(name for row in rows for name in row if name not in mean):
        values = [value for row in rows if (value := number(row, name)) is not None]
        mean[name] = fmean(values) if values else None
    return mean


def stages(rows: Sequence[Row]) -> list[tuple[int, int, str]]:
    """The runs of one stage: index of the first row, index behind the last, name."""
    found: list[tuple[int, int, str]] = []
    for index, row in enumerate(rows):
        name = str(row.get("stage") or "")
        if found and found[-1][2] == name:
            found[-1] = (found[-1][0], index + 1, name)
        else:
            found.append((index, index + 1, name))
    return found


def matching(patterns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The metrics that the patterns name and that have a figure anywhere, in the patterns' order."""
    present = dict.fromkeys(name for row in rows for name in row if number(row, name) is not None)
    found: dict[str, None] = {}
    for pattern in patterns:
        head, star, tail = pattern.partition("*")
        found |= dict.fromkeys(
            name
            for name in present
            if (
                name.startswith(head) and name.endswith(tail) and len(name) > len(head + tail) if star else name == head
            )
        )
    return list(found)


def _fits(name: str, head: str, tail: str) -> bool:
    return name.startswith(head) and name.endswith(tail) and len(name) > len(head + tail)


def ticks(low: float, high: float, count: int = _TICKS) -> list[float]:
    """Round values that cover ``low`` to ``high``, about ``count`` steps apart: 1, 2 or 5 times a power of ten."""
    if low == high == 0:
        high = 1.0  # most figures are shares
    if high <= low:
        low, high = low - (abs(low) * 0.1 or 0.5), high + (abs(high) * 0.1 or 0.5)
    rough = (high - low) / count
    power = math.pow(10, math.floor(math.log10(rough)))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [place * step for place in range(first, last + 1)]


def shown(value: float) -> str:
    """A number in four digits."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


# ------------------------------------------------------------------ a chart as SVG


@dataclass(frozen=True)
class _Axis:
    """From a value to a height, by the round values at both ends."""

    marks: Sequence[float]

    @classmethod
    def of(cls, values: Iterable[float]) -> _Axis:
        listed = list(values)
        low, high = min(listed), max(listed)
        if low > 0 and low < high / 2:
            low = 0.0  # a curve that comes near 0 is read best against it
        return cls(ticks(low, high))

    def y(self, value: float) -> float:
        low, high = self.marks[0], self.marks[-1]
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (value - low) / (high - low))


def chart_svg(chart: Chart, rows: Sequence[Row]) -> str:
    """The chart as an ``<svg>``; empty where none of its metrics was measured."""
    left, right = matching(chart.left, rows), matching(chart.right, rows)
    if not left and not right:
        return ""
    names = left + right
    steps: list[int] = [row["step"] for row in rows]
    axes = {name: axis for group in (left, right) if group for axis in [_axis(group, rows, chart)] for name in group}
    span = max(steps[-1] - steps[0], 1)

    def x(step: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (step - steps[0]) / span

    parts = [_stage_marks(rows, x), _grid(axes[left[0]] if left else None, axes[right[0]] if right else None)]
    parts += [_step_labels(steps, x)]
    if chart.band and chart.band[0] in names:
        parts.append(_band(rows, chart.band, axes[chart.band[0]], x))
    parts += [_curve(rows, name, place, axes[name], x) for place, name in enumerate(names)]
    parts += _hover(rows, names, chart.band, axes, x)
    label = escape(f"{chart.title}: {', '.join(names)} by step", quote=True)
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _axis(names: Sequence[str], rows: Sequence[Row], chart: Chart) -> _Axis:
    values = [value for row in rows for name in names if (value := number(row, name)) is not None]
    if chart.band and chart.band[0] in names:
        values += [edge for row in rows for edge in _edges(row, chart.band)]
    return _Axis.of(values)


def _edges(row: Row, band: tuple[str, str]) -> list[float]:
    middle, spread = number(row, band[0]), number(row, band[1])
    return [] if middle is None or spread is None else [middle - spread, middle + spread]


def _grid(left: _Axis | None, right: _Axis | None) -> str:
    lines = []
    for axis, place, anchor, edge in ((left, _LEFT - 6, "end", True), (right, _WIDTH - _RIGHT + 6, "start", False)):
        for mark in axis.marks if axis else ():
            y = axis.y(mark) if axis else 0.0
            if edge or left is None:
                lines.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
            lines.append(
                f'<text class="tick" x="{place}" y="{y + 3.5:.1f}" text-anchor="{anchor}">{shown(mark)}</text>'
            )
    return "".join(lines)


def _step_labels(steps: Sequence[int], x: Any) -> str:
    marks = [mark for mark in ticks(steps[0], max(steps[-1], steps[0] + 1), 6) if steps[0] <= mark <= steps[-1]]
    whole = [mark for mark in marks if mark == int(mark)]
    y = _HEIGHT - _BOTTOM + 15
    return "".join(
        f'<text class="tick" x="{x(mark):.1f}" y="{y}" text-anchor="middle">{int(mark)}</text>' for mark in whole
    )


def _stage_marks(rows: Sequence[Row], x: Any) -> str:
    """A line and a name where a stage begins, where there is more than one."""
    found = stages(rows)
    marks = []
    for start, _, name in found if len(found) > 1 else ():
        place = x(rows[start]["step"])
        marks.append(f'<path class="stage" d="M{place:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>')
        marks.append(f'<text class="stage" x="{place + 3:.1f}" y="{_HEIGHT - _BOTTOM - 5}">{escape(name)}</text>')
    return "".join(marks)


def _curve(rows: Sequence[Row], name: str, place: int, axis: _Axis, x: Any) -> str:
    """A line through the figures; it breaks where one is missing, and a lonely figure is a dot."""
    pieces: list[list[str]] = [[]]
    for row in rows:
        value = number(row, name)
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{x(row['step']):.1f} {axis.y(value):.1f}")
    if _is_sparse(rows, name):  # measured now and then: the points belong together all the same
        pieces = [[point for piece in pieces for point in piece]]
    drawn = [f'<path class="line s{place % COLORS}" d="M{"L".join(piece)}"/>' for piece in pieces if len(piece) > 1]
    lonely = [piece[0].split() for piece in pieces if len(piece) == 1]
    drawn += [f'<circle class="s{place % COLORS}" cx="{left}" cy="{top}" r="2.5"/>' for left, top in lonely]
    return "".join(drawn)


def _is_sparse(rows: Sequence[Row], name: str) -> bool:
    return sum(number(row, name) is not None for row in rows) * 2 < len(rows)


def _band(rows: Sequence[Row], band: tuple[str, str], axis: _Axis, x: Any) -> str:
    edges = [(x(row["step"]), *_edges(row, band)) for row in rows if _edges(row, band)]
    if len(edges) < 2:
        return ""
    lower = [f"{place:.1f} {axis.y(low):.1f}" for place, low, _ in edges]
    upper = [f"{place:.1f} {axis.y(high):.1f}" for place, _, high in reversed(edges)]
    return f'<path class="band" d="M{"L".join(lower + upper)}Z"/>'


def _hover(
    rows: Sequence[Row], names: Sequence[str], band: tuple[str, str] | None, axes: dict[str, _Axis], x: Any
) -> list[str]:
    """For each step a strip that, under the pointer, shows a line, dots and the figures."""
    places = [x(row["step"]) for row in rows]
    middles = [(first + second) / 2 for first, second in pairwise(places)]
    borders = [_LEFT - 4, *middles, _WIDTH - _RIGHT + 4]
    strips = []
    for index, row in enumerate(rows):
        values = {name: value for name in names if (value := number(row, name)) is not None}
        told = [f"{short(name)} {shown(value)}" for name, value in values.items()]
        if band and band[0] in values and (spread := number(row, band[1])) is not None:
            told[list(values).index(band[0])] += f" ± {shown(spread)}"
        color = {name: place % COLORS for place, name in enumerate(names)}
        dots = "".join(
            f'<circle class="s{color[name]}" cx="{places[index]:.1f}" cy="{axes[name].y(value):.1f}" r="3"/>'
            for name, value in values.items()
        )
        start, width = borders[index], max(borders[index + 1] - borders[index], 0.5)
        text = escape(f"step {row['step']}  " + "  ".join(told))
        strips.append(
            f'<g class="hit"><rect x="{start:.1f}" y="0" width="{width:.1f}" height="{_HEIGHT}"/>'
            f'<path d="M{places[index]:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>{dots}'
            f'<text x="{_LEFT}" y="14">{text}</text></g>'
        )
    return strips


def short(name: str) -> str:
    """``rewards/r_ans/mean`` is r_ans to a reader of its chart."""
    return name.removeprefix("rewards/").removesuffix("/mean").removeprefix("completions/").removeprefix("clip_ratio/")
