"""The index of a critic's fusions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.records import Fusion
from engine.storage.indexed_log import IndexedLog
from engine.storage.summaries import FusionSummary, summarise_fusion
from grpo_training.view.data.file_index import FileIndex


class FusionIndex(FileIndex[FusionSummary, Fusion]):
    """The fusions of one file, by problem, epoch and generator."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, Fusion, IndexedLog(path, FusionSummary, summarise_fusion))


@dataclass(frozen=True)
class FusionFigures:
    """Figures of fusions: the price is None without prices, and ``slowest_s`` is the longest latency.

    Args:
        count: of all.
        right, checked: of those that were judged.
        reward: the mean of the totals.
    """

    count: int
    right: int
    checked: int
    reward: float | None
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    mean_s: float | None
    slowest_s: float | None


def fusion_figures(fusions: Sequence[FusionSummary]) -> FusionFigures:
    """Verdicts, mean reward and what the requests used. A fusion that needed no model has no request."""
    totals = [one.total for one in fusions if one.total is not None]
    costs = [one.cost_usd for one in fusions if one.cost_usd is not None]
    times = [one.latency_s for one in fusions if one.latency_s > 0]
    return FusionFigures(
        count=len(fusions),
        right=sum(one.is_correct is True for one in fusions),
        checked=sum(one.is_correct is not None for one in fusions),
        reward=sum(totals) / len(totals) if totals else None,
        prompt_tokens=sum(one.prompt_tokens for one in fusions),
        completion_tokens=sum(one.completion_tokens for one in fusions),
        cost_usd=sum(costs) if costs else None,
        mean_s=sum(times) / len(times) if times else None,
        slowest_s=max(times, default=None),
    )
