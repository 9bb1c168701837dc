"""What the fine-tune minimises: pure functions from log-probs to a loss and its figures.

Shapes: B rows (responses), C completion positions, padded on the right. ``mask_BC`` is true where a token counts.

An optimiser step may be cut into micro-batches of any sizes. Every function therefore takes the totals of the whole
step and returns this micro-batch's *share*: the shares of a step, losses and metrics alike, are summed, and any cut
gives the same sums and gradients.
"""
# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from engine.errors import ConfigurationError

if TYPE_CHECKING:
    from torch import Tensor

LossType = Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo"]
ImportanceLevel = Literal["token", "sequence"]
KLEstimator = Literal["k1", "k2", "k3"]

# exp(20) is 5e8: no ratio beyond it means anything, while an infinite one would turn an advantage of 0 into NaN.
_LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True)
class StepTotals:
    """What a whole optimiser step holds, over all of its micro-batches."""

    sequences: int
    """Responses, also those whose tokens are all masked."""
    tokens: int
    """Completion tokens that count: the sum of all masks."""


@dataclass(frozen=True)
class LossTerm:
    """One micro-batch's share of one term of the objective."""

    loss: Tensor
    """0-dim, with its graph. Summed over the step's micro-batches it is the term."""
    metrics: dict[str, float]
    """Figures under TRL's names, shares too: summed over the step's micro-batches they are the step's figures."""


def policy_loss(
    logps_BC: Tensor,
    old_logps_BC: Tensor,
    advantages_B: Tensor,
    mask_BC: Tensor,
    *,
    loss_type: LossType,
    epsilon: float,
    epsilon_high: float | None = None,
    delta: float | None = None,
    importance_sampling_level: ImportanceLevel = "token",
    beta: float = 0.0,
    ref_logps_BC: Tensor | None = None,
    kl_estimator: KLEstimator = "k3",
    use_bias_correction_kl: bool = False,
    max_completion_length: int,
    totals: StepTotals,
    scored: StepTotals | None = None,
    importance_weights_BC: Tensor | None = None,
) -> LossTerm:
    """The clipped policy gradient of GRPO and its relatives, with an optional KL penalty.

    With the ratio ``r = exp(logp - old_logp)`` and the advantage ``A``, a token costs ``-min(r A, clip(r) A)``, where
    ``clip`` keeps ``r`` in ``[1 - epsilon, 1 + epsilon_high]``. The types differ in what the sum is divided by:

    * ``grpo`` (arXiv 2402.03300): the mean over a response's tokens, then over responses.
    * ``dr_grpo`` (2503.20783): the sum over responses times ``max_completion_length``, so length carries no weight.
    * ``dapo`` (2503.14476): the sum over the step's tokens.
    * ``bnpo``: in TRL the sum over the tokens of one micro-batch, so that the cut changes the loss. Here its batch is
      the step, as for every type: it equals TRL's where a step is one micro-batch, and it equals ``dapo``.
    * ``cispo`` (2506.13585): as ``dapo``, with ``-min(r, epsilon_high).detach() A logp``: no token loses its gradient.
      As in TRL, ``epsilon_high`` bounds the ratio itself (5.0 is usual), and there is no lower bound.

    ``importance_sampling_level="sequence"`` takes one ratio per response, the exponential of the mean log-ratio (GSPO,
    2507.18071).

    Args:
        logps_BC: log-probs of the policy that learns, with their graph.
        old_logps_BC: log-probs under the policy that sampled. NaN means unknown: the ratio there is 1 (with the
            gradient of the policy itself), and it is counted in ``old_logps_missing``.
        advantages_B: one advantage a response.
        mask_BC: true for tokens that count.
        loss_type: see above.
        epsilon: how far below 1 the ratio may fall before it is clipped.
        epsilon_high: how far above; None means ``epsilon``.
        delta: upper bound of the ratio on the unclipped side as well (two-sided clipping, 2505.07291), which bounds
            the loss of a response with a negative advantage; None means off. ``cispo`` has no use for it.
        importance_sampling_level: one ratio a token or one a response.
        beta: weight of the KL to the reference.
        ref_logps_BC: log-probs under the reference. Without ``beta`` they only give the metric ``kl``.
        kl_estimator: see :func:`kl_per_token`.
        use_bias_correction_kl: multiply the KL of a token by its ratio, with its gradient: unbiased where the tokens
            come from another policy than the one that learns (2512.02556).
        max_completion_length: the divisor of ``dr_grpo``, in tokens.
        totals: of the whole optimizer step.
        scored: the part of ``totals`` that is scored at all, where rows without gradient are left out of every
            micro-batch: the divisor of ``ratio_mean``, as those rows have no ratio. None: all of ``totals``.
        importance_weights_BC: factors for the policy's part, without gradient (:func:`truncated_importance_weights`).

    Returns:
        The loss, with ``clip_ratio/low_mean``, ``clip_ratio/high_mean``, ``clip_ratio/region_mean`` (``cispo``:
        ``cispo_clip_ratio``), ``ratio_mean``, ``old_logps_missing`` and, with a reference, ``kl``.

    Raises:
        ConfigurationError: an unknown name, a ``beta`` without reference, ``cispo`` without ``epsilon_high``.
    """
    _check(loss_type, importance_sampling_level, epsilon_high, beta, ref_logps_BC)
    mask_BC = mask_BC.bool()
    high = epsilon if epsilon_high is None else epsilon_high
    detached_BC = logps_BC.detach()
    unknown_BC = mask_BC & old_logps_BC.isnan()
    # Outside the mask every log-ratio is 0, whatever the padding of the stored log-probs holds.
    old_BC = torch.where(mask_BC & ~unknown_BC, old_logps_BC, detached_BC)
    log_ratio = logps_BC - old_BC
    if importance_sampling_level == "sequence":
        log_ratio = (log_ratio * mask_BC).sum(1, keepdim=True) / mask_BC.sum(1, keepdim=True).clamp(min=1)
    ratio = log_ratio.clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT).exp()  # (B, C), or (B, 1) for a ratio a response
    advantages_B1 = advantages_B.unsqueeze(1)

    if loss_type == "cispo":
        cost_BC = -ratio.clamp(max=high).detach() * advantages_B1 * logps_BC
    else:
        unclipped = ratio if delta is None else ratio.clamp(max=delta)
        cost_BC = -torch.min(unclipped * advantages_B1, ratio.clamp(1 - epsilon, 1 + high) * advantages_B1)
    if importance_weights_BC is not None:
        cost_BC = cost_BC * importance_weights_BC

    kl_BC = None
    if ref_logps_BC is not None:
        kl_BC = kl_per_token(logps_BC, torch.where(mask_BC, ref_logps_BC, detached_BC), kl_estimator)
        if use_bias_correction_kl:
            kl_BC = kl_BC * ratio
        if beta:
            cost_BC = cost_BC + beta * kl_BC

    loss = _reduce(cost_BC * mask_BC, mask_BC, loss_type, max_completion_length, totals)
    with torch.no_grad():
        clipped = _clipped(ratio, advantages_B1, loss_type, epsilon, high)
        metrics = {name: _share(values, mask_BC, totals) for name, values in clipped.items()}
        metrics["ratio_mean"] = _share(ratio, mask_BC, scored or totals)
        metrics["old_logps_missing"] = unknown_BC.sum()
        if kl_BC is not None:
            metrics["kl"] = _share(kl_BC, mask_BC, totals)
    return LossTerm(loss, _floats(metrics))


def sft_loss(logps_BC: Tensor, mask_BC: Tensor, *, tokens: int, phi: bool = False) -> LossTerm:
    """Cross-entropy on given responses: the mean over the tokens that count, prompts and padding left out.

    Args:
        logps_BC: log-probs of the policy that learns, with their graph.
        mask_BC: true for tokens that count.
        tokens: the term's own tokens in the whole optimiser step.
        phi: weigh each token by ``p (1 - p)``, without gradient, so that tokens which are certain already, or hopeless
            still, pull little (CHORD, arXiv 2508.11408). The divisor stays ``tokens``: small weights make small steps.

    Returns:
        The loss, with ``nll`` (unweighted) and, with ``phi``, ``phi_mean``.
    """
    mask_BC = mask_BC.bool()
    count = max(tokens, 1)
    weights = 1.0
    metrics = {"nll": -(logps_BC.detach() * mask_BC).sum() / count}
    if phi:
        p_BC = logps_BC.detach().exp()
        weights = p_BC * (1 - p_BC)
        metrics["phi_mean"] = (weights * mask_BC).sum() / count
    loss = -(weights * logps_BC * mask_BC).sum() / count
    return LossTerm(loss, _floats(metrics))


def rce_loss(
    logps_BC: Tensor,
    mask_BC: Tensor,
    rewards_B: Tensor,
    group_of_B: Tensor,
    *,
    temperature: float,
    groups: int,
) -> LossTerm:
    """Reward-conditioned estimation: imitate a group's responses, each as much as ``softmax(reward / temperature)``.

    A response's cross-entropy is the *sum* over its tokens, so that the term is ``-sum_i w_i log p(response_i)``: the
    divergence from the reward-weighted distribution over whole responses, up to a constant. A mean over tokens would
    pull more at each token of a short response, and would so teach brevity.

    Args:
        logps_BC: log-probs of the policy that learns, with their graph.
        mask_BC: true for tokens that count. A response without any takes no weight from its group.
        rewards_B: one reward a response.
        group_of_B: the group of each response, as any integers. A whole group is in one call.
        temperature: above 0. High: all responses alike; low: only the best.
        groups: groups of the whole optimiser step.

    Returns:
        The loss, with ``rce/nll`` (per token, weighted as the loss) and ``rce/weight_max`` (the mean over groups of
        the largest weight: 1/n says that the rewards are too close together for this temperature to tell them apart).
    """
    if temperature <= 0:
        raise ConfigurationError(f"The temperature of RCE must be above 0, not {temperature:g}")
    mask_BC = mask_BC.bool()
    tokens_B = mask_BC.sum(1)
    scores_B = (rewards_B.to(logps_BC.dtype) / temperature).masked_fill(tokens_B == 0, -torch.inf)
    weights_B, largest = _softmax_in_groups(scores_B, group_of_B)
    nll_B = -(logps_BC * mask_BC).sum(1)
    count = max(groups, 1)
    loss = (weights_B * nll_B).sum() / count
    nll = (weights_B * nll_B.detach() / tokens_B.clamp(min=1)).sum() / count
    return LossTerm(loss, _floats({"rce/nll": nll, "rce/weight_max": largest / count}))


def kl_per_token(logps: Tensor, ref_logps: Tensor, estimator: KLEstimator = "k3") -> Tensor:
    """The divergence from the reference at each token, estimated from the token that was sampled.

    With ``d = logp - ref_logp``: ``k1 = d`` (no bias, may be negative), ``k2 = d^2 / 2`` (its gradient is that of the
    KL, its value is biased), ``k3 = exp(-d) + d - 1`` (no bias, never negative). As a penalty ``k1`` acts only together
    with the bias correction: its own gradient is 0 on average. Source: joschu.net/blog/kl-approx.html.

    Args:
        logps: of the policy that learns; any shape.
        ref_logps: of the reference, the same shape.
        estimator: k1, k2 or k3.
    """
    difference = logps - ref_logps
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return 0.5 * difference.square()
    if estimator == "k3":
        return difference.neg().clamp(max=_LOG_RATIO_LIMIT).exp() + difference - 1
    raise ConfigurationError(f"Unknown KL estimator: {estimator}", fix="Use k1, k2 or k3.")


def truncated_importance_weights(old_logps_BC: Tensor, sampler_logps_BC: Tensor, *, cap: float) -> Tensor:
    """What makes up for a server that computes log-probs a little differently: ``min(old / sampler, cap)`` a token.

    Args:
        old_logps_BC: under the sampling weights, as this machine computes them.
        sampler_logps_BC: the same tokens, as the server reported them; NaN (unknown) gives the weight 1.
        cap: the largest weight. It bounds the variance and costs a bias.

    Returns:
        Weights (B, C) without gradient.
    """
    log_ratio_BC = (old_logps_BC - sampler_logps_BC).detach().nan_to_num(nan=0.0)
    return log_ratio_BC.clamp(max=_LOG_RATIO_LIMIT).exp().clamp(max=cap)


def _check(loss_type: str, level: str, epsilon_high: float | None, beta: float, ref_logps_BC: Tensor | None) -> None:
    if loss_type not in ("grpo", "dr_grpo", "dapo", "bnpo", "cispo"):
        raise ConfigurationError(f"Unknown loss_type: {loss_type}", fix="Use grpo, dr_grpo, dapo, bnpo or cispo.")
    if level not in ("token", "sequence"):
        raise ConfigurationError(f"Unknown importance_sampling_level: {level}", fix="Use token or sequence.")
    if loss_type == "cispo" and epsilon_high is None:
        raise ConfigurationError(
            "cispo needs epsilon_high",
            why="It bounds the ratio itself; epsilon in its place would shrink every gradient.",
            fix="Set epsilon_high, for example to 5.0.",
        )
    if beta and ref_logps_BC is None:
        raise ConfigurationError(f"beta is {beta:g}, but there are no log-probs of the reference")


def _reduce(
    cost_BC: Tensor, mask_BC: Tensor, loss_type: LossType, max_completion_length: int, totals: StepTotals
) -> Tensor:
    """Sum the masked costs and divide by what the type divides by."""
    if loss_type == "grpo":
        return (cost_BC.sum(1) / mask_BC.sum(1).clamp(min=1)).sum() / max(totals.sequences, 1)
    if loss_type == "dr_grpo":
        return cost_BC.sum() / max(totals.sequences * max_completion_length, 1)
    return cost_BC.sum() / max(totals.tokens, 1)


def _clipped(
    ratio: Tensor, advantages_B1: Tensor, loss_type: LossType, epsilon: float, high: float
) -> dict[str, Tensor]:
    """Where clipping decides: the ratio is beyond a bound on the side to which the advantage pushes."""
    if loss_type == "cispo":
        return {"cispo_clip_ratio": (ratio > high) & (advantages_B1 > 0)}
    low_side = (ratio < 1 - epsilon) & (advantages_B1 < 0)
    high_side = (ratio > 1 + high) & (advantages_B1 > 0)
    return {
        "clip_ratio/low_mean": low_side,
        "clip_ratio/high_mean": high_side,
        "clip_ratio/region_mean": low_side | high_side,
    }


def _share(values: Tensor, mask_BC: Tensor, totals: StepTotals) -> Tensor:
    """This micro-batch's share of the step's mean: over tokens, or over responses where there is one value each."""
    if values.shape[1] == 1 != mask_BC.shape[1]:
        return values.float().sum() / max(totals.sequences, 1)
    return (values * mask_BC).float().sum() / max(totals.tokens, 1)


def _softmax_in_groups(scores_B: Tensor, group_of_B: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax among the rows of one group, and the sum over groups of the largest weight."""
    index_B = group_of_B.unique(return_inverse=True)[1]
    groups = int(index_B.max()) + 1 if len(index_B) else 0
    top_G = scores_B.new_full((groups,), -torch.inf).scatter_reduce(0, index_B, scores_B, "amax")
    # A group whose rows all score -inf would give exp(nan); with a top of 0 its weights are exp(-inf) = 0.
    top_G = top_G.masked_fill(top_G == -torch.inf, 0.0)
    raised_B = (scores_B - top_G[index_B]).exp()
    sum_G = raised_B.new_zeros(groups).scatter_add(0, index_B, raised_B)
    weights_B = raised_B / sum_G[index_B].clamp(min=1e-30)
    largest = weights_B.new_zeros(groups).scatter_reduce(0, index_B, weights_B, "amax").sum()
    return weights_B, largest


def _floats(metrics: dict[str, Tensor]) -> dict[str, float]:
    """All figures in one transfer: each ``.item()`` would make the CPU wait for the GPU."""
    if not metrics:
        return {}
    return dict(zip(metrics, torch.stack([value.float() for value in metrics.values()]).tolist(), strict=True))
