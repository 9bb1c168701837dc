"""The results of an evaluation: the JSON file and the table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.errors import IncompleteRunError
from engine.records import timestamp
from engine.statistics.paired import Estimate, clustered_mean, paired_difference
from engine.storage.append_log import replace_file
from engine.tasks.traffic.simulation.closed_loop import ClosedLoopResult
from grpo_training.cli.tables import View
from grpo_training.traffic.evaluation.policies import BASELINE, EvaluatedPolicy
from grpo_training.traffic.settings import EvaluateSettings

FORMAT = 2
"""Version of the results' format."""

FIGURES = ("mean_waiting_s", "mean_queue", "mean_travel_s", "throughput", "switches")
_WAITING = "mean_waiting_s"
_SHOWN = {"mean_queue": "queue", "mean_travel_s": "travel s", "throughput": "arrived"}
_NAME_WIDTH = 22


@dataclass(frozen=True)
class FailedRun:
    """A simulation without figures, and why."""

    scenario: str
    policy: str
    seed: int
    reason: str


@dataclass
class EvaluationResults:
    """What the policies did.

    Args:
        runs: finished simulations.
        failed: simulations without figures.
        usage: model -> requests, tokens and cost of this start.
    """

    runs: list[ClosedLoopResult] = field(default_factory=list)
    failed: list[FailedRun] = field(default_factory=list)
    usage: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class PolicyFigures:
    """The estimates of one policy, by figure.

    Args:
        means: over all of its simulations.
        difference_to_max_pressure: paired, over the simulations (scenario and seed) that both have; empty without any.
    """

    means: dict[str, Estimate]
    difference_to_max_pressure: dict[str, Estimate]


def by_policy(runs: Sequence[ClosedLoopResult]) -> dict[str, PolicyFigures]:
    """The figures of each policy.

    The seed is the cluster: the scenarios are taken as given, and an interval says how much the mean over them would
    change with other seeds.
    """
    of_policy: dict[str, dict[tuple[str, int], ClosedLoopResult]] = {}
    for run in runs:
        of_policy.setdefault(run.policy, {})[run.scenario, run.seed] = run
    base = of_policy.get(BASELINE, {})
    found = {}
    for policy, own in of_policy.items():
        means = {figure: clustered_mean(_clusters(own.values(), figure)) for figure in FIGURES}
        common = sorted(own.keys() & base.keys()) if policy != BASELINE else []
        mine, theirs = [own[name] for name in common], [base[name] for name in common]
        differences = {
            figure: paired_difference(_clusters(mine, figure), _clusters(theirs, figure))
            for figure in (FIGURES if common else ())
        }
        found[policy] = PolicyFigures(means, differences)
    return found


def _clusters(runs: Iterable[ClosedLoopResult], figure: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for run in runs:
        found.setdefault(str(run.seed), []).append(run.figures[figure])
    return found


def write(settings: EvaluateSettings, policies: Sequence[EvaluatedPolicy], results: EvaluationResults) -> None:
    """Write the results."""
    report = {
        "format": FORMAT,
        "timestamp": timestamp(),
        "settings": settings.model_dump(mode="json"),
        "policies": {policy.name: policy.name if policy.model is None else policy.model.id for policy in policies},
        "usage": results.usage,
        "total": {policy: asdict(figures) for policy, figures in by_policy(results.runs).items()},
        "failed": [asdict(failure) for failure in results.failed],
        "runs": [asdict(run) for run in results.runs],
    }
    replace_file(settings.output, (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode())


def show(view: View, settings: EvaluateSettings, results: EvaluationResults) -> None:
    """Print the table, at most 100 columns wide, what was asked, and where the results are."""
    scenarios = len({run.scenario for run in results.runs})
    intervals = " (95 % intervals over the seeds)" if settings.seeds > 1 else ""
    view.table(
        f"Closed loop, scenarios: {scenarios}, seeds: {settings.seeds}{intervals}",
        ("policy", "waiting s", f"to {BASELINE}", *_SHOWN.values()),
        [
            (
                policy if len(policy) <= _NAME_WIDTH else "…" + policy[1 - _NAME_WIDTH :],
                _cell(figures.means.get(_WAITING)),
                _cell(figures.difference_to_max_pressure.get(_WAITING), "+"),
                *(_cell(figures.means.get(figure)) for figure in _SHOWN),
            )
            for policy, figures in by_policy(results.runs).items()
        ],
    )
    for name, usage in results.usage.items():
        own = [run for run in results.runs if run.policy == name]
        asked, unreadable = sum(run.decisions for run in own), sum(run.unreadable for run in own)
        cost = "no prices configured" if usage["cost_usd"] is None else f"${usage['cost_usd']:.4f}"
        view.line(
            f"{name}: {asked:,} decisions, {unreadable / max(1, asked):.1%} unreadable (the light switched); "
            f"{usage['requests']:,} requests, {usage['replies_from_journal']:,} replies from the journal, "
            f"{usage['prompt_tokens']:,} tokens in, {usage['completion_tokens']:,} out, {cost}"
        )
    view.line(f"Results: {settings.output}")


def _cell(estimate: Estimate | None, sign: str = "") -> str:
    """A mean and the half width of its interval, with two digits after the point below 10."""
    if estimate is None:
        return "-"
    digits = 2 if abs(estimate.value) < 10 else 1
    text = f"{estimate.value:{sign}.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} ± {(estimate.high - estimate.low) / 2:.{digits}f}"


def check_complete(results: EvaluationResults) -> None:
    """Check that every simulation has figures.

    Raises:
        IncompleteRunError: some failed.
    """
    if not results.failed:
        return
    first, *others = [f"{each.scenario}, {each.policy}, seed {each.seed}: {each.reason}" for each in results.failed]
    raise IncompleteRunError(
        f"{len(results.failed)} of {len(results.failed) + len(results.runs)} simulations failed; "
        "the figures are of the others",
        why=first + (f" (and {len(others)} more)" if others else ""),
        fix="Run the same command again: replies that are in the journal are not asked again.",
    )
