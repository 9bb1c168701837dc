"""The state of an offline training: model, reference, optimizer, plan; how it is prepared."""

from __future__ import annotations

import ctypes
import importlib
import math
import resource
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.optimizer import AcceleratedOptimizer
from accelerate.state import AcceleratorState
from accelerate.utils import gather_object
from torch import Tensor

from engine.errors import InputError
from grpo_training.rl_math.schedules import AdaptiveKL
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.batches import Batch, collate
from grpo_training.train.data.rows import cut
from grpo_training.train.data.samples import Sample
from grpo_training.train.data.training_data import TrainingData
from grpo_training.train.models.loading import has_adapter, load_model, trained_weights, uses_bf16
from grpo_training.train.objective.logprobs import LogProbModel, can_pack, check_logits
from grpo_training.train.objective.reference_policy import ReferencePolicy
from grpo_training.train.offline.plan import PlannedStep, plan_steps
from grpo_training.train.processes import local_share

_LARGE_KIB = 2 << 20
"""A process whose memory has reached this many KiB returns what it frees."""


@dataclass
class Training:
    """A training in this process.

    Args:
        config: the training configuration.
        data: the samples.
        run_dir: gets checkpoints and the trained model.
        accelerator: device, precision and processes.
        model, tokenizer: the model that learns.
        policy: the :class:`LogProbModel` of that model, as accelerate has wrapped it; all log-probs come from it.
        plan: all optimizer steps.
        reference: the policy at the start of the training.
        optimizer: its state is that of the current phase.
        kl: the controller of an adaptive beta.
        num_tokens: tokens that passed through the model so far, over all processes.
    """

    config: GRPOTrainingConfig
    data: TrainingData
    run_dir: Path
    accelerator: Accelerator
    model: Any
    policy: Any
    tokenizer: Any
    plan: list[PlannedStep]
    reference: ReferencePolicy
    optimizer: AcceleratedOptimizer
    kl: AdaptiveKL
    num_tokens: int = 0

    @property
    def beta(self) -> float:
        """The current weight of the KL."""
        return self.kl.beta if self.config.adaptive_kl else self.config.beta

    def collate(self, rows: Sequence[Sample]) -> Batch:
        """Rows as tensors on the device of this process."""
        mask_truncated = self.config.mask_truncated_completions
        return collate(rows, self.tokenizer.pad_token_id, mask_truncated=mask_truncated).to(self.accelerator.device)

    def logps(self, batch: Batch, temperature: float | None = None) -> Tensor:
        """Log-probs (B, C) of the completions under the policy, by default at the sampling temperature."""
        chosen = self.config.temperature if temperature is None else temperature
        with self.accelerator.autocast():
            logps_BC: Tensor = self.policy(batch, temperature=chosen)[0]  # noqa: N806
        return logps_BC

    def logps_and_entropy(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The log-probs and the entropy (nats, no gradient) at each token, in one pass."""
        with self.accelerator.autocast():
            logps_BC, entropy_BC = self.policy(batch, temperature=self.config.temperature, entropy=True)  # noqa: N806
        return logps_BC, entropy_BC


def prepare(config: GRPOTrainingConfig, data: TrainingData, run_dir: Path) -> Training:
    """Load and check everything that the training needs. Nothing is written.

    Raises:
        InputError, ConfigurationError: as :func:`grpo_training.train.offline.loop.train_offline`.
    """
    if not data.groups:
        raise InputError("No groups to train on", why="The dataset has none, or none remained after filtering.")
    accelerator = new_accelerator(bf16=uses_bf16(config))
    model, tokenizer = load_model(config)
    if config.quantised is None:  # a rounded one is where it belongs
        model = model.to(accelerator.device)
    check_logits(model)
    rows = [row for group in (*data.groups, *data.validation) for row in group]
    packs = can_pack(model, max(row.length for row in [*rows, *data.teacher]))
    policy, optimizer = accelerator.prepare(LogProbModel(model, packs=packs), new_optimizer(config, model))
    return Training(
        config=config,
        data=data,
        run_dir=run_dir,
        accelerator=accelerator,
        model=model,
        policy=policy,
        tokenizer=tokenizer,
        plan=plan_steps([len(group) for group in data.groups], config, accelerator.num_processes),
        reference=ReferencePolicy(rows),
        optimizer=optimizer,
        kl=AdaptiveKL(config.beta),
    )


def new_accelerator(*, bf16: bool) -> Accelerator:
    """Device, precision and processes."""
    # Accelerate keeps the precision of the first training of a process and refuses another one. It has no public
    # function that forgets it; the connections between the processes stay.
    AcceleratorState._reset_state()
    return Accelerator(
        mixed_precision="bf16" if bf16 else "no",
        # Without cpu=True, accelerate ignores the processes that torchrun starts on a machine without an accelerator.
        cpu=not torch.accelerator.is_available(),
        # Buffers never change. DDP would send them at each forward pass, also where not all processes have one.
        kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False)],
    )


def new_optimizer(config: GRPOTrainingConfig, model: Any) -> torch.optim.Optimizer:
    """AdamW over the trained weights; the learning rate is set at each step."""
    weights = list(trained_weights(model).values())
    if config.optim == "adamw_8bit":
        bitsandbytes: Any = importlib.import_module("bitsandbytes.optim")
        optimizer: torch.optim.Optimizer = bitsandbytes.AdamW8bit(weights, weight_decay=config.weight_decay)
        return optimizer
    fused = True if config.optim == "adamw_torch_fused" else None
    return torch.optim.AdamW(weights, weight_decay=config.weight_decay, fused=fused)


def unscored(training: Training) -> list[Sample]:
    """The samples whose reference log-probs will be needed and are not known yet, the shortest first."""
    config, data, stages = training.config, training.data, ("early", "late")
    rows = [row for group in data.validation for row in group]
    trained = [row for group in data.groups for row in group]
    needed = config.beta > 0 or config.adaptive_kl
    needed |= any(row.old_logps is None or any(map(math.isnan, row.old_logps)) for row in trained)
    if needed and config.mode != "sft":
        numbers = dict.fromkeys(number for step in training.plan if step.stage in stages for number in step.groups)
        rows += [row for number in numbers for row in data.groups[number]]
    return sorted(training.reference.missing(rows), key=lambda row: row.length)


def score_reference(training: Training) -> None:
    """Score the :func:`unscored` samples, divided among the processes. The weights are those of the initial model.

    With an adapter they may also have changed since, because the adapter is disabled.
    """
    rows = unscored(training)
    if not rows:
        return
    model = training.model
    with torch.no_grad(), model.disable_adapter() if has_adapter(model) else nullcontext():
        for micro_batch, counts in local_share(cut(rows, training.config), training.accelerator):
            batch = training.collate(micro_batch)
            logps_BC = training.logps(batch)  # noqa: N806 - the name ends in its shape
            scored = training.reference.by_index(micro_batch, logps_BC, batch) if counts else {}
            for of_process in gather_object([scored]):
                training.reference.known |= of_process
            return_free_memory(training.accelerator.device)


def return_free_memory(device: torch.device) -> None:
    """After a micro-batch on a CPU, give freed memory back to the system, where the C library keeps it: glibc.

    Tensors of changing shapes leave holes that glibc hardly uses again: without this, a training of rows of 140 to 440
    tokens took 2.5 to 7 GB more with each micro-batch, until the system killed it. A process that has never been large
    keeps its memory, as taking it anew costs time.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if device.type == "cpu" else None
    if trim is not None and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > _LARGE_KIB:
        trim(0)
