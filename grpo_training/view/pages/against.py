"""The critic against the generators whose scaffolds it fused, problem by problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.statistics.paired import Estimate, clustered_mean, paired_difference
from engine.storage.summaries import FusionSummary, GroupSummary
from grpo_training.view.data.runs import Run, Store
from grpo_training.view.pages.fusions import lines_with_page
from grpo_training.view.web.page import Page, Request

_MAX_LISTED = 1000
_GRID = 20
"""Shares are drawn to a twentieth, so that equal problems are one point."""
_SMALLEST, _LARGEST = 3.0, 14.0


@dataclass
class ProblemRow:
    """One problem over all generators and epochs.

    Args:
        problem_id, text: of the problem.
        generators: shares of right rollouts, one per fused group.
        fusions: 1 for a right fusion, 0 for a wrong one, one per fused group.
        lines: the fusions, as lines of the critic's file.
    """

    problem_id: str
    text: str
    generators: list[float] = field(default_factory=list)
    fusions: list[float] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    @property
    def generator(self) -> float:
        """The mean share of right rollouts."""
        return sum(self.generators) / len(self.generators)

    @property
    def critic(self) -> float:
        """The share of right fusions."""
        return sum(self.fusions) / len(self.fusions)

    @property
    def difference(self) -> float:
        """Share of right fusions minus share of right rollouts."""
        return self.critic - self.generator


@dataclass(frozen=True)
class Point:
    """Problems at one place of the plot: shares from 0 to 1, and the radius."""

    generator: float
    critic: float
    problems: int
    radius: float


def compared(fusions: Sequence[FusionSummary], groups: dict[tuple[str, str, int], GroupSummary]) -> list[ProblemRow]:
    """The problems of judged fusions whose group is known, those with the largest difference first.

    Args:
        fusions: of a critic.
        groups: (generator, problem, epoch) -> the group that was fused.
    """
    rows: dict[str, ProblemRow] = {}
    for fusion in fusions:
        group = groups.get((fusion.generator, fusion.problem_id, fusion.epoch))
        if fusion.is_correct is None or group is None or not group.checked:
            continue
        row = rows.setdefault(fusion.problem_id, ProblemRow(fusion.problem_id, fusion.problem))
        row.generators.append(group.right / group.checked)
        row.fusions.append(float(fusion.is_correct))
        row.lines.append(fusion.line)
    return sorted(rows.values(), key=lambda row: (-abs(row.difference), row.difference, row.problem_id))


def points(rows: Sequence[ProblemRow]) -> list[Point]:
    """The places of the plot, the largest first, so that no point covers another."""
    places = Counter((round(row.generator * _GRID) / _GRID, round(row.critic * _GRID) / _GRID) for row in rows)
    most = max(places.values(), default=1)
    return [
        Point(x, y, count, _SMALLEST + (_LARGEST - _SMALLEST) * (count / most) ** 0.5)
        for (x, y), count in places.most_common()
    ]


def build(store: Store, request: Request) -> dict[str, Any]:
    """The comparison of a critic's run."""
    run = store.run(request.params["run"], "critic")
    index = store.fusions(run).update(request.budget_s)
    fusions = index.current()
    rows = compared(fusions, _groups(store, request, run))
    critic = {row.problem_id: row.fusions for row in rows}
    generator = {row.problem_id: row.generators for row in rows}
    difference: Estimate | None = paired_difference(critic, generator) if rows else None
    return {
        "run": run,
        "rows": rows[:_MAX_LISTED],
        "left_out": max(0, len(rows) - _MAX_LISTED),
        "count": len(rows),
        "fusions": sum(len(row.fusions) for row in rows),
        "unmatched": len(fusions) - sum(len(row.fusions) for row in rows),
        "points": points(rows),
        "critic": clustered_mean(critic) if rows else None,
        "generator": clustered_mean(generator) if rows else None,
        "difference": difference,
        "better": sum(row.difference > 0 for row in rows),
        "worse": sum(row.difference < 0 for row in rows),
        "with_page": set(lines_with_page(fusions, request)),
        "progress": index.progress(),
    }


def _groups(store: Store, request: Request, run: Run) -> dict[tuple[str, str, int], GroupSummary]:
    """The groups of the generators in the critic's folder."""
    found = {}
    for other in store.beside(run, "generator"):
        for group in store.index(other).update(request.budget_s).current():
            found[other.name, group.problem_id, group.epoch] = group
    return found


_STYLES = ("group.css", "overview.css", "against.css")
PAGE = Page("against", "{run}/against.html", build, kinds=("critic",), key="a", styles=_STYLES)
