"""How good the policy is, from stored replies that are held out: nothing is sampled."""
# ruff: noqa: N806 - names end in their shape

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import torch

from grpo_training.finetune.objective.losses import kl_per_token
from grpo_training.finetune.offline.batches import cut
from grpo_training.finetune.offline.checkpoints import Validation

if TYPE_CHECKING:
    from grpo_training.finetune.offline.step import Run


def validate(run: Run) -> Validation:
    """How the policy does on the groups that are held out.

    Nothing is sampled. A group's responses are weighed by how much likelier the policy makes them than the policy that
    the training began with did: ``w = softmax(logp - start_logp)`` over whole responses. ``sum w r`` estimates the
    reward of a fresh response (self-normalised importance sampling), if the responses came from the start. Before any
    training it is the mean reward. With long responses few of them carry all the weight: ``effective_samples``, the
    mean of ``1 / sum w^2``, says on how many of a group the estimate rests.
    """
    rows = [row for group in run.validation for row in group]
    log_ratios: dict[int, float] = {}
    divergence = tokens = 0.0
    run.model.eval()
    with torch.no_grad():
        for part in cut(rows, run.config.per_device_train_batch_size):
            batch = run.batch(part)
            logps_BC = run.logps(run.model, batch)
            start_BC = run.reference.logps(part, batch, run.logps)
            moved_B = ((logps_BC - start_BC) * batch.mask_BC).sum(1)
            log_ratios |= {id(row): value for row, value in zip(part, moved_B.tolist(), strict=True)}
            divergence += float((kl_per_token(logps_BC, start_BC) * batch.mask_BC).sum())
            tokens += float(batch.mask_BC.sum())
    run.model.train()
    rewards, effective = [], []
    for group in run.validation:
        weights = torch.tensor([log_ratios[id(row)] for row in group], dtype=torch.float64).softmax(0)
        rewards.append(float((weights * torch.tensor([row.reward for row in group], dtype=torch.float64)).sum()))
        effective.append(float(1 / weights.square().sum()))
    return Validation(tuple(rewards), divergence / max(tokens, 1.0), statistics.fmean(effective))
