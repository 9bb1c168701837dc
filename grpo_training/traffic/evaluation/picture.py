"""A picture of the queues over time: one chart per scenario, one line per policy, the mean over the demand seeds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from grpo_training.view.charts import Chart
from grpo_training.view.picture import picture
from grpo_training.view.series import Row, thinned

if TYPE_CHECKING:
    from engine.tasks.traffic.simulation.closed_loop import ClosedLoopResult


def queue_picture(results: Sequence[ClosedLoopResult]) -> str:
    """The picture as the text of an SVG file."""
    charts = []
    for scenario in dict.fromkeys(result.scenario for result in results):
        own = [result for result in results if result.scenario == scenario]
        policies = tuple(dict.fromkeys(result.policy for result in own))
        chart = Chart(scenario, policies, note="halting vehicles at the lights, by simulated second", axis="second")
        charts.append((chart, thinned(_rows(own))))
    return picture("Queues over time", charts)


def _rows(results: Sequence[ClosedLoopResult]) -> list[Row]:
    """Simulated second -> the mean queue of each policy over the simulations that were running then."""
    queues: dict[int, dict[str, list[int]]] = {}
    for result in results:
        for time, queue in result.curve:
            queues.setdefault(int(time), {}).setdefault(result.policy, []).append(queue)
    return [
        {"step": second, **{policy: fmean(values) for policy, values in queues[second].items()}}
        for second in sorted(queues)
    ]
