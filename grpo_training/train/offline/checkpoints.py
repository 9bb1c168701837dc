"""Checkpoints of an offline training.

``RUN/checkpoint-12/`` holds the state after step 12: the trained weights (a PEFT adapter that can be served), and in
``training.pt`` the optimizer, the adaptive KL, the reference log-probs and the number of tokens. It holds no random
state, as a step draws nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from engine.errors import InputError, first_line
from grpo_training.train.folders import write_folder
from grpo_training.train.models.loading import load_weights
from grpo_training.train.offline.training import Training, score_reference

_PREFIX, _TENSORS = "checkpoint-", "training.pt"


def save(training: Training, number: int) -> None:
    """Write the checkpoint after step ``number``, and remove old ones.

    All processes call it; the first one writes.
    """
    if not training.accelerator.is_main_process:
        return
    tensors = {
        "optimizer": training.optimizer.state_dict(),
        "kl": {"beta": training.kl.beta},
        "reference": training.reference.known,
        "progress": {"num_tokens": training.num_tokens},
    }
    save_checkpoint(training.run_dir, training.model, number, tensors)
    for checkpoint in checkpoints(training.run_dir)[: -training.config.save_total_limit]:
        shutil.rmtree(checkpoint)


def restore(training: Training) -> int:
    """Load the last checkpoint of the run directory, if there is one. Returns the number of steps done.

    Raises:
        InputError: the checkpoint belongs to another model, or cannot be read.
    """
    stored = [] if training.config.fresh else checkpoints(training.run_dir)
    if not stored:
        return 0
    tensors = load_tensors(stored[-1])
    training.reference.known = tensors["reference"]
    score_reference(training)  # what is missing, while the weights are the initial ones
    load_weights(training.model, stored[-1])
    done = step_of(stored[-1])
    if done < len(training.plan) and training.plan[done].number > 0:  # else the next step starts a phase
        training.optimizer.load_state_dict(tensors["optimizer"])
    training.kl.beta = tensors["kl"]["beta"]
    training.num_tokens = tensors["progress"]["num_tokens"]
    return done


def save_checkpoint(run_dir: Path, model: PreTrainedModel, step: int, tensors: Mapping[str, Any]) -> None:
    """Write ``RUN/checkpoint-<step>`` atomically.

    Args:
        run_dir: the run directory.
        model: its trained weights are written.
        step: optimizer steps done: the position in the plan of steps, and so in the data.
        tensors: tensors, numbers and strings in dicts and lists.

    Raises:
        ScaffoldError: it cannot be written; no partial checkpoint is left.
    """

    def write(folder: Path) -> None:
        model.save_pretrained(folder)
        torch.save(dict(tensors), folder / _TENSORS)

    write_folder(run_dir / f"{_PREFIX}{step}", write)


def load_tensors(checkpoint: Path) -> dict[str, dict[Any, Any]]:
    """The tensors of a checkpoint, on the CPU.

    Raises:
        InputError: they cannot be read.
    """
    try:
        stored = torch.load(checkpoint / _TENSORS, map_location="cpu", weights_only=True)
        return {name: dict(stored[name]) for name in ("optimizer", "kl", "reference", "progress")}
    except Exception as error:  # a damaged file raises one of many types
        raise InputError(
            f"The checkpoint {checkpoint} cannot be read",
            why=first_line(error),
            fix="Remove that folder to resume from the checkpoint before it, or start over with --fresh.",
        ) from error


def checkpoints(run_dir: Path) -> list[Path]:
    """The checkpoints of a run, in the order of their steps."""
    folders = (path.parent for path in run_dir.glob(f"{_PREFIX}*/{_TENSORS}"))
    return sorted((folder for folder in folders if folder.name.removeprefix(_PREFIX).isdigit()), key=step_of)


def step_of(checkpoint: Path) -> int:
    """The optimizer steps that a checkpoint is after."""
    return int(checkpoint.name.removeprefix(_PREFIX))
