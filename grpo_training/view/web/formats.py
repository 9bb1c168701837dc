"""Numbers and times as texts, with the same digits and units on every page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from engine.statistics.paired import Estimate
from grpo_training.cli.settings import WORKING_DIR

MISSING = "–"
_LARGEST = 1e18


def decimal(value: float | None, digits: int = 3) -> str:
    """A reward or a sigma: ``0.351``."""
    return MISSING if value is None else f"{value:.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    """A share: ``62.5 %``."""
    return MISSING if value is None else f"{100 * value:.{digits}f} %"


def signed_decimal(value: float, digits: int = 3) -> str:
    """A difference: ``+0.120``, ``−0.031``."""
    return _signed(value, decimal(abs(value), digits))


def signed_points(value: float) -> str:
    """A difference of two shares, in percentage points: ``+6.2 pp``."""
    return _signed(value, f"{100 * abs(value):.1f} pp")


def _signed(value: float, shown: str) -> str:
    return ("+" if value > 0 else "\u2212" if value < 0 else "") + shown


def count(value: float | None) -> str:
    """A number with thousands separated: ``12 500``; from a million on shortened: ``1.25 M``."""
    if value is None:
        return MISSING
    value = max(-_LARGEST, min(_LARGEST, value))  # an integer of a file may be too large for a float
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= limit:
            return f"{value / limit:.2f} {unit}"
    return f"{value:,.0f}".replace(",", "\u202f")


def money(value: float | None) -> str:
    """US dollars: ``$0.42``."""
    if value is None:
        return MISSING
    return f"${value:.4f}" if 0 < abs(value) < 0.1 else f"${value:,.2f}"


def seconds(value: float | None) -> str:
    """A duration: ``2.7 s``, ``4 min 10 s``, ``3 h 05 min``."""
    if value is None or not abs(value) < _LARGEST:
        return MISSING
    if value < 120:
        return f"{value:.1f} s"
    minutes, remainder = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {remainder:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def moment(value: str) -> str:
    """A stored time stamp without its fraction and zone: ``2026-11-22 17:28:16``."""
    try:
        return datetime.fromisoformat(value).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return value[:40] or MISSING


def interval(estimate: Estimate | None, digits: int = 3) -> str:
    """The ends of a 95 % interval: ``0.412 … 0.598``."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return MISSING
    return f"{estimate.low:.{digits}f} … {estimate.high:.{digits}f}"


def plot_x(value: float, range_points: int) -> str:
    """The place of a difference in a plot of 200 units, whose ends are so many percentage points."""
    limit = range_points / 100
    return str(100 + 100 * max(-limit, min(limit, value)) / limit)


def place(path: Path) -> str:
    """A path as seen from the folder in which the command was started, if it is below it."""
    return str(path.relative_to(WORKING_DIR) if path.is_relative_to(WORKING_DIR) else path)


_FILTERS: tuple[Callable[..., str], ...] = (
    *(decimal, percent, signed_decimal, signed_points, interval),
    *(count, money, seconds, moment, place, plot_x),
)
FILTERS: Mapping[str, Callable[..., str]] = {function.__name__: function for function in _FILTERS}
"""In templates: ``{{ sigma | decimal }}``."""
