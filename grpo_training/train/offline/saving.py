"""What an offline training leaves in its run directory: checkpoints and the exported model."""

from __future__ import annotations

from grpo_training.train.models.export import export_model
from grpo_training.train.models.export_record import write_export
from grpo_training.train.models.loading import load_model, load_weights
from grpo_training.train.offline.checkpoints import (
    HeldOutFigures,
    State,
    checkpoints,
    load_tensors,
    remove_old_checkpoints,
    save_checkpoint,
)
from grpo_training.train.offline.selection import Selection, select
from grpo_training.train.offline.training import Training, score_reference
from grpo_training.train.processes import check_same


def restore(training: Training) -> int:
    """Load the last checkpoint of the run directory, if there is one. Returns the number of steps done.

    Raises:
        InputError: the checkpoint belongs to another model, or cannot be read.
    """
    stored = [] if training.config.fresh else checkpoints(training.run_dir)
    check_same({"checkpoints": [checkpoint.state.step for checkpoint in stored]})
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


def save(training: Training, number: int, held_out: HeldOutFigures | None) -> None:
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
        validation=held_out,
    )
    tensors = {
        "optimizer": training.optimizer.state_dict(),
        "kl": training.kl.state_dict(),
        "reference": training.reference.known,
    }
    save_checkpoint(training.run_dir, training.model, state, tensors)
    remove_old_checkpoints(training.run_dir, training.config.save_total_limit, training.kl_limit)


def export(training: Training, start: HeldOutFigures | None) -> Selection:
    """Write the selected model, and what was selected and why to ``export.json``.

    Args:
        training: after its last step.
        start: the figures of the initial model on the held-out groups, if there are any.
    """
    config, stored = training.config, checkpoints(training.run_dir)
    measure = "held-out log-prob" if config.mode == "sft" else "held-out reward"
    selected = select(stored, start, kl_limit=training.kl_limit, measure=measure)
    if selected.checkpoint is None:
        training.model = load_model(config)[0]
    elif selected.checkpoint is not stored[-1]:
        load_weights(training.model, selected.checkpoint.folder)
    export_model(training.model, training.tokenizer, training.run_dir, config)
    write_export(training.run_dir, selected.name, selected.why, helped=selected.helped, candidates=selected.candidates)
    return selected
