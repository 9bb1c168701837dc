"""Several trainings side by side: held-out figures, the ends of their metrics, and their curves over each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grpo_training.view.pages.training import CURVES, TrainingEnds, drawn, offline
from grpo_training.view.series import Row, number, shown, thinned

_CURVES = ("held_out", "held_out_loss", "kl", "loss", "entropy", "gradient", "learning_rate", "speed")
"""Of each, the first metric is compared."""
_OF_SAMPLES = ("reward", "pass_rate", "length", "truncated")
"""Of stored rollouts they say nothing of the model, so they are compared between online trainings only."""
_METRICS_OF_SAMPLES = ("reward", "pass_rate", "completions/mean_length")


@dataclass(frozen=True)
class EndRow:
    """One figure of all trainings as text; ``–`` where a training does not have it.

    Args:
        text: the key of its name in the catalogue; empty for a metric.
        name: of the metric.
        values: one per training.
    """

    text: str
    name: str
    values: list[str]


def end_rows(ends: Sequence[TrainingEnds], *, online: bool) -> list[EndRow]:
    """Held-out rewards before and after, the number of steps, and the means of metrics over the last tenth.

    Args:
        ends: of the trainings.
        online: whether all of them sampled what they learned from.
    """
    rows = [EndRow("compare.steps", "", [str(one.steps) if one.steps else "–" for one in ends])]
    held_out = [one.held_out for one in ends]
    if any(held_out):
        rows += [
            EndRow("training.initial", "", [shown(one.initial) if one else "–" for one in held_out]),
            EndRow("training.trained", "", [shown(one.trained) if one else "–" for one in held_out]),
            EndRow("training.change", "", [f"{one.change:+.4g}" if one else "–" for one in held_out]),
        ]
    last = [{line.name: line.last for line in one.summary} for one in ends]
    names = dict.fromkeys(name for one in last for name in one if online or name not in _METRICS_OF_SAMPLES)
    return rows + [EndRow("", name, [one.get(name, "–") for one in last]) for name in names]


def all_online(trainings: Sequence[Sequence[Row]]) -> bool:
    """Whether no training learned from stored rollouts."""
    return not any(map(offline, trainings))


def charts(names: Sequence[str], trainings: Sequence[Sequence[Row]]) -> dict[str, dict[str, Any]]:
    """The curves of several trainings over each other, by step, as ``charts.js`` draws them.

    Args:
        names: of the trainings, for the legend.
        trainings: the metrics of each, in the order of their steps.

    Returns:
        key of the title in the catalogue -> chart.
    """
    thin = [thinned(rows) if rows else [] for rows in trainings]
    compared = (*_CURVES, *_OF_SAMPLES) if all_online(trainings) else _CURVES
    found = {}
    for curve in (one for one in CURVES if one.name in compared):
        chart = _chart(curve.metrics[0], names, thin)
        if chart is not None:
            found[f"curve.{curve.name}"] = chart
    return found


def _chart(metric: str, names: Sequence[str], trainings: Sequence[Sequence[Row]]) -> dict[str, Any] | None:
    """One metric of all trainings that have it; None where none has."""
    curves = {
        place: {row["step"]: drawn(value) for row in rows if (value := number(row, metric)) is not None}
        for place, rows in enumerate(trainings)
    }
    curves = {place: curve for place, curve in curves.items() if curve}
    if not curves:
        return None
    steps = sorted({step for curve in curves.values() for step in curve})
    series = [
        {"label": names[place], "values": [curve.get(step) for step in steps], "gaps": True}
        for place, curve in curves.items()
    ]
    return {"x": steps, "xText": "js.step", "y": {"format": "number"}, "series": series}
