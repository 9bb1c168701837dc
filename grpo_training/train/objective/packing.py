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
from torch.nn.attention.flex_attention import BlockMask

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
            return self.block_mask()
        index_S = torch.arange(len(self.ids_S), device=self.ids_S.device)
        sees_SS = self.sees(index_S.unsqueeze(1), index_S.unsqueeze(0))
        if attention == "eager":  # it adds the mask to the scores
            dtype = backbone.dtype
            sees_SS = torch.zeros_like(sees_SS, dtype=dtype).masked_fill(~sees_SS, torch.finfo(dtype).min)
        return sees_SS[None, None]

    def block_mask(self) -> BlockMask:
        """The mask of FlexAttention, from the first and the last token of each block: no matrix of S x S is made.

        The length of the sequence has to be a multiple of the block's.
        """
        block_M = torch.arange(len(self.ids_S) // _BLOCK, device=self.ids_S.device)
        first_M, last_M = block_M * _BLOCK, block_M * _BLOCK + _BLOCK - 1
        key_1M, before_MM = block_M.unsqueeze(0), block_M.unsqueeze(0) < block_M.unsqueeze(1)
        start_M1 = self.start_S[first_M].unsqueeze(1)
        prompt_M1, end_M1 = (side.unsqueeze(1) for side in self.prompt_S2[first_M].unbind(-1))
        # All that the later parts of a block see is in the block itself, or is the prompt of its first token.
        in_part_MM = key_1M >= start_M1 // _BLOCK
        in_prompt_MM = (key_1M >= prompt_M1 // _BLOCK) & (key_1M * _BLOCK < end_M1) & (end_M1 > prompt_M1)
        any_MM = (before_MM & (in_part_MM | in_prompt_MM)) | (key_1M == block_M.unsqueeze(1))
        one_part_M1 = (self.start_S[first_M] == self.start_S[last_M]).unsqueeze(1)
        one_prompt_M1 = (self.prompt_S2[first_M] == self.prompt_S2[last_M]).all(-1, keepdim=True)
        all_MM = one_part_M1 & (key_1M * _BLOCK >= start_M1)
        all_MM |= one_prompt_M1 & (key_1M * _BLOCK >= prompt_M1) & ((key_1M + 1) * _BLOCK <= end_M1)
        all_MM &= before_MM
        return BlockMask.from_kv_blocks(
            *_in_order(any_MM & ~all_MM),
            *_in_order(all_MM),
            BLOCK_SIZE=_BLOCK,
            mask_mod=lambda _batch, _head, query, key: self.sees(query, key),
            seq_lengths=(len(self.ids_S), len(self.ids_S)),
        )


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


class Cost(NamedTuple):
    """What a backbone computes, in multiplications.

    Args:
        weights: of a token with weights.
        attention: of a pair of tokens in the attention of all layers.
    """

    weights: int
    attention: int

    @classmethod
    def of(cls, backbone: Any) -> Cost:
        """That of a backbone of transformers."""
        config = backbone.config.get_text_config()
        weights = (
            sum(weight.numel() for weight in backbone.parameters()) - backbone.get_input_embeddings().weight.numel()
        )
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return cls(weights, 2 * config.num_hidden_layers * config.num_attention_heads * size)

    def is_less_packed(self, tokens: int, rows: int, width: int) -> bool:
        """Whether one sequence of ``tokens`` with a whole mask takes less than ``rows`` of ``width`` tokens."""
        of_rows = rows * width * (self.weights + self.attention * width)
        return tokens * (self.weights + self.attention * tokens) <= _WORTH * of_rows


def _in_order(is_there_MM: Tensor) -> tuple[Tensor, Tensor]:
    """The number of blocks of each line, and their indices in front of the others, as a BlockMask takes them."""
    count_M = is_there_MM.sum(-1, dtype=torch.int32)
    index_MM = is_there_MM.int().argsort(dim=-1, descending=True, stable=True).int()
    return count_M[None, None], index_MM[None, None].contiguous()
