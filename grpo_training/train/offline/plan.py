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

from grpo_training.rl_math.schedules import curriculum_top_k, lr_factor
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rows import balanced

Stage = Literal["sft", "rce", "early", "late"]
"""Supervised (all steps or none); reward-weighted warm-up; GRPO on the best responses of each group; GRPO on all of
them, or on ``late_top_k``."""


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
    ``per_device_train_batch_size x gradient_accumulation_steps x processes`` rows together, and at least one. The steps
    of an epoch have nearly as many rows each: a small last one would give its rows more weight than all others have, as
    each step is a mean. ``max_steps`` truncates the plan, or extends it by further late epochs.

    Args:
        sizes: number of responses of each group.
        config: the training configuration.
        processes: number of processes that train together.
    """
    if not sizes:
        return []
    rows = config.per_device_train_batch_size * config.gradient_accumulation_steps * processes
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
    top_k = None
    if stage in ("early", "late"):
        top_k = curriculum_top_k(grpo_epoch, config.curriculum_epochs, config.early_top_k, config.late_top_k)
    order = list(range(len(sizes)))
    random.Random(f"{config.seed}:order:{epoch}").shuffle(order)  # noqa: S311
    packed = list(balanced(order, [size if top_k is None else min(size, top_k) for size in sizes], rows))
    return [
        PlannedStep(stage, 0, 0, round(epoch + number / len(packed), 6), number == len(packed), groups, top_k)
        for number, groups in enumerate(packed, start=1)
    ]


def learning_rate(step: PlannedStep, config: GRPOTrainingConfig) -> float:
    """The learning rate of a step."""
    peak = config.learning_rate
    if step.stage == "rce" and config.rce_learning_rate is not None:
        peak = config.rce_learning_rate
    steps = step.phase_steps
    warmup = config.warmup_steps or math.ceil(config.warmup_ratio * steps)
    return peak * lr_factor(step.number, total_steps=steps, warmup_steps=warmup, schedule=config.lr_scheduler_type)
