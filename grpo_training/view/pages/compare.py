"""Two or more runs side by side: the settings that differ, and figures with paired intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from engine.statistics.paired import Clusters, Estimate, paired_difference
from engine.storage.summaries import GroupSummary
from grpo_training.view.data.file_index import NotFoundError
from grpo_training.view.data.moving import moving_mean, positions, window_for
from grpo_training.view.data.runs import Run, Store
from grpo_training.view.pages import compare_trainings
from grpo_training.view.pages.measures import (
    MEASURES,
    POINTS,
    Measure,
    Shown,
    by_problem,
    chart_of,
    component,
    mean_of,
    rounded,
)
from grpo_training.view.pages.training import METRICS, read_metrics, training_ends
from grpo_training.view.web.page import CHART_SCRIPTS, CHART_STYLES, Page, Params, Request

SEPARATOR = "~"
_MOST = 8
_MOST_EXPORTED = 66
"""All pairs of 12 runs."""
_TEXT = 400
_CURVES = ("accuracy", "reward", "sigma", "triggered", "tokens")


@dataclass(frozen=True)
class Cell:
    """One figure of one run, and its difference from the first run over the problems that both have."""

    mean: Estimate | None
    difference: Estimate | None


@dataclass(frozen=True)
class Row:
    """One figure of all runs: ``name`` is a key of the catalogue or a component."""

    name: str
    shown: Shown
    is_component: bool
    cells: list[Cell]


def build(store: Store, request: Request) -> dict[str, Any]:
    """The comparison of the runs whose ids the path has."""
    names = list(dict.fromkeys(request.params["runs"].split(SEPARATOR)))
    if not 2 <= len(names) <= _MOST:
        raise NotFoundError(f"A comparison is of 2 to {_MOST} runs")
    runs = [store.run(name) for name in names]
    groups = [_groups(store, run, request) for run in runs]
    problems = [{group.problem_id for group in found} for found in groups]
    configurations = [run.configuration() for run in runs]
    trainings = [run for run in runs if run.kind == "training"]
    metrics = [read_metrics(run.folder / METRICS) for run in trainings]
    ends = [training_ends(run.folder, rows) for run, rows in zip(trainings, metrics, strict=True)]
    charts, window = curves([run_name(run) for run in runs], groups)
    return {
        "runs": runs,
        "settings": differing(configurations),
        "has_settings": any(configurations),
        "rows": figures(groups),
        "trainings": trainings,
        "ends": compare_trainings.end_rows(ends, online=compare_trainings.all_online(metrics)) if any(metrics) else [],
        "charts": charts | compare_trainings.charts([run_name(run) for run in trainings], metrics),
        "window": window if charts else None,
        "common": [len(problems[0] & other) for other in problems],
        "problems": [len(one) for one in problems],
    }


def figures(groups: Sequence[Sequence[GroupSummary]]) -> list[Row]:
    """The figures of several runs; those that no run has are left out."""
    components = dict.fromkeys(name for found in groups for group in found for name in group.components)
    measures: list[tuple[str, Shown, Measure]] = [
        ("figures.accuracy", "percent", MEASURES["accuracy"]),
        ("figures.reward", "decimal", MEASURES["reward"]),
        *((name, "decimal", component(name)) for name in components),
        ("figures.sigma", "decimal", MEASURES["sigma"]),
        ("figures.triggered", "percent", MEASURES["triggered"]),
        ("compare.tokens", "tenths", MEASURES["tokens"]),
        ("compare.experiences", "tenths", lambda one: float(one.experiences)),
    ]
    rows = []
    for name, shown, measure in measures:
        sides = [by_problem(found, measure) for found in groups]
        if any(sides):
            means = [mean_of(found, measure, shown) for found in groups]
            rows.append(Row(name, shown, name in components, _cells(means, sides)))
    return rows


def run_name(run: Run) -> str:
    """The name of a run in a legend; a training has the name of its folder."""
    return run.name if run.shown_folder == run.name else f"{run.shown_folder} {run.name}"


def curves(names: Sequence[str], groups: Sequence[Sequence[GroupSummary]]) -> tuple[dict[str, dict[str, Any]], int]:
    """The curves of several runs over each other, by the number of the group, as ``charts.js`` draws them.

    Returns:
        key of the title in the catalogue -> chart, and the window of the moving means: that of the shortest run, so
        that all of them are as smooth.
    """
    longest = max(map(len, groups), default=0)
    window = window_for(min(filter(None, map(len, groups)), default=0))
    at = positions(longest, POINTS)
    charts = {}
    for key in _CURVES:
        series = [
            {"label": name, "values": _curve([MEASURES[key](one) for one in found], window, at)}
            for name, found in zip(names, groups, strict=True)
            if found
        ]
        if (chart := chart_of(key, at, series)) is not None:
            charts[f"chart.{key}"] = chart
    return charts, window


def _curve(values: Sequence[float | None], window: int, at: Sequence[int]) -> list[float | None]:
    """The moving mean at some positions; None where the run has ended."""
    inside = [place for place in at if place < len(values)]
    found = moving_mean(values, window, inside).values
    return rounded(found) + [None] * (len(at) - len(inside))


def _cells(means: Sequence[Estimate | None], sides: Sequence[Clusters]) -> list[Cell]:
    first = sides[0]
    return [
        Cell(mean, paired_difference(side, first) if place and side.keys() & first.keys() else None)
        for place, (mean, side) in enumerate(zip(means, sides, strict=True))
    ]


def differing(configurations: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """The settings and facts whose values are not the same everywhere, as texts; ``–`` where one is absent."""
    names = dict.fromkeys(name for one in configurations for name in one)
    rows = [(name, [str(one[name])[:_TEXT] if name in one else "–" for one in configurations]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _groups(store: Store, run: Run, request: Request) -> list[GroupSummary]:
    """The complete groups of a generator; none of another kind of run."""
    if run.kind != "generator":
        return []
    index = store.index(run).update(request.budget_s)
    return [group for group in index.current() if group.is_scored]


def pairs(store: Store, request: Request) -> Iterable[Params]:
    """For an export: all pairs of runs of one kind."""
    runs = store.runs
    found = [(one, other) for one, other in combinations(runs, 2) if one.kind == other.kind]
    return [{"runs": f"{one.id}{SEPARATOR}{other.id}"} for one, other in found[:_MOST_EXPORTED]]


_STYLES = (*CHART_STYLES, "runs.css")
PAGE = Page("compare", "compare/{runs}.html", build, pairs, scripts=CHART_SCRIPTS, styles=_STYLES)
