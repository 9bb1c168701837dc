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
        epoch_kl: the KL of each batch of the present epoch.
        kl_of_epochs: the mean KL of each epoch of the phase.
        temperature: of the ratios of GRPO.
        old_logps: held-out query -> log-probs of its stored sequences under the policy at the start of the phase.
        best: measure -> the value of the best epoch so far.
    """

    step: int = 0
    phase: int = 0
    epoch: int = 0
    batch: int = 0
    kl: list[float] = field(default_factory=list)
    epoch_kl: list[float] = field(default_factory=list)
    kl_of_epochs: list[float] = field(default_factory=list)
    temperature: float = 1.0
    old_logps: dict[int, torch.Tensor] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)


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
        "beta": beta.state_dict(),
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


def improvements(name: str, figures: dict[str, float], best: dict[str, float], kl_limit: float) -> list[str]:
    """The measures by which an epoch is the best so far; ``best`` is updated.

    ``model``: of SFT the lowest loss; of RCE the highest reward; of GRPO the highest reward among the epochs within
    ``kl_limit`` of the policy at the start of the phase, and before there is one, the lowest KL. ``reward``: the
    highest reward. Without held-out queries the last epoch counts.

    Args:
        name: the phase.
        figures: of the epoch, on held-out queries.
        best: measure -> its value, of this phase.
        kl_limit: KL up to which an epoch is near the start.
    """
    found = []
    reward = figures.get("validation/reward", torch.inf)
    if name != "sft" and _is_better(reward, best, "reward"):
        found.append("reward")
    if name == "sft":
        value = -figures["validation/loss"] if "validation/loss" in figures else torch.inf
    elif name == "rce" or "validation/kl" not in figures:
        value = reward
    else:
        kl = figures["validation/kl"]
        near = kl <= kl_limit
        if near and not best.get("near"):
            best.pop("model", None)
            best["near"] = 1.0
        if not near and best.get("near"):
            return found
        value = reward if near else -kl
    if _is_better(value, best, "model"):
        found.append("model")
    return found


def _is_better(value: float, best: dict[str, float], name: str) -> bool:
    if name in best and value <= best[name] and value != torch.inf:
        return False
    best[name] = value
    return True
