"""The plan of an offline training: which groups each optimizer step trains on.

The plan is a function of the group sizes, the configuration and the seed. A run that resumes after step k needs to
know nothing but k.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from grpo_training.rl_math.schedules import lr_factor
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rows import pack

Stage = Literal["sft", "rce", "early", "late"]
"""Supervised (all steps or none); reward-weighted warm-up; GRPO on the best responses of each group; GRPO on all."""


@dataclass(frozen=True)
class PlannedStep:
    """One optimizer step.

    Args:
        stage: selects the loss.
        number: position in its phase (the warm-up, or all of GRPO), from 0.
        phase_steps: number of steps in that phase; learning rate and temperature are scheduled over a phase.
        epoch: passes over the data that are done after this step, as a fraction.
        ends_epoch: whether it is the last step of its epoch.
        groups: indices of its groups.
        top_k: number of responses per group, the best first; None: all.
    """

    stage: Stage
    number: int
    phase_steps: int
    epoch: float
    ends_epoch: bool
    groups: tuple[int, ...]
    top_k: int | None = None


def plan_steps(sizes: Sequence[int], config: GRPOTrainingConfig, processes: int = 1) -> list[PlannedStep]:
    """All optimizer steps of a training.

    Each epoch takes every group once, in its own random order. A step holds whole groups of at most
    ``per_device_train_batch_size x gradient_accumulation_steps x processes`` rows together, and at least one; the last
    step of an epoch has what is left. ``max_steps`` truncates the plan, or extends it by further late epochs.

    Args:
        sizes: number of responses of each group.
        config: the training configuration.
        processes: number of processes that train together.
    """
    if not sizes:
        return []
    rows = config.rows_of_step * processes
    limit = config.max_steps if config.max_steps > 0 else None
    rce_epochs = _rce_epochs(config)
    warm_up = [step for epoch in range(rce_epochs) for step in _epoch(epoch, sizes, rows, config)][:limit]
    policy: list[PlannedStep] = []
    epoch, last = rce_epochs, rce_epochs + config.num_train_epochs
    while epoch < last or (limit is not None and config.num_train_epochs and len(warm_up) + len(policy) < limit):
        policy += _epoch(epoch, sizes, rows, config)
        epoch += 1
    if limit is not None:
        policy = policy[: limit - len(warm_up)]
    return [
        replace(step, number=number, phase_steps=len(phase))
        for phase in (warm_up, policy)
        for number, step in enumerate(phase)
    ]


def _rce_epochs(config: GRPOTrainingConfig) -> int:
    return 0 if config.mode == "sft" else config.rce_epochs


def _epoch(epoch: int, sizes: Sequence[int], rows: int, config: GRPOTrainingConfig) -> list[PlannedStep]:
    """The steps of one epoch; ``number`` and ``phase_steps`` are set later."""
    grpo_epoch = epoch - _rce_epochs(config)  # negative during the warm-up
    stage: Stage = "rce" if grpo_epoch < 0 else "early" if grpo_epoch < config.curriculum_epochs else "late"
    if config.mode == "sft":
        stage = "sft"
    top_k = config.early_top_k if stage == "early" else None
    order = list(range(len(sizes)))
    random.Random(f"{config.seed}:order:{epoch}").shuffle(order)  # noqa: S311
    packed = list(pack(order, [size if top_k is None else min(size, top_k) for size in sizes], rows))
    return [
        PlannedStep(stage, 0, 0, round(epoch + number / len(packed), 6), number == len(packed), groups, top_k)
        for number, groups in enumerate(packed, start=1)
    ]


def learning_rate(step: PlannedStep, config: GRPOTrainingConfig) -> float:
    """The learning rate of a step."""
    peak, steps = config.learning_rate, step.phase_steps
    if step.stage == "rce":
        peak = config.rce_learning_rate or peak / 10
    warmup = math.ceil(config.warmup_steps * (steps if config.warmup_steps < 1 else 1))
    return peak * lr_factor(step.number, total_steps=steps, warmup_steps=warmup, schedule=config.lr_scheduler_type)
