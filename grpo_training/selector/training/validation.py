"""Figures on held-out queries, and what other ways of choosing among the same stored sequences get."""
# ruff: noqa: N806 - names end in their shape

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from grpo_training.rl_math.losses import kl_per_token
from grpo_training.selector.data.embeddings import EmbeddingTable
from grpo_training.selector.data.groups import ShotGroup, make_batch
from grpo_training.selector.model.pointer import PointerSelector
from grpo_training.selector.rewards import group_advantages
from grpo_training.selector.training.phases import expected_reward, rce_term, step_logps

_BATCH = 64


@torch.no_grad()  # type: ignore[untyped-decorator]
def stored_logps(model: PointerSelector, groups: Sequence[ShotGroup], table: EmbeddingTable) -> dict[int, torch.Tensor]:
    """Query -> log-probs (N, S) of its stored sequences, without dropout."""
    was_training, device = model.training, str(next(model.parameters()).device)
    model.eval()
    logps: dict[int, torch.Tensor] = {}
    for start in range(0, len(groups), _BATCH):
        together = groups[start : start + _BATCH]
        logps_BNS = step_logps(model, make_batch(together, table, device=device)).cpu()
        logps |= {group.query: logps_BNS[row, : len(group.sequences)] for row, group in enumerate(together)}
    model.train(was_training)
    return logps


def held_out_figures(
    model: PointerSelector,
    groups: Sequence[ShotGroup],
    table: EmbeddingTable,
    old_logps: Mapping[int, torch.Tensor],
    *,
    has_rewards: bool,
) -> dict[str, float]:
    """Figures of a model on held-out queries; empty without any.

    ``validation/reward`` is the reward of the stored sequences in proportion to their probabilities, and
    ``validation/top_reward`` that of the most probable one.

    Args:
        model: the network.
        groups: held-out queries.
        table: embeddings of queries and shots.
        old_logps: query -> log-probs (N,) under the policy at the start of the phase; empty: the KL is not measured.
        has_rewards: whether the loss is that of RCE at temperature 1; else it is the mean cross-entropy.
    """
    if not groups:
        return {}
    logps = stored_logps(model, groups, table)
    rewards, tops, kls, losses, spreads = [], [], [], [], []
    for group in groups:
        new = logps[group.query]
        batch = make_batch([group], table)
        steps = int(batch.step_mask_BNS.sum())
        new_N = new.sum(-1)
        values = batch.rewards_BN[0]
        rewards.append(expected_reward(new_N.unsqueeze(0), batch))
        tops.append(float(values[new_N.argmax()]))
        if not has_rewards:
            losses.append(-float(new.sum()) / steps)
        else:
            losses.append(float(rce_term(new[:, : batch.labels_BNS.shape[2]].unsqueeze(0), batch, 1.0).loss))
            spreads.append(float(group_advantages(batch.rewards_BN, batch.sequence_mask_BN).std(unbiased=False)))
        if group.query in old_logps:
            kls.append(float(kl_per_token(old_logps[group.query], new_N).mean()))
    named = {"loss": losses, "reward": rewards, "top_reward": tops, "kl": kls, "advantage_std": spreads}
    return {f"validation/{name}": sum(values) / len(values) for name, values in named.items() if values}
