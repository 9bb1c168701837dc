"""The queues over time: one chart per scenario, one curve per policy, the mean over the demand seeds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from engine.tasks.traffic.simulation.closed_loop import ClosedLoopResult
from grpo_training.view.pages.curves import curves_by_second
from grpo_training.view.series import Row


def queue_curves(results: Sequence[ClosedLoopResult]) -> str:
    """The curves as one HTML file."""
    scenarios = dict.fromkeys(result.scenario for result in results)
    return curves_by_second(
        "Queues over time",
        "halting vehicles at the lights, by simulated second",
        {name: _rows([result for result in results if result.scenario == name]) for name in scenarios},
    )


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
