"""The objective of a micro-batch: supervised, or RCE, or GRPO with self-SFT, or teacher-SFT."""
# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from grpo_training.rl_math.losses import (
    LossTerm,
    policy_loss,
    rce_loss,
    sft_loss,
    truncated_importance_weights,
)
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
    config, weights = training.config, step_rows.weights
    batch = training.collate(micro_batch.rows)
    if micro_batch.term == "sft":
        logps_BC = training.logps(batch, temperature=1.0)
        term = sft_loss(logps_BC, batch.mask_BC, tokens=step_rows.sft_tokens)
        return term.loss, {"loss/sft": term.loss}
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
    if micro_batch.term == "teacher_sft":
        logps_BC = training.logps(batch, temperature=config.sft_temperature)
        term = sft_loss(logps_BC, batch.mask_BC, tokens=step_rows.teacher_tokens, phi=config.chord_phi)
        return weights.teacher_sft * term.loss, {"loss/teacher_sft": term.loss}

    logps_BC, entropy_BC = training.logps_and_entropy(batch)
    policy = _policy_term(training, step_rows, micro_batch, batch, logps_BC)
    loss = weights.grpo * policy.loss
    metrics = {"loss/grpo": policy.loss, **policy.metrics, "entropy": entropy_BC.sum() / step_rows.scored.tokens}
    if any(micro_batch.in_self_sft):
        sft_logps_BC = logps_BC
        if config.sft_temperature != config.temperature:  # one more forward pass
            sft_logps_BC = training.logps(batch, temperature=config.sft_temperature)
        in_self_sft_B1 = torch.tensor(micro_batch.in_self_sft, device=logps_BC.device).unsqueeze(1)
        term = sft_loss(
            sft_logps_BC, batch.mask_BC & in_self_sft_B1, tokens=step_rows.self_sft_tokens, phi=config.chord_phi
        )
        loss = loss + weights.self_sft * term.loss
        metrics["loss/self_sft"] = term.loss
    return loss, metrics


def _policy_term(
    training: Training, step_rows: StepRows, micro_batch: MicroBatch, batch: Batch, logps_BC: Tensor
) -> LossTerm:
    """The GRPO term.

    Where the log-probs of the sampling policy are unknown, the ratio is 1 and clipping never applies. With
    ``missing_logprobs: start`` the policy at the start of the training replaces them, so that a token that has moved
    far enough has no gradient any more.
    """
    config, beta = training.config, training.beta
    unknown_BC = batch.old_logps_BC.isnan() & batch.mask_BC
    uses_start = config.missing_logprobs == "start" and bool(unknown_BC.any())
    reference_BC = importance_BC = None
    if beta > 0 or config.importance_cap is not None or uses_start:
        reference_BC = training.reference.logps(micro_batch.rows, batch)
    old_BC = batch.old_logps_BC
    if config.importance_cap is not None and reference_BC is not None:
        # The sampling policy is then the start of this training as this machine scores it; the server's log-probs
        # only give the importance weights between the two.
        importance_BC = truncated_importance_weights(reference_BC, old_BC, cap=config.importance_cap)
        old_BC = torch.where(old_BC.isnan(), old_BC, reference_BC)
    if uses_start and reference_BC is not None:
        old_BC = torch.where(unknown_BC, reference_BC, old_BC)
    term = policy_loss(
        logps_BC,
        old_BC,
        batch.advantages_B,
        batch.mask_BC,
        loss_type=config.loss_type,
        epsilon=config.epsilon,
        epsilon_high=config.epsilon_high,
        delta=config.delta,
        importance_sampling_level=config.importance_sampling_level,
        beta=beta,
        ref_logps_BC=reference_BC if beta > 0 else None,
        kl_estimator=config.kl_estimator,
        use_bias_correction_kl=config.use_bias_correction_kl,
        max_completion_length=config.max_completion_length,
        totals=step_rows.totals,
        scored=step_rows.scored,
        importance_weights_BC=importance_BC,
    )
    return LossTerm(term.loss, term.metrics | {"old_logps_missing": float(unknown_BC.sum())})
