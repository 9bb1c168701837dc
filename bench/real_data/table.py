"""The results as a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.real_data.proxy import LEARN, USE
from engine.statistics.paired import Estimate, clustered_mean, paired_difference

_NONE = "none"
_HEAD = (
    *("arm", "seeds", "right %", "against none (95 %)", "rollouts", "learning: tokens in / out", "seconds"),
    *("test: tokens in / out", "seconds", "learned", "gate"),
)
_VERDICT_HEAD = ("arm", "its own test", "results", "mean difference to none (95 %)", "interval above 0", "below 0")
_ANY = "any verdict"
Result = Mapping[str, Any]


def read_results(output: Path) -> list[Result]:
    """The results in a folder."""
    return [
        json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(output.glob("*/*/*.json"))
        if path.stem.isdecimal()
    ]


def tables(results: Iterable[Result], order: Sequence[str]) -> str:
    """A table for each data set, in Markdown.

    Args:
        results: of all jobs.
        order: names of the arms.
    """
    by_dataset: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        by_dataset.setdefault(result["dataset"], {}).setdefault(result["arm"], []).append(result)
    parts = []
    for dataset, arms in by_dataset.items():
        names = [name for name in order if name in arms]
        rows = [_HEAD, ["---"] * len(_HEAD), *([name, *cells(arms[name], arms.get(_NONE, ()))] for name in names)]
        parts.append("\n".join([f"### {dataset}", "", *("| " + " | ".join(row) + " |" for row in rows)]))
    return "\n\n".join(parts)


def verdict_table(results: Iterable[Result], order: Sequence[str]) -> str:
    """What the tests of the arms said, beside the differences to none on the problems of the benchmark, in Markdown.

    A mean is that of data sets and seeds, each of which is one observation; empty if no arm has a verdict.

    Args:
        results: of all jobs.
        order: names of the arms.
    """
    by_job = {(result["arm"], result["dataset"], result["seed"]): result for result in results}
    differences: dict[tuple[str, str], list[Estimate]] = {}
    for (arm, dataset, seed), result in by_job.items():
        none = by_job.get((_NONE, dataset, seed))
        if result["verdict"] and none is not None:
            difference = paired_difference(verdicts([result]), verdicts([none]))
            for verdict in (result["verdict"], _ANY):
                differences.setdefault((arm, verdict), []).append(difference)
    if not differences:
        return ""
    rows = [_VERDICT_HEAD, ["---"] * len(_VERDICT_HEAD)]
    for arm, verdict in sorted(differences, key=lambda row: (order.index(row[0]), row[1] == _ANY, row[1])):
        of_verdict = differences[arm, verdict]
        mean = clustered_mean({str(number): [estimate.value] for number, estimate in enumerate(of_verdict)})
        above = sum(estimate.low is not None and estimate.low > 0 for estimate in of_verdict)
        below = sum(estimate.high is not None and estimate.high < 0 for estimate in of_verdict)
        rows.append([arm, verdict, str(len(of_verdict)), signed(mean), str(above), str(below)])
    return "\n".join(["### Verdicts", "", *("| " + " | ".join(row) + " |" for row in rows)])


def cells(results: Sequence[Result], none: Sequence[Result]) -> list[str]:
    """The cells of an arm on a data set: means over its seeds; a difference is that of the seeds that both have."""
    seeds = {result["seed"] for result in results}
    paired = seeds & {result["seed"] for result in none}
    difference = ""
    if paired and results[0]["arm"] != _NONE:
        of_arm, of_none = (verdicts(result for result in side if result["seed"] in paired) for side in (results, none))
        difference = signed(paired_difference(of_arm, of_none))
    verdict = ", ".join(
        f"{name} {count}" for name, count in Counter(result["verdict"] for result in results).items() if name
    )
    return [
        str(len(seeds)),
        f"{100 * clustered_mean(verdicts(results)).value:.1f}",
        difference,
        _mean(results, LEARN, "rollouts"),
        f"{_mean(results, LEARN, 'prompt_tokens')} / {_mean(results, LEARN, 'completion_tokens')}",
        _mean(results, LEARN, "seconds"),
        f"{_mean(results, USE, 'prompt_tokens')} / {_mean(results, USE, 'completion_tokens')}",
        _mean(results, USE, "seconds"),
        ", ".join(dict.fromkeys(result["library"] for result in results)),
        verdict,
    ]


def verdicts(results: Iterable[Result]) -> dict[str, list[float]]:
    """1 for a right answer and else 0, by problem: the answers of all seeds to a problem are one cluster."""
    joined: dict[str, list[float]] = {}
    for result in results:
        for name, right in result["right"].items():
            joined.setdefault(name, []).extend(map(float, right))
    return joined


def signed(estimate: Estimate) -> str:
    """A difference in percentage points, with its interval if there is one."""
    value = f"{100 * (estimate.value or 0.0):+.1f}"
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} ({100 * estimate.low:+.1f} to {100 * estimate.high:+.1f})"


def _mean(results: Sequence[Result], phase: str, key: str) -> str:
    return f"{fmean(result[phase][key] for result in results):,.0f}"
