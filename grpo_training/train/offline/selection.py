"""Which checkpoint of an offline training is the best, and which one is exported. The start is a candidate too."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_training.train.offline.checkpoints import Checkpoint, HeldOutFigures

START = "start"
"""Name of the initial model among the candidates."""
_NO_CHANGE = 1e-6
_ERROR_OF_ONE_GROUP = 0.01
"""One held-out group has no standard error; a difference up to this counts as chance."""


@dataclass(frozen=True)
class Selection:
    """What is exported.

    Args:
        checkpoint: the exported one; None: the initial model.
        why: the reason, for the user.
        candidates: all that were compared, as JSON values; empty where nothing was measured.
    """

    checkpoint: Checkpoint | None
    why: str
    candidates: tuple[dict[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """The name of the folder, or ``start``."""
        return START if self.checkpoint is None else self.checkpoint.folder.name

    @property
    def helped(self) -> bool:
        """Whether the training gave anything better than the initial model, as far as it was measured."""
        return self.checkpoint is not None


def select(stored: Sequence[Checkpoint], start: HeldOutFigures | None, *, kl_limit: float, measure: str) -> Selection:
    """Select what is exported: the last checkpoint that is near the initial model and not worse, else that model.

    A checkpoint is near if its KL to the start is at most ``kl_limit``. It is worse if its figure on the held-out
    groups is below that of the start by more than chance: the mean of the paired differences, group by group, is below
    minus their standard error. One that changes no figure does not qualify.

    Args:
        stored: the checkpoints in the order of their steps.
        start: figures of the initial model; None without held-out groups: the last checkpoint is exported.
        kl_limit: see above; infinite where the KL says nothing, as in supervised training.
        measure: the name of the figure in messages.
    """
    measured = [(checkpoint, checkpoint.state.validation) for checkpoint in stored if checkpoint.state.validation]
    if start is None or not measured:
        return Selection(stored[-1], "the last checkpoint; no groups are held out, so nothing was measured")
    of_checkpoints = [_as_json(checkpoint.folder.name, checkpoint.state.step, held) for checkpoint, held in measured]
    candidates = (_as_json(START, 0, start), *of_checkpoints)
    for checkpoint, figures in reversed(measured):
        if figures.kl <= kl_limit and not _is_worse(figures, start):
            groups = "1 group" if len(start.rewards) == 1 else f"{len(start.rewards)} groups"
            gain = figures.reward - start.reward
            why = (
                f"{measure} {figures.reward:.4g}, {start.reward:.4g} at the start ({gain:+.2g} on {groups}"
                f"{'' if gain > 0 else ', within chance'}); KL to the start {figures.kl:.2g}"
                f"{_few_samples(figures, start)}"
            )
            return Selection(checkpoint, why, candidates)
    last = measured[-1][1]
    why = f"{measure} {start.reward:.4g} at the start, {last.reward:.4g} at the end; KL to the start {last.kl:.3g}"
    return Selection(None, f"{why}, at most {kl_limit:g} is allowed", candidates)


def _few_samples(figures: HeldOutFigures, start: HeldOutFigures) -> str:
    """What to say about an estimate that rests on less than a third of the responses."""
    if figures.effective_samples >= start.effective_samples / 3:
        return ""
    return (
        f"; the estimate rests on {figures.effective_samples:.1f} of {start.effective_samples:.3g} replies of a group, "
        "too few to tell checkpoints apart: compare them with evaluate"
    )


def _is_worse(figures: HeldOutFigures, start: HeldOutFigures) -> bool:
    """Whether the figures are below those of the start by more than chance, or the same."""
    gains = [now - then for now, then in zip(figures.rewards, start.rewards, strict=True)]
    if not all(math.isfinite(gain) for gain in gains) or max(map(abs, gains)) <= _NO_CHANGE:
        return True
    error = statistics.stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else _ERROR_OF_ONE_GROUP
    return statistics.fmean(gains) < -error


def _as_json(name: str, step: int, figures: HeldOutFigures) -> dict[str, Any]:
    """Name, step and figures of a candidate; a figure that is not finite is null."""
    values = {"reward": figures.reward, "kl": figures.kl, "effective_samples": figures.effective_samples}
    finite = {key: value if math.isfinite(value) else None for key, value in values.items()}
    return {"checkpoint": name, "step": step} | finite
