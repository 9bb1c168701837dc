"""Checkpoints of an offline training.

``RUN/checkpoint-12/`` holds the state after step 12: the trained weights (a PEFT adapter that can be served), the
optimizer, the adaptive KL, the reference log-probs, and the progress in ``state.json``. It holds no random state, as a
step draws nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from transformers import PreTrainedModel

from engine.errors import InputError, first_line
from grpo_training.train.folders import remove_folder, write_folder
from grpo_training.train.models.loading import load_weights, save_weights
from grpo_training.train.offline.training import Training, score_reference

_PREFIX = "checkpoint-"
_STATE, _TENSORS = "state.json", "training.pt"


@dataclass(frozen=True)
class State:
    """The progress of a training.

    Args:
        step: optimizer steps done: the position in the plan of steps, and so in the data.
        stage, epoch: of the last step.
        num_tokens: tokens that passed through the model so far.
    """

    step: int
    stage: str
    epoch: float
    num_tokens: int


_STATES = TypeAdapter(State)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's folder and its ``state.json``."""

    folder: Path
    state: State


def save_checkpoint(
    run_dir: Path,
    model: PreTrainedModel,
    state: State,
    tensors: Mapping[str, Any],
) -> Checkpoint:
    """Write ``RUN/checkpoint-<step>`` atomically.

    Args:
        run_dir: the run directory.
        model: its trained weights are written.
        state: the progress of the training.
        tensors: the state of optimizer, beta and reference: tensors, numbers and strings in dicts and lists.

    Raises:
        ScaffoldError: it cannot be written; no partial checkpoint is left.
    """

    def write(folder: Path) -> None:
        save_weights(model, folder)
        torch.save(dict(tensors), folder / _TENSORS)
        (folder / _STATE).write_text(json.dumps(asdict(state), indent=2) + "\n", encoding="utf-8")

    folder = run_dir / f"{_PREFIX}{state.step}"
    write_folder(folder, write)
    return Checkpoint(folder, state)


def load_tensors(checkpoint: Checkpoint) -> dict[str, Any]:
    """The tensors of a checkpoint, on the CPU.

    Raises:
        InputError: they cannot be read.
    """
    try:
        stored = torch.load(checkpoint.folder / _TENSORS, map_location="cpu", weights_only=True)
        tensors = {name: dict(stored[name]) for name in ("optimizer", "kl", "reference")}
    except Exception as error:  # a damaged file raises one of many types
        raise InputError(
            f"The checkpoint {checkpoint.folder} cannot be read",
            why=first_line(error),
            fix="Remove that folder to resume from the checkpoint before it, or start over with --fresh.",
        ) from error
    return tensors


def checkpoints(run_dir: Path) -> list[Checkpoint]:
    """The checkpoints of a run, in the order of their steps.

    Raises:
        InputError: a ``state.json`` cannot be read.
    """
    stored = []
    for folder in run_dir.glob(f"{_PREFIX}*"):
        if folder.name.removeprefix(_PREFIX).isdigit() and (folder / _STATE).exists():
            stored.append(Checkpoint(folder, _read_state(folder / _STATE)))
    return sorted(stored, key=lambda checkpoint: checkpoint.state.step)


def _read_state(path: Path) -> State:
    try:
        return _STATES.validate_json(path.read_bytes(), strict=True)
    except ValueError as error:
        fix = "Remove that checkpoint, or start over with --fresh."
        raise InputError(f"Cannot read {path}", why=first_line(error), fix=fix) from error


def remove_old_checkpoints(run_dir: Path, keep: int) -> None:
    """Remove all checkpoints but the last ``keep``."""
    for checkpoint in checkpoints(run_dir)[:-keep]:
        remove_folder(checkpoint.folder)


def restore(training: Training) -> int:
    """Load the last checkpoint of the run directory, if there is one. Returns the number of steps done.

    Raises:
        InputError: the checkpoint belongs to another model, or cannot be read.
    """
    stored = [] if training.config.fresh else checkpoints(training.run_dir)
    if not stored:
        return 0
    last = stored[-1]
    tensors = load_tensors(last)
    training.reference.known = tensors["reference"]
    score_reference(training)  # what is missing, while the weights are the initial ones
    load_weights(training.model, last.folder)
    done = last.state.step
    if done < len(training.plan) and training.plan[done].number > 0:  # else the next step starts a phase
        training.optimizer.load_state_dict(tensors["optimizer"])
    training.kl.load_state_dict(tensors["kl"])
    training.num_tokens = last.state.num_tokens
    return done


def save(training: Training, number: int) -> None:
    """Write the checkpoint after step ``number``, and remove old ones.

    All processes call it; the first one writes.
    """
    if not training.accelerator.is_main_process:
        return
    step = training.plan[number - 1]
    state = State(
        step=number,
        stage=step.stage,
        epoch=step.epoch,
        num_tokens=training.num_tokens,
    )
    tensors = {
        "optimizer": training.optimizer.state_dict(),
        "kl": training.kl.state_dict(),
        "reference": training.reference.known,
    }
    save_checkpoint(training.run_dir, training.model, state, tensors)
    remove_old_checkpoints(training.run_dir, training.config.save_total_limit)
