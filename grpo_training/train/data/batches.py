"""Rows as padded tensors."""
# ruff: noqa: N815 - names end in their shape

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from grpo_training.train.data.samples import Sample


@dataclass(frozen=True)
class Batch:
    """Rows as tensors: B rows, T positions of prompt and completion, C positions of completion; padded on the right.

    Args:
        input_ids_BT: prompt, completion, padding.
        attention_mask_BT: 1 at tokens, 0 at padding.
        completion_start_B: number of prompt tokens.
        mask_BC: true at each completion token that counts, the end-of-turn token included.
        old_logps_BC: log-probs under the policy that sampled; NaN where unknown.
        advantages_B, rewards_B: one per row.
        group_of_B: index of the row's group within this batch.
    """

    input_ids_BT: torch.Tensor
    attention_mask_BT: torch.Tensor
    completion_start_B: torch.Tensor
    mask_BC: torch.Tensor
    old_logps_BC: torch.Tensor
    advantages_B: torch.Tensor
    rewards_B: torch.Tensor
    group_of_B: torch.Tensor

    def to(self, device: torch.device) -> Batch:
        """The batch on another device."""
        return Batch(**{name: tensor.to(device, non_blocking=True) for name, tensor in vars(self).items()})


def collate(rows: Sequence[Sample], pad_token_id: int, *, mask_truncated: bool = False) -> Batch:
    """Rows as tensors.

    Args:
        rows: at least one.
        pad_token_id: fills the padding of the input; the value is never read.
        mask_truncated: truncated rows get an empty mask.
    """
    ids = [torch.tensor(row.prompt_ids + row.completion_ids) for row in rows]
    lengths = [len(row.completion_ids) for row in rows]
    counts = [
        torch.full((length,), not (mask_truncated and row.truncated)) for row, length in zip(rows, lengths, strict=True)
    ]
    unknown = float("nan")
    old = [torch.tensor(row.old_logps or [unknown] * length) for row, length in zip(rows, lengths, strict=True)]
    numbers = {group_id: number for number, group_id in enumerate(dict.fromkeys(row.group_id for row in rows))}
    return Batch(
        input_ids_BT=pad_sequence(ids, batch_first=True, padding_value=pad_token_id),
        attention_mask_BT=pad_sequence([torch.ones_like(row) for row in ids], batch_first=True),
        completion_start_B=torch.tensor([len(row.prompt_ids) for row in rows]),
        mask_BC=pad_sequence(counts, batch_first=True),
        old_logps_BC=pad_sequence(old, batch_first=True, padding_value=unknown),
        advantages_B=torch.tensor([row.advantage for row in rows]),
        rewards_B=torch.tensor([row.reward for row in rows]),
        group_of_B=torch.tensor([numbers[row.group_id] for row in rows]),
    )
