"""Losses of the fine-tune: pure functions from log-probs to a loss and its metrics.

Shapes: B rows (responses), C completion positions, padded on the right. ``mask_BC`` is true where a token counts.

An optimizer step may be cut into micro-batches of any size. Every function takes the totals of the whole step and
returns the *share* of its micro-batch. Shares, of losses and metrics alike, are summed over the step, so any cut gives
the same sums and gradients.
"""
# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from engine.errors import ConfigurationError

LossType = Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo"]
ImportanceLevel = Literal["token", "sequence"]

# exp(20) is 5e8. An infinite ratio would turn an advantage of 0 into NaN.
_LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True)
class StepTotals:
    """Totals of an optimizer step over all of its micro-batches."""

    sequences: int
    """Responses, including those whose tokens are all masked."""
    tokens: int
    """Completion tokens that count: the sum of all masks."""


@dataclass(frozen=True)
class LossTerm:
    """The share of a micro-batch in one loss term."""

    loss: Tensor
    """0-dim, with gradients. Summed over the micro-batches of the step it is the term."""
    metrics: dict[str, float]
    """Metrics under TRL's names; summed over the micro-batches of the step they are those of the step."""


def policy_loss(
    logps_BC: Tensor,
    old_logps_BC: Tensor,
    advantages_B: Tensor,
    mask_BC: Tensor,
    *,
    loss_type: LossType,
    epsilon: float,
    epsilon_high: float | None = None,
    importance_sampling_level: ImportanceLevel = "token",
    beta: float = 0.0,
    ref_logps_BC: Tensor | None = None,
    max_completion_length: int,
    totals: StepTotals,
    scored: StepTotals | None = None,
) -> LossTerm:
    """The clipped policy gradient of GRPO and its relatives, with an optional KL penalty.

    With the ratio ``r = exp(logp - old_logp)`` and the advantage ``A``, a token costs ``-min(r A, clip(r) A)``, where
    ``clip`` keeps ``r`` in ``[1 - epsilon, 1 + epsilon_high]``. The types differ in what the sum is divided by:

    * ``grpo`` (arXiv 2402.03300): the mean over a response's tokens, then over responses.
    * ``dr_grpo`` (2503.20783): the number of responses times ``max_completion_length``, so length has no weight.
    * ``dapo`` (2503.14476): the tokens of the step.
    * ``bnpo``: in TRL the tokens of one micro-batch, so that the cut changes the loss. Here its batch is the step, as
      for every type: it equals TRL's if a step is one micro-batch, and it equals ``dapo``.
    * ``cispo`` (2506.13585): as ``dapo``, with ``-min(r, epsilon_high).detach() A logp``: every token has a gradient.
      As in TRL, ``epsilon_high`` bounds the ratio itself (5.0 is usual), and there is no lower bound.

    ``importance_sampling_level="sequence"`` takes one ratio per response, the exponential of the mean log-ratio (GSPO,
    2507.18071).

    Args:
        logps_BC: log-probs of the trained policy, with gradients.
        old_logps_BC: log-probs under the sampling policy. NaN means unknown: the ratio is 1 (with the gradient of the
            trained policy), and the token is counted in ``old_logps_missing``.
        advantages_B: one per response.
        mask_BC: true for tokens that count.
        loss_type: see above.
        epsilon: the ratio is clipped below at ``1 - epsilon``.
        epsilon_high: the ratio is clipped above at ``1 + epsilon_high``; None: ``epsilon``.
        importance_sampling_level: one ratio per token or per response.
        beta: weight of the KL to the reference.
        ref_logps_BC: log-probs under the reference. With ``beta`` 0 they are used for the metric ``kl`` only.
        max_completion_length: the divisor of ``dr_grpo``, in tokens.
        totals: of the whole optimizer step.
        scored: the part of ``totals`` that is scored at all, where rows without gradient are left out of every
            micro-batch: the divisor of ``ratio_mean``, as those rows have no ratio. None: all of ``totals``.

    Returns:
        The loss, with ``clip_ratio/low_mean``, ``clip_ratio/high_mean``, ``clip_ratio/region_mean`` (``cispo``:
        ``cispo_clip_ratio``), ``ratio_mean``, ``old_logps_missing`` and, with a reference, ``kl``.

    Raises:
        ConfigurationError: a ``beta`` without reference, ``cispo`` without ``epsilon_high``.
    """
    _check(loss_type, epsilon_high, beta, ref_logps_BC)
    mask_BC = mask_BC.bool()
    high = epsilon if epsilon_high is None else epsilon_high
    detached_BC = logps_BC.detach()
    unknown_BC = mask_BC & old_logps_BC.isnan()
    # Outside the mask every log-ratio is 0, independent of the padding of the stored log-probs.
    old_BC = torch.where(mask_BC & ~unknown_BC, old_logps_BC, detached_BC)
    log_ratio = logps_BC - old_BC
    if importance_sampling_level == "sequence":
        log_ratio = (log_ratio * mask_BC).sum(1, keepdim=True) / mask_BC.sum(1, keepdim=True).clamp(min=1)
    ratio = log_ratio.clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT).exp()  # (B, C), or (B, 1) for one ratio per response
    advantages_B1 = advantages_B.unsqueeze(1)

    if loss_type == "cispo":
        cost_BC = -ratio.clamp(max=high).detach() * advantages_B1 * logps_BC
    else:
        cost_BC = -torch.min(ratio * advantages_B1, ratio.clamp(1 - epsilon, 1 + high) * advantages_B1)

    kl_BC = None
    if ref_logps_BC is not None:
        kl_BC = kl_per_token(logps_BC, torch.where(mask_BC, ref_logps_BC, detached_BC))
        if beta:
            cost_BC = cost_BC + beta * kl_BC

    loss = _reduce(cost_BC * mask_BC, mask_BC, loss_type, max_completion_length, totals)
    with torch.no_grad():
        clipped = _clipped(ratio, advantages_B1, loss_type, epsilon, high)
        share = _share_of_responses if importance_sampling_level == "sequence" else _share
        metrics = {name: share(values, mask_BC, totals) for name, values in clipped.items()}
        metrics["ratio_mean"] = share(ratio, mask_BC, scored or totals)
        metrics["old_logps_missing"] = unknown_BC.sum()
        if kl_BC is not None:
            metrics["kl"] = _share(kl_BC, mask_BC, totals)
    return LossTerm(loss, _floats(metrics))


def sft_loss(logps_BC: Tensor, mask_BC: Tensor, *, tokens: int) -> Tensor:
    """Cross-entropy on given responses: the share of a micro-batch in the mean over the tokens of the mask.

    Args:
        logps_BC: log-probs of the trained policy, with gradients.
        mask_BC: true for tokens that count.
        tokens: the tokens of this term in the whole optimizer step.
    """
    return -(logps_BC * mask_BC.bool()).sum() / max(tokens, 1)


def rce_loss(
    logps_BC: Tensor,
    mask_BC: Tensor,
    rewards_B: Tensor,
    group_of_B: Tensor,
    *,
    temperature: float,
    groups: int,
) -> LossTerm:
    """Reward-conditioned estimation: imitate the responses of a group with weights ``softmax(reward / temperature)``.

    The cross-entropy of a response is the *sum* over its tokens, so the term is ``-sum_i w_i log p(response_i)``: the
    divergence from the reward-weighted distribution over whole responses, up to a constant. A mean over tokens would
    give more weight to each token of a short response, and so favour short responses.

    Args:
        logps_BC: log-probs of the trained policy, with gradients.
        mask_BC: true for tokens that count. A response without any has no weight in its group.
        rewards_B: one per response.
        group_of_B: the group of each response, as integers. A call has whole groups.
        temperature: above 0. High: near-equal weights; low: weight on the best responses.
        groups: number of groups in the whole optimizer step.

    Returns:
        The loss, with ``rce/nll`` (per token, weighted as the loss) and ``rce/weight_max`` (the mean over groups of the
        largest weight; 1/n for n responses means that the temperature is too high for these rewards).
    """
    if temperature <= 0:
        raise ConfigurationError(f"The temperature of RCE must be above 0, got {temperature:g}")
    mask_BC = mask_BC.bool()
    tokens_B = mask_BC.sum(1)
    scores_B = (rewards_B.to(logps_BC.dtype) / temperature).masked_fill(tokens_B == 0, -torch.inf)
    weights_B, largest = _softmax_in_groups(scores_B, group_of_B)
    nll_B = -(logps_BC * mask_BC).sum(1)
    count = max(groups, 1)
    loss = (weights_B * nll_B).sum() / count
    nll = (weights_B * nll_B.detach() / tokens_B.clamp(min=1)).sum() / count
    return LossTerm(loss, _floats({"rce/nll": nll, "rce/weight_max": largest / count}))


def kl_per_token(logps: Tensor, ref_logps: Tensor) -> Tensor:
    """The KL from the reference at each token, estimated from the sampled token.

    With ``d = logp - ref_logp`` it is ``k3 = exp(-d) + d - 1``: no bias, never negative. Source:
    joschu.net/blog/kl-approx.html.

    Args:
        logps: of the trained policy; any shape.
        ref_logps: of the reference; the same shape.
    """
    difference = logps - ref_logps
    return difference.neg().clamp(max=_LOG_RATIO_LIMIT).exp() + difference - 1


def _check(loss_type: str, epsilon_high: float | None, beta: float, ref_logps_BC: Tensor | None) -> None:
    if loss_type == "cispo" and epsilon_high is None:
        raise ConfigurationError(
            "cispo needs epsilon_high",
            why="It bounds the ratio itself; epsilon in its place would clip every token.",
            fix="Set epsilon_high, for example to 5.0.",
        )
    if beta and ref_logps_BC is None:
        raise ConfigurationError(f"beta is {beta:g}, but log-probs of the reference are missing")


def _reduce(
    cost_BC: Tensor, mask_BC: Tensor, loss_type: LossType, max_completion_length: int, totals: StepTotals
) -> Tensor:
    """Sum the masked costs and divide by the divisor of the loss type."""
    if loss_type == "grpo":
        return (cost_BC.sum(1) / mask_BC.sum(1).clamp(min=1)).sum() / max(totals.sequences, 1)
    if loss_type == "dr_grpo":
        return cost_BC.sum() / max(totals.sequences * max_completion_length, 1)
    return cost_BC.sum() / max(totals.tokens, 1)


def _clipped(
    ratio: Tensor, advantages_B1: Tensor, loss_type: LossType, epsilon: float, high: float
) -> dict[str, Tensor]:
    """Where clipping applies: the ratio exceeds a bound in the direction of the advantage."""
    if loss_type == "cispo":
        return {"cispo_clip_ratio": (ratio > high) & (advantages_B1 > 0)}
    low_side = (ratio < 1 - epsilon) & (advantages_B1 < 0)
    high_side = (ratio > 1 + high) & (advantages_B1 > 0)
    return {
        "clip_ratio/low_mean": low_side,
        "clip_ratio/high_mean": high_side,
        "clip_ratio/region_mean": low_side | high_side,
    }


def _share_of_responses(values_B1: Tensor, mask_BC: Tensor, totals: StepTotals) -> Tensor:
    """The share of this micro-batch in the mean of the step over responses, with one value each."""
    return values_B1.float().sum() / max(totals.sequences, 1)


def _share(values: Tensor, mask_BC: Tensor, totals: StepTotals) -> Tensor:
    """The share of this micro-batch in the mean of the step over tokens."""
    return (values * mask_BC).float().sum() / max(totals.tokens, 1)


def _softmax_in_groups(scores_B: Tensor, group_of_B: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax within each group, and the sum over groups of the largest weight."""
    index_B = group_of_B.unique(return_inverse=True)[1]
    groups = int(index_B.max()) + 1 if len(index_B) else 0
    top_G = scores_B.new_full((groups,), -torch.inf).scatter_reduce(0, index_B, scores_B, "amax")
    # A group whose rows all score -inf would give exp(nan); with a maximum of 0 its weights are exp(-inf) = 0.
    top_G = top_G.masked_fill(top_G == -torch.inf, 0.0)
    raised_B = (scores_B - top_G[index_B]).exp()
    sum_G = raised_B.new_zeros(groups).scatter_add(0, index_B, raised_B)
    weights_B = raised_B / sum_G[index_B].clamp(min=1e-30)
    largest = weights_B.new_zeros(groups).scatter_reduce(0, index_B, weights_B, "amax").sum()
    return weights_B, largest


def _floats(metrics: dict[str, Tensor]) -> dict[str, float]:
    """All metrics in one transfer, as each ``.item()`` would synchronise with the GPU."""
    return dict(zip(metrics, torch.stack([value.float() for value in metrics.values()]).tolist(), strict=True))
