"""The results of an evaluation: the JSON file, the curves beside it, and the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import IncompleteRunError
from engine.records import timestamp
from engine.storage.append_log import replace_file
from engine.tasks.traffic.rows import TrafficRow
from engine.tasks.traffic.simulation.closed_loop import ClosedLoopResult
from grpo_training.cli.tables import View
from grpo_training.traffic.evaluation.figures import (
    by_policy,
    by_scenario,
    of_stored_rows,
    over_scenarios,
    rows_by_scenario,
)
from grpo_training.traffic.evaluation.policies import EvaluatedPolicy
from grpo_training.traffic.evaluation.queue_curves import queue_curves
from grpo_training.traffic.evaluation.simulations import FailedRun
from grpo_training.traffic.evaluation.stored_rows import RowResult, share_of_ties
from grpo_training.traffic.evaluation.tables import show_closed_loop, show_stored_rows
from grpo_training.traffic.settings import EvaluateSettings

FORMAT = 1
"""Version of the results' format."""


@dataclass
class EvaluationResults:
    """What the policies did.

    Args:
        runs: finished simulations.
        failed: simulations without figures.
        rows: policy -> its results on stored decisions.
        left_out: policy -> why some stored decisions have no result.
        usage: model -> requests, tokens and cost of this start.
    """

    runs: list[ClosedLoopResult] = field(default_factory=list)
    failed: list[FailedRun] = field(default_factory=list)
    rows: dict[str, list[RowResult]] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    usage: dict[str, dict[str, Any]] = field(default_factory=dict)


def write_report(
    settings: EvaluateSettings,
    policies: Sequence[EvaluatedPolicy],
    rows: Sequence[TrafficRow],
    results: EvaluationResults,
) -> None:
    """Write the results and the curves."""
    report: dict[str, Any] = {
        "format": FORMAT,
        "timestamp": timestamp(),
        "settings": settings.model_dump(mode="json"),
        "policies": {policy.name: policy.id for policy in policies},
        "usage": results.usage,
    }
    if results.runs or results.failed:
        report["closed_loop"] = {
            "total": _json(by_policy(results.runs)),
            "over_scenarios": _json(over_scenarios(results.runs)),
            "scenarios": {name: _json(each) for name, each in by_scenario(results.runs).items()},
            "failed": [asdict(failure) for failure in results.failed],
            "runs": [asdict(run) for run in results.runs],
        }
    if rows:
        report["stored_decisions"] = {
            "decisions": len(rows),
            "horizon": rows[0].horizon,
            "ties": share_of_ties(rows),
            "total": _json(of_stored_rows(results.rows)),
            "scenarios": {name: _json(each) for name, each in rows_by_scenario(results.rows).items()},
            "left_out": {name: len(faults) for name, faults in results.left_out.items()},
        }
    replace_file(settings.output, (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode())
    if results.runs:
        replace_file(_curves_path(settings), queue_curves(results.runs).encode())


def _json(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {policy: each.to_json() for policy, each in figures.items()}


def _curves_path(settings: EvaluateSettings) -> Path:
    return settings.output.with_suffix(".html")


def show_report(view: View, settings: EvaluateSettings, rows: Sequence[TrafficRow], results: EvaluationResults) -> None:
    """Print the tables, what was asked, and where the files are."""
    if results.runs:
        show_closed_loop(view, by_policy(results.runs), by_scenario(results.runs), settings.seeds)
    if rows:
        described = (
            f"Stored decisions: {len(rows)}, horizon {rows[0].horizon} s, {share_of_ties(rows):.1%} ties; "
            "regret in halting vehicles"
        )
        show_stored_rows(view, of_stored_rows(results.rows), rows_by_scenario(results.rows), described)
    for name in dict.fromkeys(run.policy for run in results.runs if run.decisions):
        own = [run for run in results.runs if run.policy == name]
        asked, unreadable = sum(run.decisions for run in own), sum(run.unreadable for run in own)
        view.line(f"{name}: {asked:,} decisions, {unreadable / asked:.1%} unreadable (the light switched)")
    for name, usage in results.usage.items():
        cost = "no prices configured" if usage["cost_usd"] is None else f"${usage['cost_usd']:.4f}"
        view.line(
            f"{name}: {usage['requests']:,} requests, {usage['replies_from_journal']:,} replies from the journal, "
            f"{usage['prompt_tokens']:,} tokens in, {usage['completion_tokens']:,} out, {cost}"
        )
    view.line(f"Results: {settings.output}")
    if results.runs:
        view.line(f"Queues over time: {_curves_path(settings)}")


def check_complete(results: EvaluationResults) -> None:
    """Check that every simulation and every decision has figures.

    Raises:
        IncompleteRunError: some failed.
    """
    rows = sum(map(len, results.left_out.values()))
    if not results.failed and not rows:
        return
    reasons = [
        *(f"{each.scenario}, {each.policy}, seed {each.seed}: {each.reason}" for each in results.failed),
        *(f"{name}: {faults[0]}" for name, faults in results.left_out.items()),
    ]
    asked = rows + sum(len(results.rows.get(name, ())) for name in results.left_out)
    parts = [
        *(
            [f"{len(results.failed)} of {len(results.failed) + len(results.runs)} simulations"]
            if results.failed
            else []
        ),
        *([f"{rows} of {asked} stored decisions"] if rows else []),
    ]
    raise IncompleteRunError(
        f"{' and '.join(parts)} failed; the figures are of the others",
        why=reasons[0] + (f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""),
        fix="Run the same command again: it repeats only what is missing.",
    )
