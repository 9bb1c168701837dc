"""The phases of a training and their objectives: SFT, RCE and GRPO on scored sequences.

Where this differs from the usual:

* Advantages are relative to all candidates of a query, also in epochs that train on the best of them. A query whose
  candidates have equal rewards adds nothing, and its share is a metric.
* The old policy of GRPO is the one at the start of the phase. It and the trained policy are scored without dropout.
* The ratio is that of whole sequences, and the KL is ``mean(ratio - 1 - log ratio)`` over the stored sequences.
* Both policies of a ratio have the same temperature: ``softmax(logits / temperature)``. The higher it is, the further
  logits may move before a ratio is clipped. The KL that adapts temperature and beta is that at temperature 1, the
  policy as it is used.
"""
# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from grpo_training.rl_math.losses import LossTerm, StepTotals, kl_per_token, policy_loss, rce_loss, sft_loss
from grpo_training.selector.data.groups import Batch
from grpo_training.selector.model.decoding import sequence_logps_at
from grpo_training.selector.model.pointer import PointerSelector
from grpo_training.selector.rewards import group_advantages, has_spread, normalize_rewards_zscore

PhaseName = Literal["sft", "rce", "grpo"]
ADVANTAGE_QUANTILES = (10, 50, 90)
"""Per cent; the distribution of advantages in the metrics."""


@dataclass(frozen=True)
class Phase:
    """A part of a training with an optimizer and a schedule of its own."""

    name: PhaseName
    epochs: int
    learning_rate: float


def step_logps(model: PointerSelector, batch: Batch) -> Tensor:
    """Log-probs (B, N, S) of the stored sequences; 0 at steps that do not exist."""
    return step_logps_at(model, batch, (1.0,))[0]


def step_logps_at(model: PointerSelector, batch: Batch, temperatures: tuple[float, ...]) -> Tensor:
    """Log-probs (T, B, N, S) of the stored sequences at several temperatures; 0 at steps that do not exist."""
    encoded = model.encode(batch.query_BD, batch.pool_BKD, batch.pool_mask_BK)
    logps_TBNS = sequence_logps_at(model, encoded, batch.labels_BNS, temperatures)
    return logps_TBNS.masked_fill(~batch.step_mask_BNS, 0.0)


def expected_reward(logps_BN: Tensor, batch: Batch) -> float:
    """The mean reward of the stored sequences in proportion to their probabilities."""
    weights_BN = logps_BN.detach().double().masked_fill(~batch.sequence_mask_BN, -torch.inf).softmax(-1)
    return float((weights_BN * batch.rewards_BN).sum(-1).mean())


def sft_step(model: PointerSelector, batch: Batch) -> LossTerm:
    """Mean cross-entropy of every step of every stored sequence."""
    logps_BNS = step_logps(model, batch)
    flat, mask = logps_BNS.flatten(0, 1), batch.step_mask_BNS.flatten(0, 1)
    loss = sft_loss(flat, mask, tokens=int(mask.sum()))
    return LossTerm(loss, {"loss": float(loss.detach())})


def rce_step(model: PointerSelector, batch: Batch, temperature: float) -> LossTerm:
    """Cross-entropy of the stored sequences, weighted by ``softmax(normalised reward / temperature)``."""
    logps_BNS = step_logps(model, batch)
    term = rce_term(logps_BNS, batch, temperature)
    metrics = {"loss": float(term.loss.detach()), "rce/temperature": temperature}
    return LossTerm(term.loss, term.metrics | metrics | {"reward": expected_reward(logps_BNS.sum(-1), batch)})


def rce_term(logps_BNS: Tensor, batch: Batch, temperature: float) -> LossTerm:
    """The loss of RCE from the log-probs of the stored sequences."""
    mask_BN = batch.sequence_mask_BN
    scores_BN = normalize_rewards_zscore(batch.rewards_BN, mask_BN)
    groups_BN = torch.arange(len(mask_BN), device=mask_BN.device).unsqueeze(1).expand_as(mask_BN)
    return rce_loss(
        logps_BNS.flatten(0, 1),
        batch.step_mask_BNS.flatten(0, 1),
        scores_BN.flatten(),
        groups_BN.flatten(),
        temperature=temperature,
        groups=len(mask_BN),
    )


def grpo_step(
    model: PointerSelector,
    batch: Batch,
    old: PointerSelector,
    *,
    top_k: int | None,
    beta: float,
    epsilon: float,
    temperature: float = 1.0,
) -> LossTerm:
    """The clipped policy gradient over stored sequences, and ``beta`` times the KL to the old policy.

    Args:
        model: the trained policy.
        batch: stored sequences with their rewards.
        old: the policy at the start of the phase.
        top_k: sequences of each query that are used, the best first; None: all.
        beta: weight of the KL.
        epsilon: ratios are clipped to 1 ± this.
        temperature: of both policies in the ratio.

    ``kl`` of the metrics is that at temperature 1.
    """
    logps_TBN = step_logps_at(model, batch, (1.0, temperature)).sum(-1)
    with torch.no_grad():
        old_TBN = step_logps_at(old, batch, (1.0, temperature)).sum(-1)
    logps_BN = logps_TBN[1]
    advantages_BN = group_advantages(batch.rewards_BN, batch.sequence_mask_BN).float()
    spread_B = has_spread(batch.rewards_BN, batch.sequence_mask_BN)
    kept_BN = batch.sequence_mask_BN & spread_B.unsqueeze(1) & best_sequences(batch, top_k)
    metrics = {
        "frac_reward_zero_std": float((~spread_B).float().mean()),
        "beta": beta,
        "grpo/temperature": temperature,
        "reward": expected_reward(logps_TBN[0], batch),
    }
    if not bool(kept_BN.any()):
        return LossTerm(logps_BN.sum() * 0.0, {"loss": 0.0, **metrics})  # its KL is not measured, and adapts nothing
    new, before, advantages = (values[kept_BN] for values in (logps_BN, old_TBN[1], advantages_BN))
    used, used_before = logps_TBN[0][kept_BN].detach(), old_TBN[0][kept_BN]
    ones = torch.ones_like(new, dtype=torch.bool).unsqueeze(1)
    totals = StepTotals(len(new), len(new))
    term = policy_loss(
        new.unsqueeze(1),
        before.unsqueeze(1),
        advantages,
        ones,
        loss_type="grpo",
        epsilon=epsilon,
        max_completion_length=1,
        totals=totals,
    )
    # With the arguments in this order k3 is ratio - 1 - log(ratio), and the ratio is new / old as above.
    kl = kl_per_token(before, new).mean()
    loss = term.loss + beta * kl
    metrics |= term.metrics | {
        "loss": float(loss.detach()),
        "loss/policy": float(term.loss.detach()),
        "loss/kl": float(beta * kl.detach()),
        "kl": float(kl_per_token(used_before, used).mean()),
        "advantage/mean": float(advantages.mean()),
        "advantage/std": float(advantages.std(unbiased=False)),
        "advantage/max": float(advantages.max()),
        **{f"advantage/q{share}": float(advantages.quantile(share / 100)) for share in ADVANTAGE_QUANTILES},
    }
    return LossTerm(loss, metrics)


def best_sequences(batch: Batch, top_k: int | None) -> Tensor:
    """Which sequences (B, N) are among the ``top_k`` of their query by reward; the earlier ones of equals."""
    if top_k is None or top_k >= batch.rewards_BN.shape[1]:
        return batch.sequence_mask_BN
    rewards_BN = batch.rewards_BN.masked_fill(~batch.sequence_mask_BN, -torch.inf)
    order_BN = rewards_BN.argsort(dim=1, descending=True, stable=True)[:, :top_k]
    chosen_BN = torch.zeros_like(batch.sequence_mask_BN).scatter(1, order_BN, True)
    return chosen_BN & batch.sequence_mask_BN
