"""The tables of an evaluation, and how estimates are written in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from engine.statistics.paired import Estimate
from grpo_training.evaluate.arms import ProblemResult
from grpo_training.evaluate.figures import Figures, differences, figures

if TYPE_CHECKING:
    from grpo_training.cli.tables import View

_RULE = "=" * 50
_NONE = "-"


def show_models(view: View, models: Mapping[str, Sequence[ProblemResult]], k_values: Sequence[int]) -> None:
    """Write the tables of one model, or of a model and its base.

    Args:
        view: writes the tables.
        models: the results by name. The evaluated model is first, its base second.
        k_values: the requested k of pass@k.
    """
    by_model = {name: figures(results, k_values) for name, results in models.items()}
    first = next(iter(by_model.values()))
    view.table(
        f"{first.problems} problems, {first.samples} samples each (95 % intervals, clustered by problem)",
        ("model", "figure", "value", "95 % interval"),
        [row for name, model_figures in by_model.items() for row in _model_rows(name, model_figures)],
    )
    if len(models) > 1:
        (name, after), (base, before) = models.items()
        view.table(
            f"{name} minus {base}, paired over the problems complete in both",
            ("figure", "points", "95 % interval"),
            [(f"pass@{k}", *_points(estimate)) for k, estimate in differences(after, before, k_values).items()],
        )
    for name, model_figures in by_model.items():
        for text in _remarks(model_figures, k_values):
            view.line(f"{name}: {text}")
    for line in pass_at_k_lines(first) if first.pass_at_k else ():
        view.line(line)


def pass_at_k_lines(figures: Figures) -> list[str]:
    """pass@k between rules, such as ``pass@  1: 0.4523 (45.23%)``: the format that other tools print and read."""
    lines = [f"pass@{k:>3}: {rate.value:.4f} ({rate.value:.2%})" for k, rate in figures.pass_at_k.items()]
    return [_RULE, "Pass@k Results:", _RULE, *lines, _RULE]


def _percent(share: Estimate) -> tuple[str, str]:
    """A share in per cent, and its interval, cut off at 0 and 1: a t interval may exceed them."""
    interval = _NONE
    if share.low is not None and share.high is not None:
        interval = f"{max(0.0, share.low):.1%} to {min(1.0, share.high):.1%}"
    return f"{share.value:.1%}", interval


def _points(difference: Estimate) -> tuple[str, str]:
    """A difference of shares in percentage points, and its interval."""
    interval = _NONE
    if difference.low is not None and difference.high is not None:
        interval = f"{100 * difference.low:+z.1f} to {100 * difference.high:+z.1f}"
    return f"{100 * difference.value:+z.1f} points", interval


def _model_rows(name: str, sampled: Figures) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [(name, f"pass@{k}", *_percent(rate)) for k, rate in sampled.pass_at_k.items()]
    if sampled.mean_at_n is not None:
        rows.append((name, f"mean@{sampled.samples}", *_percent(sampled.mean_at_n)))
    if sampled.again is not None:
        rows.append((name, "even minus odd samples (A/A)", *_points(sampled.again)))
    return rows


def _remarks(figures: Figures, k_values: Sequence[int]) -> list[str]:
    remarks = []
    if figures.left_out:
        remarks.append(
            f"{len(figures.left_out)} problems are left out because some of their samples could not be drawn or "
            f"judged; they count neither as right nor as wrong ({', '.join(figures.left_out[:3])}"
            f"{' ...' if len(figures.left_out) > 3 else ''})"
        )
    missing = sorted(set(k_values) - figures.pass_at_k.keys())
    if missing and figures.problems:
        names = ", ".join(f"pass@{k}" for k in missing)
        remarks.append(f"{names} cannot be estimated from {figures.samples} samples per problem (--num-samples)")
    if figures.truncated is not None and figures.unreadable is not None:
        remarks.append(
            f"{figures.truncated:.1%} of the completions reached the token limit, "
            f"{figures.unreadable:.1%} could not be parsed"
        )
    cost = "" if figures.cost_usd is None else f", ${figures.cost_usd:.4f}"
    remarks.append(f"{figures.prompt_tokens:,} prompt tokens, {figures.completion_tokens:,} completion tokens{cost}")
    return remarks
