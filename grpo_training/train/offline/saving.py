"""An offline training goes on from its last checkpoint, and writes one after a step."""

from __future__ import annotations

from grpo_training.train.models.loading import load_weights
from grpo_training.train.offline.checkpoints import (
    State,
    checkpoints,
    load_tensors,
    remove_old_checkpoints,
    save_checkpoint,
)
from grpo_training.train.offline.training import Training, score_reference


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
