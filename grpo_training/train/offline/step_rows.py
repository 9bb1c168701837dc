"""The rows of one optimizer step: micro-batches, and the totals of the whole step that losses are divided by."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from grpo_training.rl_math.losses import StepTotals
from grpo_training.rl_math.schedules import rce_temperature
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rows import (
    best_of,
    cut,
    cut_groups,
    cut_places,
    own_successes,
    teacher_rows,
    with_standard_rewards,
)
from grpo_training.train.data.samples import Group, Sample
from grpo_training.train.offline.plan import PlannedStep

if TYPE_CHECKING:
    from grpo_training.train.offline.training import Training


@dataclass(frozen=True)
class MicroBatch:
    """The rows of one forward pass.

    Args:
        term: the loss that they take.
        rows: the samples.
        in_self_sft: for ``policy``, whether self-SFT imitates the row as well.
    """

    term: Literal["sft", "rce", "policy", "teacher_sft"]
    rows: list[Sample]
    in_self_sft: tuple[bool, ...] = ()


@dataclass(frozen=True)
class StepRows:
    """All rows of one optimizer step, over all processes.

    Args:
        micro_batches: to be divided among the processes.
        num_tokens: prompt and completion tokens that pass through the model.
        metrics: figures of the step that need no forward pass.
        rce_groups, rce_temperature: of the warm-up.
        totals: responses and completion tokens of the policy loss, rows without gradient included.
        scored: those of them that pass through the model.
        self_sft_tokens: completion tokens of self-SFT.
        sft_tokens: those of teacher-SFT, or of a supervised step.
    """

    micro_batches: list[MicroBatch]
    num_tokens: int
    metrics: dict[str, float]
    rce_groups: int = 0
    rce_temperature: float = 1.0
    totals: StepTotals = field(default=StepTotals(0, 0))
    scored: StepTotals = field(default=StepTotals(0, 0))
    self_sft_tokens: int = 0
    sft_tokens: int = 0


def rows_of(training: Training, index: int) -> StepRows:
    """The rows of a step of the plan."""
    step = training.plan[index]
    groups = [training.data.groups[number] for number in step.groups]
    if step.stage == "sft":
        return _sft_step(groups, training.config)
    if step.stage == "rce":
        return _rce_step(step, groups, training.config)
    return _policy_step(training, index, groups)


def _rce_step(step: PlannedStep, groups: Sequence[Group], config: GRPOTrainingConfig) -> StepRows:
    """A step of the reward-weighted warm-up: whole groups, with their rewards as z-scores."""
    counted = [_counted(with_standard_rewards(group), config) for group in groups]
    counted = [group for group in counted if group]
    temperature = rce_temperature(step.number, step.phase_steps)
    batches = cut_groups(counted, config.per_device_train_batch_size)
    return StepRows(
        [MicroBatch("rce", [row for group in batch for row in group]) for batch in batches],
        num_tokens=sum(row.length for group in counted for row in group),
        metrics={"rce_temperature": temperature} | reward_metrics(groups),
        rce_groups=len(counted),
        rce_temperature=temperature,
    )


def _sft_step(groups: Sequence[Group], config: GRPOTrainingConfig) -> StepRows:
    """A supervised step: the mean cross-entropy of all labels of the step."""
    rows = [row for group in groups for row in group]
    return StepRows(
        [MicroBatch("sft", batch) for batch in cut(rows, config)],
        num_tokens=sum(row.length for row in rows),
        metrics={"completions/mean_length": statistics.fmean(len(row.completion_ids) for row in rows)},
        sft_tokens=_completion_tokens(rows),
    )


def _policy_step(training: Training, index: int, groups: Sequence[Group]) -> StepRows:
    """A step of GRPO with its imitation terms.

    Self-SFT imitates rows of the policy loss, so both share one forward pass. Rows that add nothing to the gradient
    (advantage 0 and no KL, or truncated and masked) are left out; they count in ``totals``, so the gradient is the
    same. Teacher traces come in batches of their own, as many rows as the step has; ``index`` selects them.
    """
    config, beta = training.config, training.beta
    rows: list[Sample] = []
    imitated: list[int] = []  # indices into rows
    for group in groups:
        kept = best_of(group, training.plan[index].top_k)
        if config.self_sft_weight > 0:
            imitated += [len(rows) + number for number in own_successes(group, kept, config)]
        rows += kept
    with_gradient = [
        number
        for number, row in enumerate(rows)
        if config.grpo_weight > 0 and _counted([row], config) and (beta > 0 or row.advantage != 0)
    ]
    numbers = list(dict.fromkeys([*with_gradient, *imitated]))
    scored, in_self_sft = [rows[number] for number in numbers], [number in imitated for number in numbers]
    count = config.rows_of_step * training.accelerator.num_processes
    traces = teacher_rows(training.data.teacher, index, count, config.seed)
    policy_parts = [
        MicroBatch("policy", [scored[number] for number in chosen], tuple(in_self_sft[number] for number in chosen))
        for chosen in cut_places(scored, config)
    ]
    return StepRows(
        policy_parts + [MicroBatch("teacher_sft", batch) for batch in cut(traces, config)],
        num_tokens=sum(row.length for row in scored) + sum(row.length for row in traces),
        metrics={
            "beta": beta,
            "rows_without_gradient": float(len(rows) - len(scored)),
            **reward_metrics(groups),
        },
        totals=StepTotals(len(rows), _completion_tokens(_counted(rows, config))),
        scored=StepTotals(len(scored), _completion_tokens(scored)),
        self_sft_tokens=_completion_tokens(rows[number] for number in imitated),
        sft_tokens=_completion_tokens(traces),
    )


def reward_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Figures on the stored responses of whole groups, also on those that a curriculum leaves out."""
    rewards = [[row.reward for row in group] for group in groups]
    rows = [row for group in groups for row in group]
    values = [row.reward for row in rows]
    return {
        "reward": statistics.fmean(values),
        "reward_std": statistics.stdev(values) if len(values) > 1 else 0.0,  # of the whole batch, as in TRL
        "frac_reward_zero_std": statistics.fmean(float(max(group) == min(group)) for group in rewards),
        "completions/mean_length": statistics.fmean(len(row.completion_ids) for row in rows),
        "completions/clipped_ratio": statistics.fmean(float(row.truncated) for row in rows),
    }


def _counted(rows: Iterable[Sample], config: GRPOTrainingConfig) -> list[Sample]:
    """The rows whose tokens count in the losses."""
    return [row for row in rows if not (config.mask_truncated_completions and row.truncated)]


def _completion_tokens(rows: Iterable[Sample]) -> int:
    return sum(len(row.completion_ids) for row in rows)
