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
from grpo_training.selector.settings import TrainSettings
from grpo_training.selector.training.phases import rce_validation_loss, step_logps

_BATCH = 64


@torch.no_grad()  # type: ignore[untyped-decorator]
def stored_logps(
    model: PointerSelector, groups: Sequence[ShotGroup], table: EmbeddingTable, stop_steps: int | None
) -> dict[int, torch.Tensor]:
    """Query -> log-probs (N, S) of its stored sequences, without dropout."""
    was_training, device = model.training, str(next(model.parameters()).device)
    model.eval()
    found: dict[int, torch.Tensor] = {}
    for start in range(0, len(groups), _BATCH):
        part = groups[start : start + _BATCH]
        batch = make_batch(part, table, stop_steps=stop_steps, device=device)
        logps_BNS = step_logps(model, batch).cpu()
        found |= {group.query: logps_BNS[row, : len(group.sequences)] for row, group in enumerate(part)}
    model.train(was_training)
    return found


def held_out_figures(
    model: PointerSelector,
    groups: Sequence[ShotGroup],
    table: EmbeddingTable,
    old_logps: Mapping[int, torch.Tensor],
    settings: TrainSettings | None,
    *,
    stop_steps: int | None,
) -> dict[str, float]:
    """Figures of a model on held-out queries; empty without any.

    ``validation/reward`` is the reward of the stored sequences in proportion to their probabilities, and
    ``validation/top_reward`` that of the most probable one.

    Args:
        model: the network.
        groups: held-out queries.
        table: embeddings of queries and shots.
        old_logps: query -> log-probs (N,) under the policy at the start of the phase; empty: the KL is not measured.
        settings: of a post-training, for its loss; None: the mean cross-entropy is the loss.
        stop_steps: as in :func:`make_batch`.
    """
    if not groups:
        return {}
    logps = stored_logps(model, groups, table, stop_steps)
    rewards, tops, kls, losses, spreads = [], [], [], [], []
    for group in groups:
        new = logps[group.query]
        batch = make_batch([group], table, stop_steps=stop_steps)
        steps = int(batch.step_mask_BNS.sum())
        new_N = new.sum(-1)
        values = batch.rewards_BN[0]
        rewards.append(float((new_N.double().softmax(-1) * values).sum()))
        tops.append(float(values[new_N.argmax()]))
        if settings is None:
            losses.append(-float(new.sum()) / steps)
        else:
            losses.append(rce_validation_loss(new[:, : batch.labels_BNS.shape[2]].unsqueeze(0), batch, settings))
            spreads.append(float(group_advantages(batch.rewards_BN, batch.sequence_mask_BN).std(unbiased=False)))
        if group.query in old_logps:
            kls.append(float(kl_per_token(old_logps[group.query], new_N).mean()))
    named = {"loss": losses, "reward": rewards, "top_reward": tops, "kl": kls, "advantage_std": spreads}
    return {f"validation/{name}": sum(values) / len(values) for name, values in named.items() if values}
