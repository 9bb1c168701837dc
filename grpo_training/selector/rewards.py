"""Rewards of shot sequences: normalisation, advantages, weights, and the three levels of reward.

The rewards of a query's candidates are compared with each other only. Functions take tensors whose last dimension
runs over the candidates of one query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import torch
from torch import Tensor

from engine.errors import ConfigurationError
from grpo_training.selector.step_settings import NormalizeMethod, RewardMode

ADVANTAGE_CLIP = 5.0
REWARD_CLIP = 5.0
MEASUREMENTS: Mapping[RewardMode, Sequence[str]] = {
    "hard_plus_soft": ("soft",),
    "hard_plus_soft_v2": ("soft",),
    "separated": ("soft",),
    "hard_only": ("hard",),
    "soft_only": ("soft",),
    "hard01_plus_gtprob": ("gt_prob",),
    "hard01_plus_gtprob_separated": ("gt_prob",),
    "hard_plus_gtprob_plus_rel": ("gt_prob", "rel"),
    "legacy": ("hard",),
}
"""What has to be measured in each mode of :func:`task_reward`. Others that are missing are 0."""
_NO_SPREAD = 1e-12
"""InfoScores can be as small as 1e-7, so that a usual epsilon would hide their differences."""


def normalize_rewards_zscore(rewards: Tensor, mask: Tensor | None = None) -> Tensor:
    """Z-scores of the rewards of each query: ``(r - mean) / std`` with the unbiased std.

    Args:
        rewards: (..., N), one per candidate.
        mask: true for the candidates that exist; None: all.

    Returns:
        the same shape; 0 for a query whose rewards are all equal, and outside the mask.
    """
    values = rewards.double()
    real = torch.ones_like(values, dtype=torch.bool) if mask is None else mask.bool()
    count = real.sum(-1, keepdim=True)
    mean = (values * real).sum(-1, keepdim=True) / count.clamp(min=1)
    centred = (values - mean) * real
    std = (centred.square().sum(-1, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
    # The rounding error of equal rewards is a spread too, so it is compared with their size.
    limit = torch.maximum(torch.full_like(mean, _NO_SPREAD), 1e-12 * mean.abs())
    return torch.where(std > limit, centred / std.clamp(min=1e-300), torch.zeros_like(values)).to(rewards.dtype)


def has_spread(rewards: Tensor, mask: Tensor | None = None) -> Tensor:
    """Whether the rewards of each query differ; without spread there is nothing to learn from it."""
    return (normalize_rewards_zscore(rewards, mask) != 0).any(-1)


def normalize_rewards(rewards: Tensor, mask: Tensor, method: NormalizeMethod, clamp: float = 3.0) -> Tensor:
    """The rewards of each query on a common scale; 0 outside the mask.

    Args:
        rewards: (B, N).
        mask: true for the candidates that exist.
        method: ``z_score``; ``z_score_clamp``, clamped to [-clamp, clamp]; ``rank_normalize``, ranks from 1 (best) to
            -1, where equal rewards have the mean of their ranks; ``none``.
        clamp: bound of ``z_score_clamp``.
    """
    if method == "none":
        return rewards * mask
    if method == "rank_normalize":
        return _ranks(rewards, mask)
    scores = normalize_rewards_zscore(rewards, mask)
    return scores.clamp(-clamp, clamp) if method == "z_score_clamp" else scores


def _ranks(rewards: Tensor, mask: Tensor) -> Tensor:
    both = mask.unsqueeze(-1) & mask.unsqueeze(-2)
    difference = rewards.unsqueeze(-1) - rewards.unsqueeze(-2)  # [i, j] = r_i - r_j
    balance = (((difference > 0) & both).sum(-1) - ((difference < 0) & both).sum(-1)).to(rewards.dtype)
    return balance / (mask.sum(-1, keepdim=True) - 1).clamp(min=1) * mask


def clip_advantages(advantages: Tensor, limit: float = ADVANTAGE_CLIP) -> Tensor:
    """Advantages within [-limit, limit], so that one candidate cannot dominate a gradient."""
    return advantages.clamp(-limit, limit)


def compute_softmax_weights(rewards: Tensor, temperature: float = 1.0) -> Tensor:
    """The weights of RCE: ``softmax(reward / temperature)`` over the candidates of each query.

    Raises:
        ConfigurationError: the temperature is not positive.
    """
    if temperature <= 0:
        raise ConfigurationError(f"The temperature of RCE must be above 0, got {temperature:g}")
    return (rewards / temperature).softmax(-1)


def group_advantages(rewards: Tensor, mask: Tensor, limit: float = ADVANTAGE_CLIP) -> Tensor:
    """Group-relative advantages over all candidates of each query, clipped."""
    return clip_advantages(normalize_rewards_zscore(rewards, mask), limit)


def task_reward(
    mode: RewardMode,
    *,
    hard: float = 0.0,
    soft: float = 0.0,
    gt_prob: float = 0.0,
    rel: float = 0.0,
    quality: float = 0.0,
    hard_weight: float = 1.0,
    soft_weight: float = 1.0,
    rel_weight: float = 0.1,
) -> float:
    """The task-level reward of a candidate, clipped to [-5, 5].

    Args:
        mode: how the measurements are combined.
        hard: 1 if the answer is right (soft accuracy above 0), else 0.
        soft: soft accuracy in [0, 1].
        gt_prob: probability of the reference answers.
        rel: relevance of the answer to the references, in [0, 1].
        quality: beam score, or log-prob, of the candidate; for ``legacy``.
        hard_weight, soft_weight, rel_weight: weights of the terms.

    Raises:
        ConfigurationError: an unknown mode.
    """
    bonus = 2 * hard_weight * hard
    rewards: dict[str, float] = {
        "hard_plus_soft": hard_weight * hard + soft_weight * soft,
        "hard_plus_soft_v2": soft_weight * soft + bonus,
        "separated": soft_weight * soft + bonus,  # differs from v2 only where a wrong answer had soft accuracy
        "hard_only": hard_weight * hard,
        "soft_only": soft_weight * soft,
        "hard01_plus_gtprob": hard_weight * hard + soft_weight * gt_prob,
        "hard01_plus_gtprob_separated": soft_weight * gt_prob + bonus,
        "hard_plus_gtprob_plus_rel": hard_weight * hard + soft_weight * gt_prob + rel_weight * (1 - hard) * rel,
        "legacy": soft_weight * quality + hard_weight * hard,
    }
    if mode not in rewards:
        raise ConfigurationError(f"Unknown reward mode {mode!r}", fix=f"Use one of: {', '.join(get_args(RewardMode))}.")
    return max(-REWARD_CLIP, min(REWARD_CLIP, rewards[mode]))


def sequence_reward(query: Tensor, shots: Tensor) -> tuple[float, float]:
    """The sequence-level measurements of a candidate, both in [0, 1].

    Coherence is the mean cosine of the query with its shots; diversity is 1 minus the mean cosine between the shots (1
    for a single shot). A negative cosine counts as 0.

    Args:
        query: (d,).
        shots: (S, d), at least one.

    Returns:
        coherence and diversity.
    """
    query = torch.nn.functional.normalize(query, dim=-1)
    shots = torch.nn.functional.normalize(shots, dim=-1)
    coherence = float((shots @ query).clamp(min=0).mean())
    count = len(shots)
    if count == 1:
        return coherence, 1.0
    between = (shots @ shots.T).clamp(0, 1)
    return coherence, 1.0 - float((between.sum() - between.diagonal().sum()) / (count * (count - 1)))
