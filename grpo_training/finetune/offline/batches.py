"""Samples on their way to a model: the plan of all steps, the rows of a step, and rows as tensors.

All of it is a function of the samples, the configuration and the seed, so a run that goes on after step k needs to
know nothing but k.
"""
# ruff: noqa: N815 - names end in their shape

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from engine.statistics.groups import group_stats
from grpo_training.finetune.objective.schedules import curriculum_top_k

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

    from grpo_training.finetune.config import GRPOTrainingConfig
    from grpo_training.finetune.data.samples import Sample

Stage = Literal["rce", "early", "late"]
"""Reward-weighted warm-up; GRPO on the best replies of each group; GRPO on all, or as ``late_top_k`` says."""


# ------------------------------------------------------------------ the plan


@dataclass(frozen=True)
class PlannedStep:
    """One optimiser step.

    Args:
        stage: which loss it takes.
        number: its place in its phase (the warm-up, or all of GRPO), from 0.
        phase_steps: how many steps that phase has; learning rates and temperatures run over a phase.
        epoch: passes over the data that are done when the step is done, as a fraction.
        ends_epoch: whether it is the last of its epoch.
        groups: the groups in it, by their index.
        top_k: how many responses of a group it takes, the best first; None: all.
    """

    stage: Stage
    number: int
    phase_steps: int
    epoch: float
    ends_epoch: bool
    groups: tuple[int, ...]
    top_k: int | None = None


def plan_steps(sizes: Sequence[int], config: GRPOTrainingConfig, processes: int = 1) -> list[PlannedStep]:
    """All steps of a training.

    Each epoch takes every group once, in an order of its own. A step holds whole groups, as many as have
    ``per_device_train_batch_size x gradient_accumulation_steps x processes`` rows, and at least one. ``max_steps`` cuts
    the plan, or lengthens it by further late epochs.

    Args:
        sizes: responses of each group.
        config: of the training.
        processes: that train together.
    """
    if not sizes:
        return []
    rows = config.per_device_train_batch_size * config.gradient_accumulation_steps * processes
    limit = config.max_steps if config.max_steps > 0 else None
    warm_up = [step for epoch in range(config.rce_epochs) for step in _epoch(epoch, sizes, rows, config)][:limit]
    policy: list[PlannedStep] = []
    epoch, last = config.rce_epochs, config.rce_epochs + config.num_train_epochs
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


def _epoch(epoch: int, sizes: Sequence[int], rows: int, config: GRPOTrainingConfig) -> list[PlannedStep]:
    """The steps of one epoch, not yet numbered."""
    passed = epoch - config.rce_epochs  # epochs of the policy loss before this one
    stage: Stage = "rce" if passed < 0 else "early" if passed < config.curriculum_epochs else "late"
    top_k = None
    if stage != "rce":
        top_k = curriculum_top_k(passed, config.curriculum_epochs, config.early_top_k, config.late_top_k)
    order = list(range(len(sizes)))
    random.Random(f"{config.seed}:order:{epoch}").shuffle(order)  # noqa: S311
    packed = list(_packed(order, [size if top_k is None else min(size, top_k) for size in sizes], rows))
    return [
        PlannedStep(stage, 0, 0, round(epoch + place / len(packed), 6), place == len(packed), groups, top_k)
        for place, groups in enumerate(packed, start=1)
    ]


def _packed(order: Sequence[int], sizes: Sequence[int], rows: int) -> Iterator[tuple[int, ...]]:
    step: list[int] = []
    filled = 0
    for index in order:
        if step and filled + sizes[index] > rows:
            yield tuple(step)
            step, filled = [], 0
        step.append(index)
        filled += sizes[index]
    if step:
        yield tuple(step)


# ------------------------------------------------------------------ the rows of a step


def best_of(group: Sequence[Sample], top_k: int | None) -> list[Sample]:
    """The ``top_k`` responses of the highest reward, the first of equals; None: all, as they stand.

    Their advantages stay those within the whole group: among the best alone there would be hardly any spread left.
    """
    if top_k is None:
        return list(group)
    return sorted(group, key=lambda sample: -sample.reward)[:top_k]


def own_successes(group: Sequence[Sample], rows: Sequence[Sample], config: GRPOTrainingConfig) -> list[Sample]:
    """Which of a group's ``rows`` self-SFT imitates.

    Those of at least ``self_sft_min_reward`` that came to their end: the best ``self_sft_top_k`` different ones. None
    of a group that succeeds always, as there is nothing to add.

    Args:
        group: all responses to the prompt.
        rows: those that the step holds.
        config: of the training.
    """
    if all(sample.reward >= config.self_sft_min_reward for sample in group):
        return []
    chosen: dict[tuple[int, ...], Sample] = {}
    for sample in best_of(rows, len(rows)):
        if sample.reward >= config.self_sft_min_reward and not sample.truncated:
            chosen.setdefault(sample.completion_ids, sample)
    return list(chosen.values())[: config.self_sft_top_k]


def teacher_rows(teacher: Sequence[Sample], step: int, count: int, seed: int) -> list[Sample]:
    """The ``count`` teacher traces of a step: all are taken in turn, each pass in an order of its own."""
    if not teacher:
        return []
    first, last = step * count, (step + 1) * count
    taken: list[Sample] = []
    for number in range(first // len(teacher), (last - 1) // len(teacher) + 1):
        order = list(teacher)
        random.Random(f"{seed}:teacher:{number}").shuffle(order)  # noqa: S311
        taken += order
    skipped = first % len(teacher)
    return taken[skipped : skipped + count]


def with_standard_rewards(group: Sequence[Sample]) -> list[Sample]:
    """The group with its rewards as z-scores, 0 where all are equal: the scale that RCE's temperatures are made for."""
    scores = group_stats([sample.reward for sample in group], tau=0.0).advantages
    return [replace(sample, reward=score) for sample, score in zip(group, scores, strict=True)]


def cut(rows: Sequence[Sample], size: int) -> list[list[Sample]]:
    """Micro-batches of at most ``size`` rows: sorted by length, so that little is padded."""
    ordered = sorted(rows, key=lambda sample: sample.length)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def cut_groups(groups: Sequence[Sequence[Sample]], size: int) -> list[list[Sequence[Sample]]]:
    """Micro-batches of whole groups, like lengths together: at most ``size`` rows, and at least one group."""
    ordered = sorted(groups, key=lambda group: max(sample.length for sample in group))
    sizes = [len(group) for group in ordered]
    return [[ordered[index] for index in chosen] for chosen in _packed(range(len(ordered)), sizes, size)]


# ------------------------------------------------------------------ rows as tensors


@dataclass(frozen=True)
class Batch:
    """Rows as tensors: B rows, T positions of prompt and completion, C positions of completion; padded on the right.

    Args:
        input_ids_BT: prompt, completion, padding.
        attention_mask_BT: 1 where a token is.
        completion_start_B: how many tokens the prompt has.
        mask_BC: true at each token of the completion that counts, its end-of-turn token included.
        old_logps_BC: under the policy that sampled; NaN where unknown.
        advantages_B, rewards_B: of each row.
        group_of_B: number of the row's group within this batch.
    """

    input_ids_BT: torch.Tensor
    attention_mask_BT: torch.Tensor
    completion_start_B: torch.Tensor
    mask_BC: torch.Tensor
    old_logps_BC: torch.Tensor
    advantages_B: torch.Tensor
    rewards_B: torch.Tensor
    group_of_B: torch.Tensor

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        return Batch(**{name: tensor.to(device, non_blocking=True) for name, tensor in vars(self).items()})


def collate(
    rows: Sequence[Sample], pad_token_id: int, *, advantage_clip: float = float("inf"), mask_truncated: bool = False
) -> Batch:
    """Rows as tensors.

    Args:
        rows: at least one.
        pad_token_id: fills the input where no token is; nothing reads it.
        advantage_clip: advantages are cut to ``[-advantage_clip, advantage_clip]``.
        mask_truncated: rows that were cut off get an empty mask.
    """
    import torch

    width = max(row.length for row in rows)
    longest = max(len(row.completion_ids) for row in rows)
    ids = torch.full((len(rows), width), pad_token_id)
    attention = torch.zeros((len(rows), width), dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.bool)
    old = torch.full((len(rows), longest), float("nan"))
    numbers = {group_id: number for number, group_id in enumerate(dict.fromkeys(row.group_id for row in rows))}
    for place, row in enumerate(rows):
        length = len(row.completion_ids)
        ids[place, : row.length] = torch.tensor(row.prompt_ids + row.completion_ids)
        attention[place, : row.length] = 1
        if not (mask_truncated and row.truncated):
            mask[place, :length] = True
        if row.old_logps is not None:
            old[place, :length] = torch.tensor(row.old_logps)
    advantages = torch.tensor([row.advantage for row in rows]).clamp(-advantage_clip, advantage_clip)
    return Batch(
        input_ids_BT=ids,
        attention_mask_BT=attention,
        completion_start_B=torch.tensor([len(row.prompt_ids) for row in rows]),
        mask_BC=mask,
        old_logps_BC=old,
        advantages_B=advantages,
        rewards_B=torch.tensor([row.reward for row in rows]),
        group_of_B=torch.tensor([numbers[row.group_id] for row in rows]),
    )


def fingerprint(groups: Sequence[Sequence[Sample]]) -> str:
    """A hash of samples, so that a resumed run can tell whether they are the same."""
    digest = hashlib.sha256()
    for group in groups:
        digest.update(b"group")
        for sample in group:
            digest.update(repr(sample).encode())
    return digest.hexdigest()
