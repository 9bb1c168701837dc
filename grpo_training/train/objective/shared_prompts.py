"""The rows of a micro-batch as one sequence in which each prompt is computed once.

The completions of a prompt follow it. A mask lets each completion see its prompt and itself. Its memory grows with the
square of the tokens of a micro-batch.
"""
# ruff: noqa: N803, N806, N815 - names end in their shape

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class OneSequence(NamedTuple):
    """One sequence of S tokens.

    Args:
        ids_S: the tokens.
        position_S: the position of each in its row, from 0.
        place_BT: where each position of the rows is in the sequence. Of a prompt only the last token has a place in
            each row.
        sees_SS: which tokens (columns) each token (row) sees.
    """

    ids_S: Tensor
    position_S: Tensor
    place_BT: Tensor
    sees_SS: Tensor

    def hidden(self, backbone: Any) -> Tensor:
        """The last hidden states (S, H).

        Args:
            backbone: of a causal language model of transformers.
        """
        states: Tensor = backbone(
            input_ids=self.ids_S.unsqueeze(0),
            position_ids=self.position_S.unsqueeze(0),
            attention_mask=_as_mask(self.sees_SS, backbone),
            use_cache=False,
        ).last_hidden_state[0]
        return states


def one_sequence(ids_BT: Tensor, is_token_BT: Tensor, start_B: Tensor) -> OneSequence:
    """Each prompt once, followed by its completions.

    Args:
        ids_BT: prompt and completion of each row.
        is_token_BT: false at padding, which may be on both sides.
        start_B: index of the first completion token.
    """
    rows, width = ids_BT.shape
    column_T = torch.arange(width, device=ids_BT.device)
    is_prompt_BT = is_token_BT & (column_T < start_B.unsqueeze(1))
    first_B = _first_rows(ids_BT, is_prompt_BT)
    row_B = torch.arange(rows, device=ids_BT.device)
    order_B = torch.argsort(first_B, stable=True)  # a row with the prompt comes before the others that have it
    is_kept_BT = is_token_BT & (~is_prompt_BT | (first_B == row_B).unsqueeze(1))

    def sequence(values_BT: Tensor) -> Tensor:
        return values_BT[order_B][is_kept_BT[order_B]]

    group_S = sequence(first_B.unsqueeze(1).expand(rows, width))
    owner_S = sequence(torch.where(is_prompt_BT, -1, row_B.unsqueeze(1)))
    index_S = torch.arange(len(group_S), device=ids_BT.device)
    sees_SS = index_S.unsqueeze(1) >= index_S
    sees_SS &= group_S.unsqueeze(1) == group_S
    sees_SS &= (owner_S == -1) | (owner_S.unsqueeze(1) == owner_S)

    place_BT = torch.zeros_like(ids_BT)
    kept_BT = is_kept_BT[order_B]
    place_BT[order_B] = kept_BT.flatten().cumsum(0).view(kept_BT.shape) - 1
    place_BT[row_B, start_B - 1] = place_BT[first_B, start_B[first_B] - 1]
    return OneSequence(sequence(ids_BT), sequence(is_token_BT.cumsum(1) - 1), place_BT, sees_SS)


def _first_rows(ids_BT: Tensor, is_prompt_BT: Tensor) -> Tensor:
    """The first row with the same prompt as each row (B)."""
    prompts = [tuple(ids[is_prompt].tolist()) for ids, is_prompt in zip(ids_BT, is_prompt_BT, strict=True)]
    first = {prompt: number for number, prompt in reversed(list(enumerate(prompts)))}
    return torch.tensor([first[prompt] for prompt in prompts], device=ids_BT.device)


def _as_mask(sees_SS: Tensor, backbone: Any) -> Tensor:
    """The mask as the attention of a backbone takes it: added to the scores by ``eager``, else boolean."""
    if backbone.config._attn_implementation != "eager":
        return sees_SS[None, None]
    dtype = backbone.dtype
    return torch.zeros_like(sees_SS, dtype=dtype).masked_fill(~sees_SS, torch.finfo(dtype).min)[None, None]
