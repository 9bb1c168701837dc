"""Closed-loop comparison of policies: every policy on every scenario with the same seeds, and a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from engine.errors import InputError
from engine.statistics.paired import Estimate, clustered_mean, paired_difference
from engine.storage.append_log import replace_file
from engine.tasks.traffic.simulation.closed_loop import LOCAL_POLICIES, ClosedLoopResult, run_closed_loop
from engine.tasks.traffic.simulation.process import require_sumo

if TYPE_CHECKING:
    from grpo_training.traffic_control.settings import EvaluateSettings

FIGURES = ("mean_waiting_s", "mean_queue", "mean_travel_s", "throughput", "switches")
_BASELINE = "max-pressure"


def evaluate(settings: EvaluateSettings, folders: Sequence[Path]) -> int:
    """Run all policies, write every run's figures and print the table."""
    require_sumo()
    policies = [name.strip() for name in settings.policy.split(",") if name.strip()]
    unknown = [name for name in policies if name not in LOCAL_POLICIES]
    if unknown or not policies:
        raise InputError(
            f"Unknown policy {unknown[0]!r}" if unknown else "No policy is named",
            fix=f"Choose some of: {', '.join(LOCAL_POLICIES)}.",
        )
    seeds = range(settings.seed, settings.seed + settings.seeds)
    runs = [(folder, policy, seed) for folder in folders for policy in policies for seed in seeds]
    with ThreadPoolExecutor(settings.parallel) as pool:
        jobs = pool.map(lambda run: run_closed_loop(*run, seconds=settings.seconds, limit_s=settings.time_limit), runs)
        results = list(tqdm(jobs, total=len(runs), desc="simulations", unit=""))
    settings.output.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps([asdict(result) for result in results], indent=1) + "\n"
    replace_file(settings.output, text.encode())
    print("\n".join(table(results)))
    print(f"Every run: {settings.output}")
    return 0


def table(results: Sequence[ClosedLoopResult]) -> list[str]:
    """Lines of a table: the mean of each figure per policy with its 95 % interval over scenarios and seeds.

    Runs of one scenario form a cluster. A last column has the difference in waiting time to Max-Pressure, paired by
    scenario and seed.
    """
    policies = list(dict.fromkeys(result.policy for result in results))
    lines = [f"{'policy':13}" + "".join(f"{name:>28}" for name in FIGURES) + f"{'waiting vs ' + _BASELINE:>28}"]
    for policy in policies:
        cells = []
        for name in FIGURES:
            estimate = clustered_mean(_clusters(results, policy, name))
            cells.append(f"{estimate.value:.2f} ({_interval(estimate)})")
        versus = ""
        if _BASELINE in policies and policy != _BASELINE:
            difference = paired_difference(
                _clusters(results, policy, "mean_waiting_s"), _clusters(results, _BASELINE, "mean_waiting_s")
            )
            versus = f"{difference.value:+.2f} ({_interval(difference)})"
        lines.append(f"{policy:13}" + "".join(f"{cell:>28}" for cell in cells) + f"{versus:>28}")
    return lines


def _interval(estimate: Estimate) -> str:
    """The interval; it is unknown for one scenario."""
    if estimate.low is None or estimate.high is None:
        return "one scenario"
    return f"{estimate.low:.1f} to {estimate.high:.1f}"


def _clusters(results: Sequence[ClosedLoopResult], policy: str, figure: str) -> dict[str, list[float]]:
    """A figure of one policy by scenario, in the order of the seeds."""
    clusters: dict[str, list[float]] = {}
    for result in sorted(results, key=lambda result: (result.scenario, result.seed)):
        if result.policy == policy:
            clusters.setdefault(result.scenario, []).append(result.figures[figure])
    return clusters
