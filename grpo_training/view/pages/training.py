"""The page of a training: held-out figures first, then curves, and completions over time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.storage.lines import LineReader
from grpo_training.view.data.runs import Store
from grpo_training.view.pages.rollout_view import cut
from grpo_training.view.series import Row, matching, number, short, shown, stages, thinned
from grpo_training.view.web.page import CHART_SCRIPTS, CHART_STYLES, Page, Request

METRICS, CONFIG, SAMPLES = "metrics.jsonl", "config.yaml", "samples.jsonl"
_SAMPLE_CHARACTERS = 4000
_MAX_PROBLEMS, _MAX_STEPS = 12, 8
_LAST_STEP = 10**15
_STORED = {"title": "Reward of the stored rollouts", "note": "says nothing of the model that is trained"}
_OFFLINE_STAGES = ("rce", "early", "late", "sft")


CURVES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "held_out": (
        "Held-out groups",
        "estimated reward of a fresh reply, and that of the initial model",
        ("validation/reward", "validation/reward_start"),
    ),
    "held_out_loss": ("Held-out loss", "supervised training", ("validation/loss",)),
    "reward": ("Reward", "mean, and ± its standard deviation", ("reward",)),
    "pass_rate": ("Pass rate", "share of right completions", ("pass_rate",)),
    "components": ("Reward components", "means", ("rewards/*/mean",)),
    "kl": ("KL", "nats per token", ("kl", "validation/kl")),
    "beta": ("Beta", "weight of the KL term", ("beta",)),
    "loss": ("Loss", "terms before their weights", ("loss", "loss/*")),
    "clipped": (
        "Clipped",
        "shares of the tokens",
        ("clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean", "cispo_clip_ratio"),
    ),
    "no_spread": ("Groups without spread", "they teach nothing; near 1 nothing is learned", ("frac_reward_zero_std",)),
    "length": ("Completion length", "tokens", ("completions/mean_length",)),
    "truncated": ("Truncated completions", "share", ("completions/clipped_ratio",)),
    "entropy": ("Entropy", "nats per token; near 0 the policy no longer explores", ("entropy",)),
    "format": ("Form of the replies", "shares of the completions", ("format/*",)),
    "agreement": ("Agreement", "with other decisions", ("agreement/*",)),
    "regret": ("Regret", "", ("regret",)),
    "faults": ("Faults", "", ("faults/*", "old_logps_missing")),
    "speed": ("Speed", "tokens per second", ("tokens_per_s",)),
    "learning_rate": ("Learning rate", "", ("learning_rate",)),
    "gradient": ("Gradient norm", "before clipping", ("grad_norm",)),
}
"""Chart -> title, note, and metrics; one ``*`` in the name of a metric matches any text."""
_BANDS = {"reward": "reward_std"}
"""Metric -> the one that is its standard deviation."""


def training_view(folder: Path) -> dict[str, Any]:
    """The view of a run directory; without metrics, a view without curves.

    ``stages`` has name, first and last step of each; ``held_out`` the last estimate of the reward of fresh replies to
    held-out problems, and that of the initial model.
    """
    rows = sorted((row for row in _json_lines(folder / METRICS) if _has_step(row)), key=lambda row: row["step"])
    config = folder / CONFIG
    settings = config.read_text(encoding="utf-8", errors="replace") if config.is_file() else ""
    return {
        "name": folder.name,
        "steps": rows[-1]["step"] if rows else 0,
        "stages": [
            (name or "training", rows[start]["step"], rows[end - 1]["step"]) for start, end, name in stages(rows)
        ],
        "held_out": _held_out(rows),
        "charts": charts_of(rows),
        "problems": samples_over_time(_json_lines(folder / SAMPLES)),
        "settings": cut(settings),
    }


def charts_of(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """The charts that have a value, held-out figures first.

    Offline, the reward is that of the stored rollouts and says nothing of the model: it has another title, and is last.
    """
    points = thinned(rows) if rows else []
    charts = {
        name: {"title": title, "note": note} | chart
        for name, (title, note, metrics) in CURVES.items()
        if (chart := chart_of(metrics, points)) is not None
    }
    if "reward" in charts and offline(rows):
        charts["reward_stored"] = charts.pop("reward") | _STORED
    return charts


def offline(rows: Sequence[Row]) -> bool:
    """Whether these are the metrics of a training from stored rollouts."""
    return any(row.get("stage") in _OFFLINE_STAGES for row in rows)


def chart_of(metrics: Sequence[str], points: Sequence[Row]) -> dict[str, Any] | None:
    """What ``charts.js`` draws of some metrics; None where none of them has a value."""
    names = [name for name in matching(metrics, points) if name != "step"]
    rows = [row for row in points if any(number(row, name) is not None for name in names)]
    if not rows:
        return None
    series = []
    for name in names:
        values = [number(row, name) for row in rows]
        curve: dict[str, Any] = {"label": short(name), "values": values, "gaps": values.count(None) * 2 > len(values)}
        if name in _BANDS:
            spreads = [number(row, _BANDS[name]) for row in rows]
            pairs = list(zip(values, spreads, strict=True))
            curve["low"] = [None if value is None or spread is None else value - spread for value, spread in pairs]
            curve["high"] = [None if value is None or spread is None else value + spread for value, spread in pairs]
        series.append(curve)
    return {"x": [row["step"] for row in rows], "xText": "step", "y": {"format": "number"}, "series": series}


def samples_over_time(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The completions of each problem in order of their steps; of many steps, the first, the last and some between."""
    by_problem: dict[str, list[Row]] = {}
    for row in rows:
        if _has_step(row):
            by_problem.setdefault(str(row.get("problem_id") or row.get("problem") or ""), []).append(row)
    problems = []
    for rows_of_problem in list(by_problem.values())[:_MAX_PROBLEMS]:
        rows_of_problem.sort(key=lambda row: row["step"])
        last = len(rows_of_problem) - 1
        indices = sorted({round(step * last / (_MAX_STEPS - 1)) for step in range(_MAX_STEPS)})
        text, answer = str(rows_of_problem[0].get("problem", "")), str(rows_of_problem[0].get("answer", ""))
        samples = [_sample(rows_of_problem[index]) for index in indices]
        problems.append({"problem": cut(text, _SAMPLE_CHARACTERS), "answer": cut(answer, 500), "samples": samples})
    return problems


def _sample(row: Row) -> dict[str, Any]:
    reward, correct = number(row, "reward"), row.get("is_correct")
    return {
        "step": row["step"],
        "verdict": "right" if correct is True else "wrong" if correct is False else "unchecked",
        "reward": "" if reward is None else shown(reward),
        "completion": cut(str(row.get("completion", "")), _SAMPLE_CHARACTERS),
    }


def _held_out(rows: Sequence[Row]) -> dict[str, float] | None:
    initial = [value for row in rows if (value := number(row, "validation/reward_start")) is not None]
    trained = [value for row in rows if (value := number(row, "validation/reward")) is not None]
    if not (initial and trained):
        return None
    return {"initial": initial[-1], "trained": trained[-1], "change": trained[-1] - initial[-1]}


def _has_step(row: Row) -> bool:
    step = row.get("step")
    return type(step) is int and 0 <= step <= _LAST_STEP


def _json_lines(path: Path) -> list[Row]:
    """The objects of a file. A line that is not JSON (an incomplete one after a crash) is skipped."""
    rows = []
    for line in LineReader(path).read(to_the_end=True):
        with contextlib.suppress(ValueError, RecursionError):
            rows.append(json.loads(line.text))
    return [row for row in rows if isinstance(row, dict)]


def build(store: Store, request: Request) -> dict[str, Any]:
    """A training of the store."""
    run = store.run(request.params["run"], "training")
    return {"run": run, "state": run.state(), "training": training_view(run.folder)}


_STYLES = (*CHART_STYLES, "overview.css", "training.css")
PAGE = Page(
    "training",
    "Training",
    "{run}/training.html",
    build,
    kinds=("training",),
    key="c",
    scripts=CHART_SCRIPTS,
    styles=_STYLES,
)
