"""Training from stored rollouts: one flat loop over a plan of optimizer steps.

Differences from the papers:

* An epoch of RCE or GRPO takes every group once. The warm-up and GRPO have an optimizer and a learning-rate schedule
  each (warm-up over ``warmup_ratio``, then ``lr_scheduler_type``); early and late epochs share one.
* The stored log-probs are the old policy, as the server reported them. Where they are missing, those
  of the initial model take their place.
* In epochs that take the best k responses of a group, advantages stay relative to the whole group.
* A row that adds nothing to the gradient (advantage 0 and no KL, or truncated and masked) is not sent through the
  model. It counts in the divisor of the loss, so the gradient is the same.
* Weight decay applies to all trained weights; the optimizer of online training leaves out norms and biases.
* RCE weighs by z-scores within the group: on raw rewards in [0, 1] its temperatures would give near-equal weights.
* Each process takes its share of the micro-batches, and accelerate reduces the gradients (DDP), so any
  number of processes and any micro-batch size give the same step.
* There is no dropout, so a step draws nothing and checkpoints hold no random state.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TextIO

import torch
from accelerate.utils import gather_object

from grpo_training.rl_math.metrics_log import means, open_metrics
from grpo_training.rl_math.stopped import TrainingStoppedError
from grpo_training.runs.stop_request import StopRequest
from grpo_training.runs.trackers import open_trackers
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.training_data import TrainingData
from grpo_training.train.folders import repair_folders
from grpo_training.train.models.export import ADAPTER, MERGED, TrainingResult, export_model
from grpo_training.train.models.loading import has_adapter
from grpo_training.train.offline.checkpoints import restore, save
from grpo_training.train.offline.objective import objective
from grpo_training.train.offline.plan import learning_rate
from grpo_training.train.offline.step_rows import MicroBatch, StepRows, rows_of
from grpo_training.train.offline.training import Training, prepare, return_free_memory, score_reference, unscored
from grpo_training.train.offline.validation import validate
from grpo_training.train.processes import agreed, local_share


def train_offline(
    config: GRPOTrainingConfig,
    data: TrainingData,
    run_dir: Path,
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> TrainingResult:
    """Fine-tune the model of ``config`` on scored groups; write checkpoints, metrics and the trained model.

    The same call again resumes from the last checkpoint and gives the same weights as an uninterrupted run.

    Args:
        config: the training configuration.
        data: the samples.
        run_dir: gets ``metrics.jsonl``, ``checkpoint-<step>/``, ``lora/`` and ``merged/``.
        stream: receives the progress, stdout by default.
        clock: monotonic seconds.

    Raises:
        InputError: no groups, no model at its path, checkpoints of another configuration.
        ConfigurationError: the machine or an optional package does not support the configuration.
        TrainingStoppedError: (exit code 3) a loss or a gradient is not finite.
        KeyboardInterrupt: Ctrl-C, after the current step was finished and saved.
    """
    started = clock()
    training = prepare(config, data, run_dir)
    accelerator = training.accelerator
    if accelerator.is_main_process:
        repair_folders(run_dir)
    accelerator.wait_for_everyone()
    done, total = restore(training), len(training.plan)
    with ExitStack() as stack:
        log = progress = None
        if accelerator.is_main_process:
            trackers = stack.enter_context(open_trackers(config.report_to, run_dir.name, config))
            log, progress = stack.enter_context(
                open_metrics(run_dir, total, done, stream=stream, clock=clock, trackers=trackers)
            )
            for note in _notes(training, done):
                progress.note(note)
        score_reference(training)
        if progress is not None:
            progress.steps_begin()
        stop = stack.enter_context(StopRequest())
        window: list[dict[str, float]] = []
        for number, metrics in optimizer_steps(training, done, clock):
            step = training.plan[number - 1]
            is_due = agreed(stop, accelerator.num_processes) is not None or step.ends_epoch or number == total
            is_due |= config.save_steps is not None and number % config.save_steps == 0
            if progress is not None:
                of_data = {"data/reward" if name == "reward" else name: value for name, value in metrics.items()}
                progress.step_done(number, step.stage, of_data)  # the stored replies, whatever the model has learned
                if is_due and data.validation:
                    progress.doing(f"measuring {sum(map(len, data.validation))} held-out replies")
            held_out = validate(training) if is_due and data.validation else {}
            if log is not None:
                window.append(metrics)
                if is_due or len(window) == config.logging_steps:
                    line = {"epoch": step.epoch, "stage": step.stage} | means(window)
                    line["num_tokens"] = training.num_tokens
                    log.write(number, line | held_out)
                    window.clear()
            if is_due:
                save(training, number)
                accelerator.wait_for_everyone()
            stop.obey()
        if progress is not None:
            progress.doing("writing the model")
            export_model(training.model, training.tokenizer, run_dir, config)
        accelerator.wait_for_everyone()
    adapter = run_dir / ADAPTER if config.use_peft else None
    return TrainingResult(total, adapter, run_dir / MERGED, clock() - started)


def optimizer_steps(
    training: Training, done: int = 0, clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[int, dict[str, float]]]:
    """Run the optimizer steps of the plan; after each, yield its number (from 1) and its metrics.

    Metrics have TRL's names where TRL has them, and are the same on each process.

    Args:
        training: is changed: weights, optimizer, beta, tokens seen.
        done: number of steps to skip.
        clock: monotonic seconds.

    Raises:
        TrainingStoppedError: a loss or a gradient is not finite; the weights are those of the step before.
    """
    config, accelerator, optimizer = training.config, training.accelerator, training.optimizer
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    score_reference(training)
    for index in range(done, len(training.plan)):
        step, started = training.plan[index], clock()
        if step.number == 0:
            optimizer.state.clear()  # each phase starts with a new AdamW
        rate = learning_rate(step, config)
        for parameters in optimizer.param_groups:
            parameters["lr"] = rate
        optimizer.zero_grad(set_to_none=True)

        step_rows = rows_of(training, index)
        shares = _backward(training, step_rows, index)
        metrics = _sum_over_processes(shares) | step_rows.metrics

        grad_norm = 0.0
        if step_rows.micro_batches:
            grad_norm = float(accelerator.clip_grad_norm_(weights, config.max_grad_norm))
        if not math.isfinite(grad_norm):
            raise _not_finite(f"The gradient of step {index + 1}", step_rows.micro_batches)
        optimizer.step()
        if config.adaptive_kl and "kl" in metrics:
            training.kl.update(metrics["kl"])

        training.num_tokens += step_rows.num_tokens
        seconds = max(clock() - started, 1e-9)
        metrics |= {"learning_rate": rate, "grad_norm": grad_norm, "num_tokens": training.num_tokens}
        yield index + 1, metrics | {"tokens_per_s": step_rows.num_tokens / seconds, "step_time": seconds}


def _backward(training: Training, step_rows: StepRows, index: int) -> dict[str, float]:
    """The backward passes of this process's share of a step; its share of the metrics.

    DDP reduces the gradients with the last micro-batch. It averages them over the processes, while the losses are
    shares of a sum, so the losses are multiplied by the number of processes.
    """
    stage, accelerator = training.plan[index].stage, training.accelerator
    shares: defaultdict[str, float] = defaultdict(float)
    if stage in ("early", "late"):
        shares |= {"loss": 0.0, "loss/grpo": 0.0}
    micro_batches = local_share(step_rows.micro_batches, accelerator) if step_rows.micro_batches else []
    for number, (micro_batch, counts) in enumerate(micro_batches, start=1):
        is_last = number == len(micro_batches)
        accelerator.gradient_state._set_sync_gradients(is_last)
        with nullcontext() if is_last else accelerator.no_sync(training.policy):
            loss, figures = objective(training, step_rows, micro_batch)
            values = {name: float(torch.as_tensor(value).detach()) for name, value in {"loss": loss, **figures}.items()}
            if not math.isfinite(values["loss"]):
                raise _not_finite(f"The loss of step {index + 1}", [micro_batch])
            accelerator.backward(loss * (accelerator.num_processes if counts else 0))
            del loss, figures
            return_free_memory(accelerator.device)
        for name, value in values.items():
            shares[name] += value if counts else 0.0
    return shares


def _not_finite(quantity: str, micro_batches: Sequence[MicroBatch]) -> TrainingStoppedError:
    """The error of a loss or a gradient that is not finite."""
    groups = ", ".join(dict.fromkeys(row.group_id for micro_batch in micro_batches for row in micro_batch.rows))
    return TrainingStoppedError.of(quantity, f"the groups {groups[:200]}")


def _sum_over_processes(shares: Mapping[str, float]) -> dict[str, float]:
    """Sums by name; a process has no share of a term that none of its micro-batches takes."""
    total: defaultdict[str, float] = defaultdict(float)
    for of_process in gather_object([dict(shares)]):
        for name, value in of_process.items():
            total[name] += value
    return dict(total)


def _notes(training: Training, done: int) -> Iterator[str]:
    if done:
        yield f"resuming after step {done} of {len(training.plan)}"
    if has_adapter(training.model):
        trained, total = training.model.get_nb_trainable_parameters()
        yield f"trained parameters: {trained:,} of {total:,} ({trained / total:.2%})"
    if rows := unscored(training):
        yield f"scoring {len(rows)} replies with the initial model, the reference"
