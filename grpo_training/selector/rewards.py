"""Rewards of shot sequences: normalisation, advantages, weights, and the three levels of reward.

The rewards of a query's candidates are compared with each other only. Functions take tensors whose last dimension
runs over the candidates of one query.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.errors import ConfigurationError

ADVANTAGE_CLIP = 5.0
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
