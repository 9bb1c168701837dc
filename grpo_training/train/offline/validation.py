"""Figures on held-out responses: an estimate of the reward, or their log-probs. Nothing is sampled."""
# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

import statistics
from dataclasses import dataclass

import torch
from accelerate.utils import gather_object
from torch import Tensor

from grpo_training.rl_math.losses import kl_per_token
from grpo_training.train.data.batches import Batch
from grpo_training.train.data.rows import cut
from grpo_training.train.data.samples import Sample
from grpo_training.train.offline.checkpoints import HeldOutFigures
from grpo_training.train.offline.training import Training
from grpo_training.train.processes import local_share


@dataclass(frozen=True)
class _Scored:
    """Figures of one response: sums over its tokens, and the number of them."""

    log_ratio: float
    log_prob: float
    divergence: float
    tokens: int


def validate_start(training: Training) -> HeldOutFigures:
    """The figures of :func:`validate` for the initial model. The reference has scored the responses."""
    if training.config.mode != "sft":
        means = tuple(statistics.fmean(row.reward for row in group) for group in training.validation)
        return HeldOutFigures(means, 0.0, statistics.fmean(len(group) for group in training.validation))
    start = []
    for row in (row for group in training.validation for row in group):
        batch = training.collate([row])
        start.append(float(training.reference.logps([row], batch).sum() / batch.mask_BC.sum()))
    return HeldOutFigures(tuple(start), 0.0, 1.0)


def validate(training: Training) -> HeldOutFigures:
    """Estimate the reward of a fresh response on the held-out groups, and the KL to the initial model.

    The responses of a group are weighted by how much likelier the policy makes them than the policy at the start of
    the training: ``w = softmax(logp - start_logp)`` over whole responses. ``sum w r`` estimates the reward of a fresh
    response (self-normalised importance sampling), provided that the responses were sampled from the starting
    policy. Before any training it is the mean reward. With long responses a few of them have nearly all the weight:
    ``effective_samples``, the mean of ``1 / sum w^2``, is the number of responses that the estimate rests on.

    In supervised training, the figure of a chat in place of the reward is the mean log-prob of its labels. All
    processes call this; they divide the responses, and each gets the result.
    """
    scored = _scored(training)
    rows = [row for group in training.validation for row in group]
    tokens = sum(scored[row].tokens for row in rows)
    divergence = sum(scored[row].divergence for row in rows) / max(tokens, 1)
    if training.config.mode == "sft":
        return HeldOutFigures(tuple(scored[row].log_prob / scored[row].tokens for row in rows), divergence, 1.0)
    rewards, effective = [], []
    for group in training.validation:
        weights = torch.tensor([scored[row].log_ratio for row in group], dtype=torch.float64).softmax(0)
        rewards.append(float((weights * torch.tensor([row.reward for row in group], dtype=torch.float64)).sum()))
        effective.append(float(1 / weights.square().sum()))
    return HeldOutFigures(tuple(rewards), divergence, statistics.fmean(effective))


def _scored(training: Training) -> dict[Sample, _Scored]:
    """The figures of each held-out response, from all processes."""
    rows = [row for group in training.validation for row in group]
    number = {row: place for place, row in enumerate(rows)}
    found: dict[int, _Scored] = {}
    with training.scoring():
        parts = cut(rows, training.config)
        for part, counts in local_share(parts, training.accelerator):
            batch = training.collate(part)
            logps_BC = training.logps(batch)
            if counts:
                start_BC = training.reference.logps(part, batch)
                found |= {number[row]: one for row, one in zip(part, _figures(logps_BC, start_BC, batch), strict=True)}
    return {rows[place]: one for share in gather_object([found]) for place, one in share.items()}


def _figures(logps_BC: Tensor, start_BC: Tensor, batch: Batch) -> list[_Scored]:
    mask_BC = batch.mask_BC
    columns = (
        ((logps_BC - start_BC) * mask_BC).sum(1).tolist(),
        (logps_BC * mask_BC).sum(1).tolist(),
        (kl_per_token(logps_BC, start_BC) * mask_BC).sum(1).tolist(),
        mask_BC.sum(1).tolist(),
    )
    return [_Scored(*one) for one in zip(*columns, strict=True)]
