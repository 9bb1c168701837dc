"""The pointer selector: a network that points, step by step, at the shots of a query's pool.

Shapes: B queries, N sequences of each, S steps, K places of a pool, D dimensions of an embedding, H of the model.
All variants share one contract: :meth:`PointerSelector.forward` for teacher forcing and greedy decoding, and the pair
:meth:`PointerSelector.encode`, :meth:`PointerSelector.step` for every other decoding.
"""
# ruff: noqa: N803, N806, N815 - names end in their shape

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.errors import InputError

Decoder = Literal["static", "gate", "gru"]
USED = -100.0
"""The logit of a place that was chosen before. Finite, so that a loss on it is finite."""
LOGIT_TEMPERATURE = 0.1
"""Logits are cosines divided by it, so they are in [-10, 10]."""
_MAX_STEPS = 16


@dataclass(frozen=True)
class SelectorConfig:
    """The architecture of a selector.

    Args:
        d_model: dimensions of the embeddings.
        hidden_dim: dimensions inside the model.
        num_heads, num_layers: of the attention of the query to its pool.
        attn_dropout, dropout: dropout rates; used in SFT only.
        decoder: how the state depends on the shots chosen before: not at all, by a gate, or by a GRU.
        stop: whether there is a learned entry that ends a sequence, after its first shot at the earliest.
    """

    d_model: int
    hidden_dim: int = 256
    num_heads: int = 1
    num_layers: int = 1
    attn_dropout: float = 0.1
    dropout: float = 0.1
    decoder: Decoder = "gate"
    stop: bool = False


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
    step: int


class SelectorOutput(NamedTuple):
    """The output of a pass.

    ``logits_BSK`` are masked; ``predictions_BS`` is the most probable place of each step; ``loss`` is the mean
    cross-entropy of the labels, None without labels.
    """

    logits_BSK: Tensor
    predictions_BS: Tensor
    loss: Tensor | None


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
        self.attention = nn.ModuleList(
            nn.MultiheadAttention(hidden, config.num_heads, dropout=config.attn_dropout, batch_first=True)
            for _ in range(config.num_layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(config.num_layers))
        self.dropout = nn.Dropout(config.dropout)
        self.query_proj, self.cand_proj = _near_identity(hidden), _near_identity(hidden)
        if config.decoder == "gate":
            self.gate = nn.Linear(2 * hidden, hidden)
            nn.init.xavier_uniform_(self.gate.weight)
            nn.init.zeros_(self.gate.bias)
        elif config.decoder == "gru":
            self.gru = nn.GRUCell(hidden, hidden)
            self.step_embedding = nn.Parameter(torch.randn(_MAX_STEPS, hidden) * 0.02)
        if config.stop:
            self.stop_entry = nn.Parameter(torch.randn(hidden) * 0.02)

    def forward(
        self,
        query_BD: Tensor,
        pool_BKD: Tensor,
        mask_BK: Tensor | None = None,
        *,
        labels_BS: Tensor | None = None,
        steps: int | None = None,
    ) -> SelectorOutput:
        """One sequence per query: with labels teacher-forced, else greedy.

        Args:
            query_BD: embeddings of the queries.
            pool_BKD: embeddings of the pools, padded.
            mask_BK: true for the places that exist; None: all.
            labels_BS: places in the pool. With a STOP entry its place is K, the one after the pool.
            steps: number of steps without labels.

        Raises:
            InputError: neither labels nor steps, a label outside the pool, or more steps than places.
        """
        if labels_BS is None and not steps:
            raise InputError("A selector needs labels or a number of steps")
        encoded = self.encode(query_BD, pool_BKD, mask_BK)
        count = labels_BS.shape[1] if labels_BS is not None else int(steps or 0)
        if labels_BS is not None:
            self.check_labels(labels_BS, encoded)
        elif count > int(encoded.mask_BK.sum(1).min()):
            raise InputError(f"{count} steps, but the smallest pool has {int(encoded.mask_BK.sum(1).min())} places")
        state, logits, predictions = self.begin(encoded, 1), [], []
        for number in range(count):
            logits_BNK = self.logits(encoded, state)
            predicted_BN = logits_BNK.argmax(-1)
            chosen_BN = predicted_BN if labels_BS is None else labels_BS[:, number : number + 1]
            state = self.step(encoded, state, chosen_BN)
            logits.append(logits_BNK[:, 0])
            predictions.append(predicted_BN[:, 0])
        logits_BSK = torch.stack(logits, 1)
        loss = None if labels_BS is None else _cross_entropy(logits_BSK, labels_BS)
        return SelectorOutput(logits_BSK, torch.stack(predictions, 1), loss)

    def encode(self, query_BD: Tensor, pool_BKD: Tensor, mask_BK: Tensor | None = None) -> Encoded:
        """Encode queries and pools; with a STOP entry the pools have one more place.

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
        for attention, norm in zip(self.attention, self.norms, strict=True):
            attended, _ = attention(
                query_BH.unsqueeze(1), pool_BKH, pool_BKH, key_padding_mask=~mask_BK, need_weights=False
            )
            query_BH = norm(query_BH + attended.squeeze(1))
        if self.config.stop:
            entry = self.stop_entry.expand(len(pool_BKH), 1, -1)
            pool_BKH = torch.cat([pool_BKH, entry], 1)
            mask_BK = functional.pad(mask_BK, (0, 1), value=True)
        query_BH = self.query_proj(self.dropout(query_BH))
        pool_BKH = self.cand_proj(self.dropout(pool_BKH))
        return Encoded(functional.normalize(query_BH, dim=-1), functional.normalize(pool_BKH, dim=-1), mask_BK)

    def begin(self, encoded: Encoded, sequences: int) -> DecodingState:
        """The state of ``sequences`` empty sequences of each query."""
        size = (len(encoded.state_BH), sequences)
        state_BNH = encoded.state_BH.unsqueeze(1).expand(*size, -1)
        used_BNK = torch.zeros(*size, encoded.mask_BK.shape[1], dtype=torch.bool, device=encoded.mask_BK.device)
        return DecodingState(state_BNH, used_BNK, 0)

    def logits(self, encoded: Encoded, state: DecodingState) -> Tensor:
        """The masked logits (B, N, K) of the next step."""
        raw_BNK = torch.einsum("bnh,bkh->bnk", state.state_BNH, encoded.pool_BKH) / LOGIT_TEMPERATURE
        masked_BNK = raw_BNK.masked_fill(state.used_BNK, USED)
        # A place that does not exist is no choice at all, so it has no share in the softmax.
        exists_BK = encoded.mask_BK
        if self.config.stop and state.step == 0:  # no stored sequence is empty, and a search by probability prefers one
            exists_BK = functional.pad(exists_BK[:, :-1], (0, 1), value=False)
        return masked_BNK.masked_fill(~exists_BK.unsqueeze(1), -torch.inf)

    def step(self, encoded: Encoded, state: DecodingState, chosen_BN: Tensor) -> DecodingState:
        """The state after ``chosen_BN`` was appended to the sequences."""
        index = chosen_BN.unsqueeze(-1)
        used_BNK = state.used_BNK.scatter(2, index, True)
        if self.config.decoder == "static":
            return DecodingState(state.state_BNH, used_BNK, state.step + 1)
        chosen_BNH = encoded.pool_BKH.gather(1, index.expand(-1, -1, encoded.pool_BKH.shape[-1]))
        if self.config.decoder == "gate":
            gate = torch.sigmoid(self.gate(torch.cat([state.state_BNH, chosen_BNH], -1)))
            mixed = gate * state.state_BNH + (1 - gate) * chosen_BNH
        else:
            place = self.step_embedding[min(state.step, _MAX_STEPS - 1)]
            flat = self.gru((chosen_BNH + place).flatten(0, 1), state.state_BNH.flatten(0, 1))
            mixed = flat.view_as(state.state_BNH)
        return DecodingState(functional.normalize(mixed, dim=-1), used_BNK, state.step + 1)

    def check_labels(self, labels: Tensor, encoded: Encoded) -> None:
        """Raise ``InputError`` if a label is no place of its query's pool."""
        flat = labels.reshape(len(labels), -1)
        places = encoded.mask_BK.shape[1]
        inside = (flat >= 0) & (flat < places)
        if not bool(inside.all()) or not bool(encoded.mask_BK.gather(1, flat.clamp(0, places - 1)).all()):
            raise InputError(
                "A label is no place of its pool",
                why=f"Labels are positions in a query's pool of at most {places} places, not ids of a dataset.",
            )

    def backbone(self) -> list[nn.Parameter]:
        """The parameters of the three projections, which a training may freeze."""
        parts = (self.input_proj, self.query_proj, self.cand_proj)
        return [parameter for part in parts for parameter in part.parameters()]


def _near_identity(size: int) -> nn.Linear:
    layer = nn.Linear(size, size, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(size) + 0.01 * torch.randn(size, size))
    return layer


def _cross_entropy(logits_BSK: Tensor, labels_BS: Tensor) -> Tensor:
    return -logits_BSK.log_softmax(-1).gather(-1, labels_BS.unsqueeze(-1)).mean()


def count_parameters(model: nn.Module, *, trainable: bool = False) -> int:
    """The number of parameters."""
    return sum(one.numel() for one in model.parameters() if one.requires_grad or not trainable)


def config_from(values: dict[str, Any]) -> SelectorConfig:
    """The configuration of a checkpoint.

    Raises:
        InputError: an unknown or a missing key.
    """
    try:
        return SelectorConfig(**values)
    except TypeError as error:
        raise InputError("The checkpoint describes another architecture", why=str(error)) from None
