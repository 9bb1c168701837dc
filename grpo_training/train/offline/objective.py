"""The objective of a micro-batch: supervised, or RCE, or GRPO with self-SFT, or teacher-SFT."""
# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from grpo_training.rl_math.losses import LossTerm, policy_loss, rce_loss, sft_loss
from grpo_training.train.data.batches import Batch
from grpo_training.train.offline.step_rows import MicroBatch, StepRows

if TYPE_CHECKING:
    from grpo_training.train.offline.training import Training


def objective(
    training: Training, step_rows: StepRows, micro_batch: MicroBatch
) -> tuple[Tensor, dict[str, Tensor | float]]:
    """A micro-batch's share of the loss of its step.

    Args:
        training: the model, the reference and the configuration.
        step_rows: the whole step.
        micro_batch: one of its micro-batches.

    Returns:
        the weighted loss, and the metrics. Summed over the micro-batches of the step they are those of the step.
    """
    config = training.config
    batch = training.collate(micro_batch.rows)
    if micro_batch.term in ("sft", "teacher_sft"):
        loss = sft_loss(training.logps(batch, temperature=1.0), batch.mask_BC, tokens=step_rows.sft_tokens)
        weight = config.teacher_sft_weight if micro_batch.term == "teacher_sft" else 1.0
        return weight * loss, {f"loss/{micro_batch.term}": loss}
    if micro_batch.term == "rce":
        term = rce_loss(
            training.logps(batch, temperature=1.0),
            batch.mask_BC,
            batch.rewards_B,
            batch.group_of_B,
            temperature=step_rows.rce_temperature,
            groups=step_rows.rce_groups,
        )
        return term.loss, {"loss/rce": term.loss, **term.metrics}

    logps_BC, entropy_BC = training.logps_and_entropy(batch)
    policy = _policy_term(training, step_rows, micro_batch, batch, logps_BC)
    loss = config.grpo_weight * policy.loss
    metrics = {"loss/grpo": policy.loss, **policy.metrics, "entropy": entropy_BC.sum() / step_rows.scored.tokens}
    if any(micro_batch.in_self_sft):
        sft_logps_BC = logps_BC
        if config.temperature != 1:  # one more forward pass
            sft_logps_BC = training.logps(batch, temperature=1.0)
        in_self_sft_B1 = torch.tensor(micro_batch.in_self_sft, device=logps_BC.device).unsqueeze(1)
        imitation = sft_loss(sft_logps_BC, batch.mask_BC & in_self_sft_B1, tokens=step_rows.self_sft_tokens)
        loss = loss + config.self_sft_weight * imitation
        metrics["loss/self_sft"] = imitation
    return loss, metrics


def _policy_term(
    training: Training, step_rows: StepRows, micro_batch: MicroBatch, batch: Batch, logps_BC: Tensor
) -> LossTerm:
    """The GRPO term.

    Where the log-probs of the sampling policy are unknown, those of the policy at the start of the training take their
    place, so that a token that has moved far enough has no gradient any more.
    """
    config, beta = training.config, training.beta
    unknown_BC = batch.old_logps_BC.isnan() & batch.mask_BC
    reference_BC, old_BC = None, batch.old_logps_BC
    if beta > 0 or bool(unknown_BC.any()):
        reference_BC = training.reference.logps(micro_batch.rows, batch)
        old_BC = torch.where(unknown_BC, reference_BC, old_BC)
    term = policy_loss(
        logps_BC,
        old_BC,
        batch.advantages_B,
        batch.mask_BC,
        loss_type=config.loss_type,
        epsilon=config.epsilon,
        epsilon_high=config.upper_epsilon,
        importance_sampling_level=config.importance_sampling_level,
        beta=beta,
        ref_logps_BC=reference_BC if beta > 0 else None,
        max_completion_length=config.max_completion_length,
        totals=step_rows.totals,
        scored=step_rows.scored,
    )
    return LossTerm(term.loss, term.metrics | {"old_logps_missing": float(unknown_BC.sum())})
