"""Figures on held-out responses: an estimate of the reward, or their log-probs. Nothing is sampled."""
# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import torch

from grpo_training.finetune.data.rows import cut
from grpo_training.finetune.objective.losses import kl_per_token
from grpo_training.finetune.offline.checkpoints import Validation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from grpo_training.finetune.data.batches import Batch
    from grpo_training.finetune.data.samples import Sample
    from grpo_training.finetune.offline.training import Training


def validate_start(training: Training) -> Validation:
    """The figures of :func:`validate` for the initial model."""
    if training.config.mode != "sft":
        means = tuple(statistics.fmean(row.reward for row in group) for group in training.validation)
        return Validation(means, 0.0, statistics.fmean(len(group) for group in training.validation))
    log_probs: dict[Sample, float] = {}
    rows = [row for group in training.validation for row in group]
    with torch.no_grad():
        for part in cut(rows, training.config.per_device_train_batch_size):
            batch = training.collate(part)
            log_probs |= _mean_log_probs(part, training.reference.logps(part, batch, training.logps), batch)
    return Validation(tuple(log_probs[row] for row in rows), 0.0, 1.0)


def validate(training: Training) -> Validation:
    """Estimate the reward of a fresh response on the held-out groups, and the KL to the starting policy.

    The responses of a group are weighted by how much likelier the policy makes them than the policy at the start of
    the training: ``w = softmax(logp - start_logp)`` over whole responses. ``sum w r`` estimates the reward of a fresh
    response (self-normalised importance sampling), provided that the responses were sampled from the starting
    policy. Before any training it is the mean reward. With long responses a few of them have nearly all the weight:
    ``effective_samples``, the mean of ``1 / sum w^2``, is the number of responses that the estimate rests on.

    In supervised training, the figure of a chat in place of the reward is the mean log-prob of its labels.
    """
    rows = [row for group in training.validation for row in group]
    log_ratios: dict[Sample, float] = {}
    log_probs: dict[Sample, float] = {}
    divergence = tokens = 0.0
    training.model.eval()
    with torch.no_grad():
        for part in cut(rows, training.config.per_device_train_batch_size):
            batch = training.collate(part)
            logps_BC = training.logps(training.model, batch)
            log_probs |= _mean_log_probs(part, logps_BC, batch)
            start_BC = training.reference.logps(part, batch, training.logps)
            moved_B = ((logps_BC - start_BC) * batch.mask_BC).sum(1)
            log_ratios |= dict(zip(part, moved_B.tolist(), strict=True))
            divergence += float((kl_per_token(logps_BC, start_BC) * batch.mask_BC).sum())
            tokens += float(batch.mask_BC.sum())
    training.model.train()
    if training.config.mode == "sft":
        return Validation(tuple(log_probs[row] for row in rows), divergence / max(tokens, 1.0), 1.0)
    rewards, effective = [], []
    for group in training.validation:
        weights = torch.tensor([log_ratios[row] for row in group], dtype=torch.float64).softmax(0)
        rewards.append(float((weights * torch.tensor([row.reward for row in group], dtype=torch.float64)).sum()))
        effective.append(float(1 / weights.square().sum()))
    return Validation(tuple(rewards), divergence / max(tokens, 1.0), statistics.fmean(effective))


def _mean_log_probs(rows: Sequence[Sample], logps_BC: Tensor, batch: Batch) -> dict[Sample, float]:
    means_B = (logps_BC * batch.mask_BC).sum(1) / batch.mask_BC.sum(1)
    return dict(zip(rows, means_B.tolist(), strict=True))
