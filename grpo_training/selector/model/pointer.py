"""The pointer selector: a network that points, step by step, at the shots of a query's pool.

Shapes: B queries, N sequences of each, S steps, K places of a pool, D dimensions of an embedding, H of the model.
:meth:`PointerSelector.encode` comes first; then :meth:`PointerSelector.logits` and :meth:`PointerSelector.step` take
turns, with the shots of a label or of a search.
"""
# ruff: noqa: N803, N806, N815 - names end in their shape

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.errors import InputError

USED = -100.0
"""The logit of a place that was chosen before. Finite, so that a loss on it is finite."""
LOGIT_TEMPERATURE = 0.1
"""Logits are cosines divided by it, so they are in [-10, 10]."""


@dataclass(frozen=True)
class SelectorConfig:
    """The architecture of a selector.

    Args:
        d_model: dimensions of the embeddings.
        hidden_dim: dimensions inside the model.
        dropout: dropout rate, also of the attention; used in SFT and RCE.
    """

    d_model: int
    hidden_dim: int = 256
    dropout: float = 0.1


class Encoded(NamedTuple):
    """What the network knows of a query and its pool before the first step."""

    state_BH: Tensor
    pool_BKH: Tensor
    mask_BK: Tensor
    """True for the places that exist."""


class DecodingState(NamedTuple):
    """Where N sequences of each query are after some steps."""

    state_BNH: Tensor
    used_BNK: Tensor


class PointerSelector(nn.Module):  # type: ignore[misc]
    """The network.

    Args:
        config: its architecture.
    """

    def __init__(self, config: SelectorConfig) -> None:
        super().__init__()
        self.config = config
        hidden = config.hidden_dim
        self.input_proj: nn.Module = nn.Identity()
        if config.d_model != hidden:
            self.input_proj = nn.Linear(config.d_model, hidden, bias=False)
            nn.init.xavier_uniform_(self.input_proj.weight)
        self.attention = nn.MultiheadAttention(hidden, 1, dropout=config.dropout, batch_first=True)
        self.norm = nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.query_proj, self.cand_proj = _near_identity(hidden), _near_identity(hidden)
        self.gate = nn.Linear(2 * hidden, hidden)
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def encode(self, query_BD: Tensor, pool_BKD: Tensor, mask_BK: Tensor | None = None) -> Encoded:
        """Encode queries and pools.

        Raises:
            InputError: embeddings of other dimensions than those of the architecture.
        """
        if pool_BKD.shape[-1] != self.config.d_model:
            raise InputError(
                f"The selector needs embeddings of {self.config.d_model} dimensions, these have {pool_BKD.shape[-1]}",
                fix="Pass the embeddings that it was trained with, or those of the same model.",
            )
        mask_BK = (
            torch.ones(pool_BKD.shape[:2], dtype=torch.bool, device=pool_BKD.device) if mask_BK is None else mask_BK
        )
        query_BH, pool_BKH = self.input_proj(query_BD), self.input_proj(pool_BKD)
        attended, _ = self.attention(
            query_BH.unsqueeze(1), pool_BKH, pool_BKH, key_padding_mask=~mask_BK, need_weights=False
        )
        query_BH = self.norm(query_BH + attended.squeeze(1))
        query_BH = self.query_proj(self.dropout(query_BH))
        pool_BKH = self.cand_proj(self.dropout(pool_BKH))
        return Encoded(functional.normalize(query_BH, dim=-1), functional.normalize(pool_BKH, dim=-1), mask_BK)

    def begin(self, encoded: Encoded, sequences: int) -> DecodingState:
        """The state of ``sequences`` empty sequences of each query."""
        size = (len(encoded.state_BH), sequences)
        state_BNH = encoded.state_BH.unsqueeze(1).expand(*size, -1)
        used_BNK = torch.zeros(*size, encoded.mask_BK.shape[1], dtype=torch.bool, device=encoded.mask_BK.device)
        return DecodingState(state_BNH, used_BNK)

    def logits(self, encoded: Encoded, state: DecodingState) -> Tensor:
        """The masked logits (B, N, K) of the next step."""
        raw_BNK = torch.einsum("bnh,bkh->bnk", state.state_BNH, encoded.pool_BKH) / LOGIT_TEMPERATURE
        masked_BNK = raw_BNK.masked_fill(state.used_BNK, USED)
        # A place that does not exist is no choice at all, so it has no share in the softmax.
        return masked_BNK.masked_fill(~encoded.mask_BK.unsqueeze(1), -torch.inf)

    def step(self, encoded: Encoded, state: DecodingState, chosen_BN: Tensor) -> DecodingState:
        """The state after ``chosen_BN`` was appended to the sequences."""
        index = chosen_BN.unsqueeze(-1)
        used_BNK = state.used_BNK.scatter(2, index, True)
        chosen_BNH = encoded.pool_BKH.gather(1, index.expand(-1, -1, encoded.pool_BKH.shape[-1]))
        gate = torch.sigmoid(self.gate(torch.cat([state.state_BNH, chosen_BNH], -1)))
        mixed = gate * state.state_BNH + (1 - gate) * chosen_BNH
        return DecodingState(functional.normalize(mixed, dim=-1), used_BNK)


def _near_identity(size: int) -> nn.Linear:
    layer = nn.Linear(size, size, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(size) + 0.01 * torch.randn(size, size))
    return layer
