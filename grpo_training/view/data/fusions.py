"""The index of a critic's fusions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.records import Completion, Fusion
from engine.storage.lines import Line
from engine.storage.rollout_store import decode_line
from grpo_training.view.data.file_index import FileIndex, Summary


class FusionSummary(Summary, frozen=True, kw_only=True):
    """What the list of fusions needs of one.

    Args:
        prompt_tokens, completion_tokens, cost_usd, latency_s: of its completion; None for the price without prices.
        added: ``r_fusion`` - 0.5, half the mean lead over the best input and over the majority; None if not measured.
    """

    problem: str
    generator: str
    is_correct: bool | None
    answer: str
    total: float | None
    added: float | None
    merged: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    latency_s: float = 0.0

    @property
    def key(self) -> Hashable:
        """A fusion is found by its generator too."""
        return self.problem_id, self.epoch, self.generator


class FusionIndex(FileIndex[FusionSummary, Fusion]):
    """The fusions of one file, by problem, epoch and generator."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, Fusion)

    def _summarise(self, line: Line, start: int, end: int) -> FusionSummary:
        return summarise_fusion(decode_line(line, Fusion), line.number, start, end)


def summarise_fusion(fusion: Fusion, line: int, start: int, end: int) -> FusionSummary:
    """The summary of a fusion."""
    added, completion = fusion.rewards.r_fusion, fusion.completion or Completion(text="")
    return FusionSummary(
        line=line,
        start=start,
        end=end,
        problem_id=fusion.problem_id,
        problem=fusion.problem_text[:200],
        epoch=fusion.epoch,
        step=fusion.step,
        generator=fusion.generator_id,
        is_correct=fusion.is_correct,
        answer=(fusion.final_answer or "")[:120],
        total=fusion.rewards.r_total,
        added=None if added is None else added - 0.5,
        merged=fusion.merged or "",
        prompt_tokens=completion.usage.prompt_tokens,
        completion_tokens=completion.usage.completion_tokens,
        cost_usd=completion.usage.cost_usd,
        latency_s=completion.latency_s,
        complete=fusion.outcome.carries_reward,
    )


@dataclass(frozen=True)
class FusionFigures:
    """Sums over fusions: the price is None without prices, and ``slowest_s`` is the longest latency."""

    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    mean_s: float | None
    slowest_s: float | None


def fusion_figures(fusions: Sequence[FusionSummary]) -> FusionFigures:
    """What the critic's requests used. A fusion without a request, which needed no model, counts as nothing."""
    costs = [one.cost_usd for one in fusions if one.cost_usd is not None]
    times = [one.latency_s for one in fusions if one.latency_s > 0]
    return FusionFigures(
        prompt_tokens=sum(one.prompt_tokens for one in fusions),
        completion_tokens=sum(one.completion_tokens for one in fusions),
        cost_usd=sum(costs) if costs else None,
        mean_s=sum(times) / len(times) if times else None,
        slowest_s=max(times, default=None),
    )
