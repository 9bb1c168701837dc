"""The tables of an evaluation, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.statistics.paired import Estimate
from grpo_training.cli.tables import View
from grpo_training.traffic.evaluation.figures import TRAFFIC_FIGURES, PolicyFigures
from grpo_training.traffic.evaluation.policies import BASELINE

_NAME_WIDTH = 22
_NONE = "-"
_ROW_FIGURES = {
    "regret": "regret",
    "agreement": "agreement",
    "unreadable": "unreadable",
    "zero_variance": "zero variance",
}


def show_closed_loop(
    view: View, total: Mapping[str, PolicyFigures], scenarios: Mapping[str, Mapping[str, PolicyFigures]], seeds: int
) -> None:
    """Write the tables of the simulations.

    Args:
        total: policy -> figures over all scenarios.
        scenarios: scenario -> policy -> figures.
        seeds: demand seeds.
    """
    head = ("policy", *TRAFFIC_FIGURES.values())
    over = f"{len(scenarios)} scenarios x {seeds} demand seeds" if len(scenarios) > 1 else f"{seeds} demand seeds"
    intervals = " (95 % intervals over the seeds)" if seeds > 1 else ""
    view.table(
        f"Closed loop, {over}{intervals}",
        head,
        [(_name(policy), *_cells(each.means, TRAFFIC_FIGURES)) for policy, each in total.items()],
    )
    differing = {policy: each.differences for policy, each in total.items() if each.differences}
    if differing:
        view.table(
            f"Difference to {BASELINE}, paired by scenario and seed",
            head,
            [(_name(policy), *_cells(each, TRAFFIC_FIGURES, "+")) for policy, each in differing.items()],
        )
    if len(scenarios) > 1:
        view.table(
            "By scenario",
            ("scenario", "policy", "waiting s", f"to {BASELINE}", "queue"),
            [
                (
                    _name(scenario),
                    _name(policy),
                    *_cells(each.means, ("mean_waiting_s",)),
                    *_cells(each.differences, ("mean_waiting_s",), "+"),
                    *_cells(each.means, ("mean_queue",)),
                )
                for scenario, policies in scenarios.items()
                for policy, each in policies.items()
            ],
        )


def show_stored_rows(
    view: View,
    total: Mapping[str, PolicyFigures],
    scenarios: Mapping[str, Mapping[str, PolicyFigures]],
    described: str,
) -> None:
    """Write the tables of the stored decisions.

    Args:
        described: how many decisions there are, their horizon, and how many are ties.
    """
    present = [name for name in _ROW_FIGURES if any(name in each.means for each in total.values())]
    view.table(
        described,
        ("policy", *(_ROW_FIGURES[name] for name in present), f"regret to {BASELINE}"),
        [
            (_name(policy), *_row_cells(each.means, present), *_cells(each.differences, ("regret",), "+"))
            for policy, each in total.items()
        ],
    )
    if len(scenarios) > 1:
        view.table(
            "By scenario",
            ("scenario", "policy", "regret", "agreement"),
            [
                (_name(scenario), _name(policy), *_row_cells(each.means, ("regret", "agreement")))
                for scenario, policies in scenarios.items()
                for policy, each in policies.items()
            ],
        )


def _row_cells(estimates: Mapping[str, Estimate], names: Sequence[str]) -> list[str]:
    """The regret in halting vehicles, the others as shares in per cent."""
    return [
        _NONE
        if name not in estimates
        else _cell(estimates[name], "", 1.0)
        if name == "regret"
        else _cell(estimates[name], "", 100.0) + " %"
        for name in names
    ]


def _cells(estimates: Mapping[str, Estimate], names: Sequence[str] | Mapping[str, str], sign: str = "") -> list[str]:
    return [_cell(estimates[name], sign) if name in estimates else _NONE for name in names]


def _cell(estimate: Estimate, sign: str, factor: float = 1.0) -> str:
    """A mean and the half width of its interval, with two digits after the point below 10."""
    value = factor * estimate.value
    digits = 2 if abs(value) < 10 and factor == 1.0 else 1
    text = f"{value:{sign}.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} ± {factor * (estimate.high - estimate.low) / 2:.{digits}f}"


def _name(text: str) -> str:
    return text if len(text) <= _NAME_WIDTH else text[: _NAME_WIDTH - 1] + "…"
