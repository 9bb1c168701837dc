"""Figures on held-out responses: an estimate of the reward, or their log-probs. Nothing is sampled."""
# ruff: noqa: N806 - names end in their shape

from __future__ import annotations

import statistics
from typing import NamedTuple

import torch
from accelerate.utils import gather_object

from grpo_training.rl_math.losses import kl_per_token
from grpo_training.train.data.rows import cut
from grpo_training.train.data.samples import Sample
from grpo_training.train.offline.training import Training
from grpo_training.train.processes import local_share


class _Scored(NamedTuple):
    """Figures of one response: sums over its tokens, and the number of them."""

    log_ratio: float
    log_prob: float
    divergence: float
    tokens: float


def validate(training: Training) -> dict[str, float]:
    """Metrics on the held-out groups: an estimate of the reward of a fresh response, and the KL to the initial model.

    The responses of a group are weighted by how much likelier the policy makes them than the policy at the start of
    the training: ``w = softmax(logp - start_logp)`` over whole responses. ``sum w r`` estimates the reward of a fresh
    response (self-normalised importance sampling), provided that the responses were sampled from the starting
    policy. Before any training it is the mean reward, ``validation/reward_start``. With long responses a few of them
    have nearly all the weight: ``validation/effective_samples``, the mean of ``1 / sum w^2``, is the number of
    responses that the estimate rests on.

    In supervised training, ``validation/loss`` is the mean over the chats of the cross-entropy of their labels. All
    processes call this; they divide the responses, and each gets the result.
    """
    scored = _scored(training)
    rows = [row for group in training.data.validation for row in group]
    kl = sum(scored[row].divergence for row in rows) / max(sum(scored[row].tokens for row in rows), 1)
    if training.config.mode == "sft":
        loss = -statistics.fmean(scored[row].log_prob / scored[row].tokens for row in rows)
        return {"validation/loss": loss, "validation/kl": kl}
    rewards, effective = [], []
    for group in training.data.validation:
        weights = torch.tensor([scored[row].log_ratio for row in group], dtype=torch.float64).softmax(0)
        rewards.append(float((weights * torch.tensor([row.reward for row in group], dtype=torch.float64)).sum()))
        effective.append(float(1 / weights.square().sum()))
    return {
        "validation/reward": statistics.fmean(rewards),
        "validation/reward_start": statistics.fmean(
            statistics.fmean(row.reward for row in group) for group in training.data.validation
        ),
        "validation/kl": kl,
        "validation/effective_samples": statistics.fmean(effective),
    }


def _scored(training: Training) -> dict[Sample, _Scored]:
    """The figures of each held-out response, from all processes."""
    rows = [row for group in training.data.validation for row in group]
    index = {row: number for number, row in enumerate(rows)}
    scored: dict[int, _Scored] = {}
    with torch.no_grad():
        for micro_batch, counts in local_share(cut(rows, training.config), training.accelerator):
            batch = training.collate(micro_batch)
            logps_BC = training.logps(batch)
            start_BC, mask_BC = training.reference.logps(micro_batch, batch), batch.mask_BC
            columns = ((logps_BC - start_BC), logps_BC, kl_per_token(logps_BC, start_BC), torch.ones_like(logps_BC))
            figures_B4 = torch.stack([(values_BC * mask_BC).sum(1) for values_BC in columns], dim=1)
            if counts:
                of_rows = zip(micro_batch, figures_B4.tolist(), strict=True)
                scored |= {index[row]: _Scored(*figures) for row, figures in of_rows}
    return {rows[number]: of_row for share in gather_object([scored]) for number, of_row in share.items()}
