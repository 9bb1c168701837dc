"""The state of a training between two steps, and which epoch's model is the best."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from engine.errors import InputError
from grpo_training.rl_math.schedules import AdaptiveKL
from grpo_training.selector.model.checkpoint import load_plain, save_atomically
from grpo_training.selector.model.pointer import PointerSelector

STATE = "training_state.pt"


@dataclass
class TrainingState:
    """Where a training is.

    Args:
        step: optimizer steps done in all phases.
        phase: number of the phase.
        epoch: completed epochs of the phase.
        batch: completed batches of the present epoch.
        kl: the KL of each batch since ``kl_beta`` was adapted.
        temperature: of the ratios of GRPO.
        old_logps: held-out query -> log-probs of its stored sequences under the policy at the start of the phase.
        best: what counts of the best epoch of the phase; see :func:`is_best`.
    """

    step: int = 0
    phase: int = 0
    epoch: int = 0
    batch: int = 0
    kl: list[float] = field(default_factory=list)
    temperature: float = 1.0
    old_logps: dict[int, torch.Tensor] = field(default_factory=dict)
    best: list[float] = field(default_factory=list)


def save_state(
    folder: Path,
    progress: TrainingState,
    model: PointerSelector,
    old: PointerSelector | None,
    optimizer: torch.optim.Optimizer,
    beta: AdaptiveKL,
) -> None:
    """Write the state atomically; the same command again continues from it. ``old`` is where GRPO began."""
    content: dict[str, Any] = {
        "progress": dict(vars(progress)),
        "model": model.state_dict(),
        "old": None if old is None else old.state_dict(),
        "optimizer": optimizer.state_dict(),
        "beta": {"beta": beta.beta},
    }
    save_atomically(folder / STATE, content)


def load_state(folder: Path) -> dict[str, Any] | None:
    """The stored state, with its :class:`TrainingState`; None if there is none.

    Raises:
        InputError: it cannot be read.
    """
    if not (folder / STATE).exists():
        return None
    content = load_plain(folder / STATE)
    try:
        return content | {"progress": TrainingState(**content["progress"]), "old": content["old"]}
    except (KeyError, TypeError) as error:
        raise InputError(f"Cannot read {folder / STATE}", why=str(error), fix="Start over with --fresh.") from None


def is_best(name: str, figures: dict[str, float], best: list[float], kl_limit: float) -> bool:
    """Whether an epoch is the best of its phase so far; ``best`` is updated.

    Of SFT the lowest loss counts; of RCE the highest reward; of GRPO the highest reward among the epochs within
    ``kl_limit`` of the policy at the start of the phase, and before there is one, the lowest KL. Without held-out
    queries the last epoch counts.

    Args:
        name: the phase.
        figures: of the epoch, on held-out queries.
        best: what counts of the best epoch; empty at the start of a phase.
        kl_limit: KL up to which an epoch is near the start.
    """
    if not figures:
        return True
    value = [-figures["validation/loss"] if name == "sft" else figures["validation/reward"]]
    if name == "grpo":
        kl = figures["validation/kl"]
        value = [1.0, *value] if kl <= kl_limit else [0.0, -kl]
    if best and value <= best:
        return False
    best[:] = value
    return True
