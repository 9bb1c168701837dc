"""Training from stored rollouts: one flat loop over a plan of steps, on as many processes as ``accelerate`` gives.

Where it differs from the papers:

* An epoch of RCE or GRPO takes every group once. The warm-up and GRPO each have an optimizer and a learning-rate
  schedule of their own (warm-up of ``warmup_ratio``, then ``lr_scheduler_type``); early and late epochs share one.
* The stored log-probs are the old policy, as the server reported them. Where they are missing the ratio is 1.
* In epochs that take the best k responses of a group, the advantages stay those within the whole group.
* A row that adds nothing to the gradient (advantage 0 and no KL, or cut off and masked) is not sent through the model.
  It counts where the loss averages, so the gradient is the same.
* RCE weighs by z-scores within the group: on raw rewards in [0, 1] its temperatures would weigh all alike.
* Gradients are summed over processes by hand, so any split of the rows gives the same step. Weights are not sharded.
* Each step seeds torch from the run's seed and its own number: no state of a random generator has to be kept.
"""

from __future__ import annotations

import copy
import importlib
import json
import statistics
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch

from engine.errors import ConfigurationError, InputError
from engine.storage.append_log import replace_file
from grpo_training.finetune.export import ADAPTER, MERGED, export_model
from grpo_training.finetune.model_loading import has_adapter, load_model, load_weights, trained_weights, uses_bf16
from grpo_training.finetune.objective.logprobs import check_logits
from grpo_training.finetune.objective.reference_policy import ReferencePolicy
from grpo_training.finetune.objective.schedules import AdaptiveKL
from grpo_training.finetune.objective.validation import validate
from grpo_training.finetune.offline.batches import fingerprint, plan_steps
from grpo_training.finetune.offline.checkpoints import (
    State,
    best_checkpoints,
    check_same_run,
    checkpoint_to_export,
    checkpoints,
    load_checkpoint,
    mend_folders,
    remove_old_checkpoints,
    save_checkpoint,
)
from grpo_training.finetune.offline.step import Run, train_step
from grpo_training.finetune.tracking import RunLog, TrainingProgress, TrainingResult, open_tracker
from grpo_training.runs.stop_request import StopRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from grpo_training.finetune.config import GRPOTrainingConfig
    from grpo_training.finetune.data.samples import Sample
    from grpo_training.finetune.offline.checkpoints import Checkpoint, Validation

    Group = Sequence[Sample]

BEST = "best.json"


def train_offline(
    config: GRPOTrainingConfig,
    groups: Sequence[Group],
    validation: Sequence[Group],
    teacher: Sequence[Sample],
    run_dir: Path,
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> TrainingResult:
    """Fine-tune the model of ``config`` on scored groups and write checkpoints, metrics and the trained model.

    The same call again goes on after the last checkpoint, with the same weights as without the interruption.

    Args:
        config: of the training.
        groups: all responses to one prompt each.
        validation: groups that are held out, to judge checkpoints by.
        teacher: traces for the teacher-SFT term; empty turns it off.
        run_dir: gets ``metrics.jsonl``, ``checkpoint-<step>/``, ``lora/`` and ``merged/``.
        stream: where progress is shown, stdout by default.
        clock: seconds that only grow.

    Raises:
        InputError: no groups, no model at its place, checkpoints of another configuration.
        ConfigurationError: the machine or an optional package does not do what the configuration asks.
        TrainingStoppedError: (exit code 3) a loss or a gradient is not finite; the rows that caused it are in a file.
        KeyboardInterrupt: Ctrl-C; the step was finished and saved before.
    """
    started = clock()
    run = _prepare(config, groups, validation, teacher, run_dir)
    mend_folders(run_dir)
    done, total = _restore(run), len(run.plan)
    with ExitStack() as stack:
        screen = TrainingProgress(total, done=done, stream=stream, clock=clock)
        log: RunLog | None = None
        if run.accelerator.is_main_process:
            name = config.run_name or run_dir.name
            tracker = open_tracker(
                config.report_to, run_dir, project=config.project, run_name=name, config=config.to_dict()
            )
            run_dir.mkdir(parents=True, exist_ok=True)
            stack.enter_context(screen)
            log = stack.enter_context(
                RunLog(run_dir / "metrics.jsonl", resume_step=done, tracker=tracker, warn=screen.note)
            )
            for note in _notes(run, done):
                screen.note(note)
        stop = stack.enter_context(StopRequest())
        window: list[dict[str, float]] = []
        for index in range(done, total):
            step, number, before = run.plan[index], index + 1, (run.num_tokens, clock())
            if step.number == 0 and index > done:
                run.optimizer = new_optimizer(config, run.model)
            figures = train_step(run, index)
            seconds = max(clock() - before[1], 1e-9)
            figures |= {
                "num_tokens": run.num_tokens,
                "tokens_per_s": (run.num_tokens - before[0]) / seconds,
                "step_time": seconds,
            }
            window.append(figures)
            is_due = step.ends_epoch or number == total or stop.number is not None
            is_due |= config.save_steps is not None and number % config.save_steps == 0
            if log is not None:
                screen.step_done(number, step.stage, figures)
                held_out = validate(run) if is_due and run.validation else None
                if is_due or len(window) == config.logging_steps:
                    line = {"epoch": step.epoch, "stage": step.stage} | _mean(window)
                    log.write(number, line | ({} if held_out is None else _validation_figures(run, held_out)))
                    window.clear()
                if is_due:
                    _save(run, number, held_out)
            if is_due:
                run.accelerator.wait_for_everyone()
            stop.obey()
        best = _export(run) if log is not None else {}
        run.accelerator.wait_for_everyone()
    adapter = run_dir / ADAPTER if config.use_peft else None
    return TrainingResult(total, adapter, run_dir / MERGED, best, clock() - started)


# ------------------------------------------------------------------ before the first step


def _prepare(
    config: GRPOTrainingConfig,
    groups: Sequence[Group],
    validation: Sequence[Group],
    teacher: Sequence[Sample],
    run_dir: Path,
) -> Run:
    """Load and check all that the training needs; nothing is written."""
    from accelerate import Accelerator

    if not groups:
        raise InputError("No groups to train on", why="The files hold none, or none was left after filtering.")
    model, tokenizer = load_model(config)
    accelerator = Accelerator(mixed_precision="bf16" if uses_bf16(config) else "no")
    model = model.to(accelerator.device)
    check_logits(model.eval())
    uses_reference = config.beta > 0 or config.adaptive_kl or config.importance_cap is not None or bool(validation)
    uses_reference |= config.missing_logprobs == "start"
    frozen = None
    if uses_reference and not has_adapter(model):
        frozen = copy.deepcopy(model).requires_grad_(False)
    return Run(
        config=config,
        run_dir=run_dir,
        accelerator=accelerator,
        model=model.train(),
        tokenizer=tokenizer,
        groups=groups,
        validation=validation,
        teacher=teacher,
        plan=plan_steps([len(group) for group in groups], config, accelerator.num_processes),
        reference=ReferencePolicy(model, frozen, [row for group in (*groups, *validation) for row in group]),
        optimizer=new_optimizer(config, model),
        kl=AdaptiveKL.of(config),
    )


def new_optimizer(config: GRPOTrainingConfig, model: Any) -> torch.optim.Optimizer:
    """AdamW over the weights that learn; its rate is set at each step.

    Raises:
        ConfigurationError: ``adamw_8bit`` without bitsandbytes.
    """
    weights = list(trained_weights(model).values())
    if config.optim == "adamw_8bit":
        try:
            bitsandbytes: Any = importlib.import_module("bitsandbytes.optim")
        except ImportError as error:
            raise ConfigurationError(
                "optim adamw_8bit needs bitsandbytes",
                why=str(error),
                fix="Install bitsandbytes (it wants a GPU), or take adamw_torch.",
            ) from error
        optimizer: torch.optim.Optimizer = bitsandbytes.AdamW8bit(weights, weight_decay=config.weight_decay)
        return optimizer
    fused = True if config.optim == "adamw_torch_fused" else None
    return torch.optim.AdamW(weights, weight_decay=config.weight_decay, fused=fused)


def _notes(run: Run, done: int) -> Iterator[str]:
    if done:
        yield f"going on after step {done} of {len(run.plan)}"
    if all(row.old_logps is None for group in run.groups for row in group):
        yield (
            "no stored log-probs: the ratio is 1 everywhere, so nothing is clipped, and only the KL and a small "
            "learning rate hold the policy near the one that sampled (--missing-logprobs start clips all the same)"
            if run.config.missing_logprobs == "ratio_1"
            else "no stored log-probs: the model that training began with stands for the one that sampled"
        )
    if not run.validation:
        yield "no groups are held out: the last weights are exported"


# ------------------------------------------------------------------ checkpoints and results


def _restore(run: Run) -> int:
    """Put the state of the last checkpoint into the run; how many steps are done."""
    found = [] if run.config.fresh else checkpoints(run.run_dir)
    if not found:
        return 0
    last = found[-1]
    check_same_run(last, _settings(run), _data(run))
    tensors = load_checkpoint(last, run.model)
    done = last.state.step
    if done < len(run.plan) and run.plan[done].number > 0:  # else the next step begins a phase, with an optimizer anew
        run.optimizer.load_state_dict(tensors["optimizer"])
    run.kl.load_state_dict(tensors["kl"])
    run.reference.known = tensors["reference"]
    run.num_tokens = last.state.num_tokens
    return done


def _save(run: Run, number: int, held_out: Validation | None) -> None:
    """Write the checkpoint after step ``number``, remove old ones, and say which are the best."""
    step, limit = run.plan[number - 1], run.config.kl_target_high
    state = State(
        step=number,
        stage=step.stage,
        epoch=step.epoch,
        num_tokens=run.num_tokens,
        settings=_settings(run),
        data=_data(run),
        validation=held_out,
    )
    tensors = {
        "optimizer": run.optimizer.state_dict(),
        "kl": run.kl.state_dict(),
        "reference": run.reference.known,
    }
    save_checkpoint(run.run_dir, run.model, state, tensors)
    remove_old_checkpoints(run.run_dir, run.config.save_total_limit, limit)
    best = best_checkpoints(checkpoints(run.run_dir), limit)
    if best:
        replace_file(run.run_dir / BEST, json.dumps(_described(best), indent=2).encode() + b"\n")


def _export(run: Run) -> dict[str, Any]:
    """Write the trained model; which checkpoints were best, and which one this is."""
    found = checkpoints(run.run_dir)
    chosen = checkpoint_to_export(found, run.config.kl_target_high)
    if chosen is not found[-1]:
        load_weights(run.model, chosen.folder)
    export_model(run.model, run.tokenizer, run.run_dir)
    return _described(best_checkpoints(found, run.config.kl_target_high)) | {"exported": chosen.folder.name}


def _described(best: dict[str, Checkpoint]) -> dict[str, Any]:
    return {
        measure: {
            "checkpoint": checkpoint.folder.name,
            "step": checkpoint.state.step,
            "reward": checkpoint.state.validation.reward,
            "kl": checkpoint.state.validation.kl,
        }
        for measure, checkpoint in best.items()
        if checkpoint.state.validation is not None
    }


def _settings(run: Run) -> dict[str, Any]:
    """What shapes the weights; the number of processes does, as it decides how many rows a step of the plan has."""
    return run.config.fingerprint() | {"processes": run.accelerator.num_processes}


def _data(run: Run) -> str:
    return fingerprint([*run.groups, *run.validation, run.teacher])


def _validation_figures(run: Run, held_out: Validation) -> dict[str, float]:
    return {
        "validation/reward": held_out.reward,
        "validation/reward_start": statistics.fmean(
            statistics.fmean(row.reward for row in group) for group in run.validation
        ),
        "validation/kl": held_out.kl,
        "validation/effective_samples": held_out.effective_samples,
    }


def _mean(window: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of each figure over the steps that have it; the last value of what only grows."""
    names = dict.fromkeys(name for figures in window for name in figures)
    means = {name: statistics.fmean(figures[name] for figures in window if name in figures) for name in names}
    return means | {"num_tokens": window[-1]["num_tokens"]}
