"""The weights of the loss terms at a step, and the controller of beta, as a configuration describes them."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_training.rl_math.schedules import AdaptiveKL, half_cosine, share_done
from grpo_training.train.config import GRPOTrainingConfig


def adaptive_kl(config: GRPOTrainingConfig) -> AdaptiveKL:
    """The controller of beta, at its initial value."""
    return AdaptiveKL(
        beta=config.beta,
        low=config.kl_target_low,
        high=config.kl_target_high,
        factor=config.kl_adjustment_factor,
        minimum=config.beta_min,
        maximum=config.beta_max,
    )


@dataclass(frozen=True)
class TermWeights:
    """The weights of the loss terms at one step."""

    grpo: float
    teacher_sft: float
    self_sft: float


def term_weights(step: int, total_steps: int, config: GRPOTrainingConfig, *, has_teacher: bool) -> TermWeights:
    """The weights of the terms at ``step``, by ``config.sft_schedule``.

    ``constant`` keeps the configured weights. ``linear`` decays both imitation terms to 0. ``chord`` moves from the
    teacher to the rewards: ``(1 - mu)`` times the policy loss and ``mu`` times the teacher term, which is the
    objective of arXiv 2508.11408 where both configured weights are 1; self-SFT keeps its weight.
    ``chord_decay_steps`` 0 means all steps after its warm-up. Without a teacher its term is 0, and ``chord`` is
    ``constant``.
    """
    base = TermWeights(config.grpo_weight, config.teacher_sft_weight if has_teacher else 0.0, config.self_sft_weight)
    if config.sft_schedule == "linear":
        left = 1.0 - share_done(step, total_steps)
        return TermWeights(base.grpo, base.teacher_sft * left, base.self_sft * left)
    if config.sft_schedule == "constant" or not has_teacher:
        return base
    mu = chord_mu(
        step,
        peak=config.chord_mu_peak,
        end=config.chord_mu_end,
        warmup_steps=config.chord_warmup_steps,
        decay_steps=config.chord_decay_steps or max(total_steps - config.chord_warmup_steps, 1),
    )
    return TermWeights(base.grpo * (1.0 - mu), base.teacher_sft * mu, base.self_sft)


def chord_mu(step: int, *, peak: float, end: float, warmup_steps: int, decay_steps: int) -> float:
    """The weight of the teacher in CHORD: linear from 0 to ``peak``, then a half cosine to ``end``."""
    if step < warmup_steps:
        return peak * step / warmup_steps
    return end + (peak - end) * half_cosine(share_done(step - warmup_steps, decay_steps))
