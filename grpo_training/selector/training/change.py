"""What a post-training changed: the choices of the selector, and the KL of GRPO."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.selector.choice import choose_shots
from grpo_training.selector.data.embeddings import EmbeddingTable
from grpo_training.selector.data.groups import ShotGroup
from grpo_training.selector.model.pointer import PointerSelector
from grpo_training.selector.settings import TrainSettings
from grpo_training.selector.training.state import TrainingState

_BEAM = 5
_FEW = 0.05
"""Share of queries; with fewer other choices a training is said to have changed little."""


def best_choices(
    model: PointerSelector, groups: Sequence[ShotGroup], table: EmbeddingTable, shots: int
) -> list[list[int]]:
    """The shots that the selector chooses for each query."""
    model.eval()
    return [found[0][0] for found in choose_shots(model, groups, table, shots, _BEAM)]


def change_lines(
    before: Sequence[Sequence[int]], after: Sequence[Sequence[int]], progress: TrainingState, settings: TrainSettings
) -> list[str]:
    """Lines for the end of a post-training: choices, KL, and a warning if it changed little.

    Args:
        before, after: shots of each query.
        progress: of the training.
        settings: of the training.
    """
    changed = sum(list(one) != list(other) for one, other in zip(before, after, strict=True))
    lines = [f"choices           {changed} of {len(after)} queries have other shots than before"]
    found = progress.kl_of_epochs
    if found:
        means = ", ".join(f"{kl:.4f}" for kl in found)
        target = f"{settings.kl_target_min:g} to {settings.kl_target_max:g}"
        lines.append(f"KL of GRPO        {means} in its epochs (target {target}), last tau {progress.temperature:.2f}")
    stayed = bool(found) and max(found) < settings.kl_target_min
    if stayed:
        lines.append(f"Warning: the KL stayed below {settings.kl_target_min:g}, so GRPO hardly changed the selector.")
    elif changed < _FEW * len(after):
        lines.append("Warning: the training changed almost no choice.")
    if stayed or changed < _FEW * len(after):
        lines.append(
            f"  Raise --grpo-lr ({settings.grpo_lr:g}), --grpo-epochs ({settings.grpo_epochs}) or --rce-epochs "
            f"({settings.rce_epochs}), or use more queries."
        )
    return lines
