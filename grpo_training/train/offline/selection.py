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


def best_checkpoints(found: Sequence[Checkpoint], kl_limit: float) -> dict[str, Checkpoint]:
    """The best checkpoint by each measure; empty without held-out groups.

    ``reward``: the highest estimated reward on the held-out groups. ``kl``: the highest among those within
    ``kl_limit`` of the initial model, or the one nearest to it if none is. The earlier one of equals.
    """
    measured = [checkpoint for checkpoint in found if checkpoint.state.validation is not None]
    if not measured:
        return {}
    near = [checkpoint for checkpoint in measured if _figures(checkpoint).kl <= kl_limit]
    nearest = min(measured, key=lambda checkpoint: _order(_figures(checkpoint).kl))
    return {"reward": max(measured, key=_reward), "kl": max(near, key=_reward) if near else nearest}


def select(found: Sequence[Checkpoint], start: HeldOutFigures | None, *, kl_limit: float, measure: str) -> Selection:
    """Select what is exported.

    A checkpoint qualifies if its KL to the start is at most ``kl_limit`` and its figure on the held-out groups is not
    worse than that of the start by more than chance: the mean of the paired differences, group by group, is not below
    minus their standard error. Those above the start come first. Of them it is the last one, unless an earlier one is
    better by more than chance. (With few held-out groups the figure is noisy, and the last one is the safer choice.) If
    none qualifies, it is the start.

    Args:
        found: the checkpoints in the order of their steps.
        start: figures of the initial model; None without held-out groups: the last checkpoint is exported.
        kl_limit: see above; infinite where the KL says nothing, as in supervised training.
        measure: the name of the figure in messages.
    """
    measured = [checkpoint for checkpoint in found if checkpoint.state.validation is not None]
    if start is None or not measured:
        return Selection(found[-1], "the last checkpoint; no groups are held out, so nothing was measured")
    candidates = (_json(START, 0, start), *(as_json(one) for one in measured))
    near = [checkpoint for checkpoint in measured if _figures(checkpoint).kl <= kl_limit]
    good = [checkpoint for checkpoint in near if not _is_worse(_figures(checkpoint), start)]
    if not good:
        return Selection(None, _why_none(measured, near, start, kl_limit, measure), candidates)
    chosen = _last_unless_chance([one for one in good if _reward(one) > start.reward] or good)
    gain = _reward(chosen) - start.reward
    chance = "" if gain > 0 else ", within chance"
    groups = "1 group" if len(start.rewards) == 1 else f"{len(start.rewards)} groups"
    why = (
        f"{measure} {_reward(chosen):.4g}, {start.reward:.4g} at the start ({gain:+.2g} on {groups}{chance}); "
        f"KL to the start {_figures(chosen).kl:.2g}{_few_samples(_figures(chosen), start)}"
    )
    return Selection(chosen, why, candidates)


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


def _last_unless_chance(better: Sequence[Checkpoint]) -> Checkpoint:
    last, best = better[-1], max(better, key=_reward)
    gains = [high - low for high, low in zip(_figures(best).rewards, _figures(last).rewards, strict=True)]
    if best is last or len(gains) < 2:
        return last
    return best if statistics.fmean(gains) > statistics.stdev(gains) / len(gains) ** 0.5 else last


def _why_none(
    measured: Sequence[Checkpoint], near: Sequence[Checkpoint], start: HeldOutFigures, kl_limit: float, measure: str
) -> str:
    far = len(measured) - len(near)
    parts = []
    if near:
        best = max(near, key=_reward)
        parts.append(
            f"{measure} {start.reward:.4g} at the start; the best checkpoint, {best.folder.name}, has "
            f"{_reward(best):.4g}"
        )
    if far:
        nearest = min(measured, key=lambda checkpoint: _order(_figures(checkpoint).kl))
        limit = f"the KL of {far} of {len(measured)} checkpoints is above max_kl ({kl_limit:g})"
        parts.append(limit if near else f"{limit}; the lowest is {_figures(nearest).kl:.3g}")
    return "; ".join(parts)


def _figures(checkpoint: Checkpoint) -> HeldOutFigures:
    assert checkpoint.state.validation is not None
    return checkpoint.state.validation


def _reward(checkpoint: Checkpoint) -> float:
    return _order(_figures(checkpoint).reward, missing=-math.inf)


def _order(value: float, missing: float = math.inf) -> float:
    """A number to sort by: NaN has no order."""
    return missing if math.isnan(value) else value


def as_json(checkpoint: Checkpoint) -> dict[str, Any]:
    """Name, step and figures of a measured checkpoint; a figure that is not finite is null."""
    return _json(checkpoint.folder.name, checkpoint.state.step, _figures(checkpoint))


def _json(name: str, step: int, figures: HeldOutFigures) -> dict[str, Any]:
    return {
        "checkpoint": name,
        "step": step,
        "reward": _finite(figures.reward),
        "kl": _finite(figures.kl),
        "effective_samples": _finite(figures.effective_samples),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
