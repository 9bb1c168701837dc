"""The index of a critic's fusions."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from engine.records import Fusion
from engine.storage.lines import Line
from engine.storage.rollout_store import decode_line
from grpo_training.view.data.file_index import FileIndex, Summary


class FusionSummary(Summary, frozen=True, kw_only=True):
    """What the list of fusions needs of one.

    Args:
        added: ``r_fusion`` - 0.5, half the mean lead over the best input and over the majority; None if not measured.
    """

    problem: str
    generator: str
    is_correct: bool | None
    answer: str
    total: float | None
    added: float | None
    merged: str

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
    added = fusion.rewards.r_fusion
    return FusionSummary(
        line=line,
        start=start,
        end=end,
        problem_id=fusion.problem_id,
        problem=fusion.problem_text[:200],
        epoch=fusion.epoch,
        generator=fusion.generator_id,
        is_correct=fusion.is_correct,
        answer=(fusion.final_answer or "")[:120],
        total=fusion.rewards.r_total,
        added=None if added is None else added - 0.5,
        merged=fusion.merged or "",
        complete=fusion.outcome.carries_reward,
    )
