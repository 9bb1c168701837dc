"""The rows of a micro-batch as one sequence: each prompt once, the replies to it behind it, and no padding.

A token sees the tokens before it in its part, which is a prompt or a reply, and a reply sees its prompt. So the hidden
states are those of the rows, each alone. FlexAttention computes only the blocks of the mask in which a token sees
another one; other kinds of attention get the whole mask, whose memory grows with the square of the tokens.
"""
# ruff: noqa: N803, N806, N815 - names end in their shape

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

FLEX = "flex_attention"
_BLOCK = 128
"""Tokens of a block of FlexAttention, along both sides of the mask."""
_WORTH = 0.9
"""A sequence is packed if it takes at most this share of the operations of padded rows."""


class Packed(NamedTuple):
    """Rows as one sequence of S tokens.

    Args:
        ids_S: the tokens.
        position_S: the position of each in its row, from 0.
        start_S: the index of the first token of its part.
        prompt_S2: the indices of the first token of its prompt and of the first one behind that; equal for the tokens
            of prompts.
        place_BT: the index of each position of the rows. Of a prompt only the last token has one in each row.
    """

    ids_S: Tensor
    position_S: Tensor
    start_S: Tensor
    prompt_S2: Tensor
    place_BT: Tensor

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether the tokens at the indices ``query`` see those at ``key``."""
        first, end = self.prompt_S2[query].unbind(-1)
        return (key <= query) & ((key >= self.start_S[query]) | ((key >= first) & (key < end)))

    def mask(self, backbone: Any) -> Tensor | BlockMask:
        """The mask as the attention of a backbone of transformers takes it."""
        attention = backbone.config._attn_implementation
        if attention == FLEX:
            size = len(self.ids_S)
            return create_block_mask(
                lambda _batch, _head, query, key: self.sees(query, key),
                *(None, None, size, size),
                device=str(self.ids_S.device),
                BLOCK_SIZE=_BLOCK,
            )
        index_S = torch.arange(len(self.ids_S), device=self.ids_S.device)
        sees_SS = self.sees(index_S.unsqueeze(1), index_S.unsqueeze(0))
        if attention == "eager":  # it adds the mask to the scores
            dtype = backbone.dtype
            sees_SS = torch.zeros_like(sees_SS, dtype=dtype).masked_fill(~sees_SS, torch.finfo(dtype).min)
        return sees_SS[None, None]


def packed(ids_BT: Tensor, is_token_BT: Tensor, start_B: Tensor, *, in_blocks: bool) -> Packed:
    """Each prompt once, followed by the replies to it.

    Args:
        ids_BT: prompt and completion of each row.
        is_token_BT: false at padding, which may be on both sides.
        start_B: index of the first completion token.
        in_blocks: add padding up to a multiple of the block length of FlexAttention.
    """
    rows, width = ids_BT.shape
    first_B, starts = is_token_BT.int().argmax(1), start_B.tolist()
    firsts, ends = first_B.tolist(), (first_B + is_token_BT.sum(1)).tolist()
    of_prompt: dict[tuple[int, ...], list[int]] = {}
    for row, ids in enumerate(ids_BT.tolist()):
        of_prompt.setdefault(tuple(ids[firsts[row] : starts[row]]), []).append(row)
    source, position, start, prompt = [], [], [], []  # of each part
    last_of_prompt, length = [0] * rows, 0
    for same in of_prompt.values():
        begin, end = length, length + starts[same[0]] - firsts[same[0]]
        for row, left, right in [(same[0], firsts[same[0]], starts[same[0]]), *((r, starts[r], ends[r]) for r in same)]:
            source.append(torch.arange(left, right) + row * width)
            position.append(torch.arange(left, right) - firsts[row])
            start.append(torch.full((right - left,), length))
            prompt.append(torch.tensor([[begin, begin if length == begin else end]]).expand(right - left, 2))
            length += right - left
        for row in same:
            last_of_prompt[row] = end - 1
    place_BT = torch.zeros(rows, width, dtype=torch.long)
    place_BT.view(-1)[torch.cat(source)] = torch.arange(length)
    place_BT[torch.arange(rows), torch.tensor(starts) - 1] = torch.tensor(last_of_prompt)
    if added := -length % _BLOCK if in_blocks else 0:  # a part of its own, which no other token sees
        source.append(torch.zeros(added, dtype=torch.long))
        position.append(torch.arange(added))
        start.append(torch.full((added,), length))
        prompt.append(torch.full((added, 2), length))
    on = ids_BT.device
    return Packed(
        ids_BT.flatten()[torch.cat(source).to(on)],
        torch.cat(position).to(on),
        torch.cat(start).to(on),
        torch.cat(prompt).to(on),
        place_BT.to(on),
    )


def is_less(backbone: Any, tokens: int, rows: int, width: int) -> bool:
    """Whether one sequence of ``tokens`` with a whole mask takes less than ``rows`` of ``width`` tokens.

    Compared are the multiplications of a backbone of transformers: those with its weights for each token, and those of
    the attention of all layers for each pair of tokens.
    """
    config = backbone.config.get_text_config()
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    attention = 2 * config.num_hidden_layers * config.num_attention_heads * size
    weights = backbone.num_parameters(exclude_embeddings=True)
    of_rows = rows * width * (weights + attention * width)
    return bool(tokens * (weights + attention * tokens) <= _WORTH * of_rows)
