"""A page of curves for a training: one HTML file that loads nothing and runs no script.

All text in it (names, prompts, completions) is escaped by the templates, and the content security policy of the page
forbids scripts and requests.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from engine.errors import InputError, MissingInputError
from engine.reading.control_characters import without_control_characters
from engine.storage.append_log import replace_file
from grpo_training.viewer.charts import BOTTOM, COLORS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart, draw
from grpo_training.viewer.series import number, shown, stages, thinned

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grpo_training.viewer.series import Row

METRICS, CONFIG, SAMPLES, PAGE = "metrics.jsonl", "config.yaml", "samples.jsonl", "report.html"
_SAMPLE_CHARACTERS = 4000
_LAST_STEP = 10**15
_OFFLINE_STAGES = ("rce", "early", "late", "sft")
_IN_SUMMARY = (
    *("validation/reward", "validation/loss", "validation/kl", "reward", "pass_rate", "kl"),
    *("completions/mean_length", "tokens_per_s"),
)

CHARTS = (
    Chart(
        "Held-out groups",
        ("validation/reward", "validation/reward_start"),
        note="estimated reward of a fresh reply, and that of the initial model",
    ),
    Chart("Held-out loss", ("validation/loss",), note="supervised training"),
    Chart("Reward", ("reward",), band=("reward", "reward_std"), note="mean, and ± its std"),
    Chart("Pass rate", ("pass_rate",), note="share of correct completions"),
    Chart("Reward components", ("rewards/*/mean",)),
    Chart("KL and beta", ("kl", "validation/kl"), ("beta",), note="nats per token; beta on the right"),
    Chart("Loss", ("loss", "loss/*"), note="terms before their weights"),
    Chart("Weights of the loss terms", ("weight/*",)),
    Chart("Clipped", ("clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean", "cispo_clip_ratio")),
    Chart("Groups without spread", ("frac_reward_zero_std",), note="they teach nothing; near 1 nothing is learned"),
    Chart(
        "Completion length",
        ("completions/mean_length",),
        ("completions/clipped_ratio",),
        note="tokens; share of truncated completions on the right",
    ),
    Chart("Entropy", ("entropy",), note="nats per token; near 0 the policy no longer explores"),
    Chart("Form of the replies", ("format/*",), note="shares of the completions"),
    Chart("Agreement", ("agreement/*",), ("regret",), note="with other decisions; regret on the right"),
    Chart("Faults", ("faults/*", "old_logps_missing")),
    Chart("Speed", ("tokens_per_s",), note="tokens per second"),
    Chart("Learning rate and gradient", ("learning_rate",), ("grad_norm",), note="norm before clipping on the right"),
)

_TEMPLATES = Environment(
    loader=PackageLoader("grpo_training.viewer"), autoescape=True, undefined=StrictUndefined, trim_blocks=False
)
_SIZE = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}


@dataclass(frozen=True)
class SummaryLine:
    """A metric at both ends of a run, as text."""

    name: str
    first: str
    last: str
    change: str


@dataclass(frozen=True)
class SampleCard:
    """A completion as text."""

    problem: str
    completion: str
    verdict: str
    reward: str


def write_page(run_dir: Path) -> Path:
    """Write ``report.html`` of a run from its ``metrics.jsonl`` and, if present, ``config.yaml`` and ``samples.jsonl``.

    Returns:
        the path of the page.

    Raises:
        MissingInputError: the folder has no metrics.
        InputError: the file has no line of metrics.
    """
    path = run_dir / METRICS
    if not path.exists():
        raise MissingInputError(f"No metrics in {run_dir}", fix="Pass the run directory of a training.")
    rows = [row for row in _json_lines(path) if _has_step(row)]
    if not rows:
        raise InputError(f"{path} has no line of metrics", why="The training stopped before its first step.")
    rows.sort(key=lambda row: row["step"])
    config = run_dir / CONFIG
    samples = _json_lines(run_dir / SAMPLES) if (run_dir / SAMPLES).exists() else []
    points = thinned(rows)
    page = _TEMPLATES.get_template("training.html.j2").render(
        name=run_dir.name,
        steps=rows[-1]["step"],
        stages=[name or "training" for _, _, name in stages(rows)],
        summary=_summary(rows),
        drawings=[drawing for chart in charts_of(rows) if (drawing := draw(chart, points)) is not None],
        samples=_first_and_last(samples),
        settings=config.read_text(encoding="utf-8", errors="replace") if config.exists() else "",
        size=_SIZE,
        colors=COLORS,
    )
    # Text of a model may reverse the order of what follows, or be half a surrogate pair, which is no UTF-8.
    replace_file(run_dir / PAGE, without_control_characters(page).encode())
    return run_dir / PAGE


def charts_of(rows: Sequence[Row]) -> list[Chart]:
    """The charts of a run. Offline, the reward is that of the stored rollouts and says nothing of the model."""
    if not any(row.get("stage") in _OFFLINE_STAGES for row in rows):
        return list(CHARTS)
    stored = [replace(chart, title="Reward of the stored rollouts") for chart in CHARTS if chart.title == "Reward"]
    return [chart for chart in CHARTS if chart.title != "Reward"] + stored


def _has_step(row: Row) -> bool:
    step = row.get("step")
    return isinstance(step, int) and 0 <= step <= _LAST_STEP


def _json_lines(path: Path) -> list[Row]:
    """The objects of a file. A line that is not JSON (an incomplete one after a crash) is skipped."""
    found = []
    for line in path.read_bytes().splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def _summary(rows: Sequence[Row]) -> list[SummaryLine]:
    """The means over the first and the last tenth of the run."""
    lines = []
    for name in _IN_SUMMARY:
        values = [value for row in rows if (value := number(row, name)) is not None]
        if values:
            tenth = max(1, len(values) // 10)
            first, last = fmean(values[:tenth]), fmean(values[-tenth:])
            sign = "" if last < first else "+"
            lines.append(SummaryLine(name, shown(first), shown(last), sign + shown(last - first)))
    return lines


def _first_and_last(samples: Sequence[Row]) -> dict[int, list[SampleCard]]:
    """The completions of the first and the last step that has samples."""
    steps = sorted({row["step"] for row in samples if _has_step(row)})
    return {step: [_card(row) for row in samples if row.get("step") == step] for step in (*steps[:1], *steps[-1:])}


def _card(row: Row) -> SampleCard:
    reward, correct = number(row, "reward"), row.get("is_correct")
    return SampleCard(
        problem=str(row.get("problem", ""))[:_SAMPLE_CHARACTERS],
        completion=str(row.get("completion", ""))[:_SAMPLE_CHARACTERS],
        verdict="correct" if correct is True else "wrong" if correct is False else "not checked",
        reward="no reward" if reward is None else f"reward {shown(reward)}",
    )
