"""Log-probs of completions, computed in chunks so that the logits of all positions are never in memory at once.

The backbone runs once over prompt and completion. Only positions that predict a token of the mask go through the
head, one chunk at a time. The logits of a chunk are discarded and recomputed in the backward pass, so memory grows
with ``chunk_size x vocabulary`` instead of ``rows x positions x vocabulary``.
"""
# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from engine.errors import ConfigurationError, InputError
from grpo_training.train.data.batches import Batch
from grpo_training.train.objective.packing import FLEX, Cost, Packed, packed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CHUNK_SIZE = 1024
"""Positions whose logits are in memory at once."""
_SAME_SHARE = 0.05
"""Log-probs of packed and of padded rows that are so near, as a share of the largest, differ by rounding only."""
_ENTROPY_ROWS = 128
"""Rows of logits whose entropy is computed at a time: all of a chunk would need as much memory once more."""


def completion_logps(
    model: PreTrainedModel,
    input_ids_BT: Tensor,
    attention_mask_BT: Tensor,
    completion_start_B: Tensor,
    mask_BC: Tensor,
    *,
    temperature: float = 1.0,
    chunk_size: int = CHUNK_SIZE,
    entropy: bool = False,
    packs: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Log-probs of completion tokens under ``model``, and the entropy of the distribution each was drawn from.

    For mixed precision call it within ``accelerator.autocast()``, as the model's own ``forward`` is not used.

    Args:
        model: a causal language model of transformers, or a PEFT model.
        input_ids_BT: prompt and completion of each row. Prompts may be padded on the left; without padding before the
            prompt, models with absolute positions see the positions they were trained with.
        attention_mask_BT: 0 at padding.
        completion_start_B: index of the first completion token; at least 1, as the first token has no prediction.
        mask_BC: true for the completion tokens to score; C is at least the longest completion.
        temperature: divides the logits, as in sampling.
        chunk_size: positions whose logits are in memory at once.
        entropy: whether to compute the entropies.
        packs: the rows may pass through the model as one sequence; see :mod:`grpo_training.train.objective.packing`.

    Returns:
        log-probs, float32 (B, C), with gradients if they are enabled; 0 where ``mask_BC`` is false. The softmax is
        computed in float32, the product of the head in the precision of its weights. Entropies (B, C), in nats,
        without gradient; None if they are not asked for.

    Raises:
        InputError: a completion without a prompt.
    """
    if (completion_start_B < 1).any():
        raise InputError("A completion starts at the first token", why="Nothing before it predicts that token.")
    head = _Head.of(model)
    mask_BC = mask_BC.bool()
    row_N, column_N = mask_BC.nonzero(as_tuple=True)
    position_N = completion_start_B[row_N] + column_N
    before = (row_N, position_N - 1)  # a position predicts the token after it
    rows = (input_ids_BT, attention_mask_BT, completion_start_B)
    sequence = _one_sequence(head.backbone, *rows) if packs else None
    if sequence is None:
        hidden_NH = head.backbone(
            input_ids=input_ids_BT, attention_mask=attention_mask_BT, use_cache=False
        ).last_hidden_state[before]
    else:
        hidden_NH = head.backbone(
            input_ids=sequence.ids_S.unsqueeze(0),
            position_ids=sequence.position_S.unsqueeze(0),
            attention_mask=sequence.mask(head.backbone),
            use_cache=False,
        ).last_hidden_state[0][sequence.place_BT[before]]
    target_N = input_ids_BT[row_N, position_N]

    def of_chunk(hidden: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        logits = head.logits(hidden)
        if temperature != 1.0:
            logits = logits / temperature
        logps_NV = logits.log_softmax(-1)
        logps = torch.nn.functional.nll_loss(logps_NV, target, reduction="none").neg()
        # Last, because recomputation in the backward pass stops after the log-probs.
        return (logps, _entropy(logps_NV.detach())) if entropy else (logps,)

    pairs = list(zip(hidden_NH.split(chunk_size), target_N.split(chunk_size), strict=True))
    if len(pairs) == 1 or not torch.is_grad_enabled():
        scored = [of_chunk(*pair) for pair in pairs]  # a single chunk: recomputation would save nothing
    else:
        scored = [checkpoint(of_chunk, *pair, use_reentrant=False, preserve_rng_state=False) for pair in pairs]
    # masked_scatter keeps the graph for an empty mask too, so such a micro-batch has a gradient of 0.
    columns = [
        mask_BC.new_zeros(mask_BC.shape, dtype=torch.float32).masked_scatter(mask_BC, torch.cat(chunks))
        for chunks in zip(*scored, strict=True)
    ]
    return columns[0], columns[1] if entropy else None


class LogProbModel(nn.Module):  # type: ignore[misc]
    """A language model whose forward pass gives the log-probs of completions.

    DDP sees only what passes through ``forward`` of the module that it wraps. The log-probs are computed from the
    backbone and the head, so these two are inside it.

    Args:
        model: a causal language model of transformers, or a PEFT model.
        packs: rows may pass through it as one sequence.
    """

    def __init__(self, model: PreTrainedModel, *, packs: bool = False) -> None:
        super().__init__()
        self.model, self._packs = model, packs

    def forward(self, batch: Batch, *, temperature: float, entropy: bool = False) -> tuple[Tensor, Tensor | None]:
        """Log-probs (B, C), and the entropies (B, C, without gradient) if they are asked for.

        Args:
            batch: the rows as tensors.
            temperature: divides the logits.
            entropy: whether to compute the entropy at each token too.
        """
        tensors = (batch.input_ids_BT, batch.attention_mask_BT, batch.completion_start_B, batch.mask_BC)
        return completion_logps(self.model, *tensors, temperature=temperature, entropy=entropy, packs=self._packs)


def can_pack(model: PreTrainedModel, longest: int) -> bool:
    """Whether rows of a model may pass through it as one sequence.

    On a GPU only with FlexAttention, as a whole mask is slow there. Tried with two small rows, since some kinds of
    attention take no mask, and some layers have none.

    Args:
        model: without dropout.
        longest: tokens of the longest row. Beyond a sliding window the mask would show too much.
    """
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    if window is not None and window < longest:
        return False
    if model.device.type != "cpu" and config._attn_implementation != FLEX:
        return False
    ids_BT = torch.arange(80, device=model.device).view(2, 40) % 7
    ids_BT[1, :30] = ids_BT[0, :30]
    rows = (ids_BT, torch.ones_like(ids_BT), torch.full((2,), 30, device=model.device))
    mask_BC = torch.ones(2, 10, device=model.device)
    with torch.no_grad():
        padded, _ = completion_logps(model, *rows, mask_BC)
        try:
            ours, _ = completion_logps(model, *rows, mask_BC, packs=True)
        except (ValueError, RuntimeError, TypeError, AttributeError):  # attention that takes no such mask
            return False
    return float((padded - ours).abs().max()) <= _SAME_SHARE * float(padded.abs().max())


def _one_sequence(backbone: Any, ids_BT: Tensor, attention_mask_BT: Tensor, start_B: Tensor) -> Packed | None:
    """The rows as one sequence; None if padded rows take less."""
    is_flex = backbone.config._attn_implementation == FLEX
    sequence = packed(ids_BT, attention_mask_BT.bool(), start_B, in_blocks=is_flex)
    is_less = is_flex or Cost.of(backbone).is_less_packed(len(sequence.ids_S), *ids_BT.shape)
    return sequence if is_less else None


def check_logits(model: PreTrainedModel) -> None:
    """Compare the logits as :func:`completion_logps` computes them with those of ``forward``, on four tokens.

    Args:
        model: without dropout, which would make two passes differ.

    Raises:
        InputError: the logits are not finite.
        ConfigurationError: the model changes its logits in a way that is not supported, so log-probs would be wrong.
    """
    ids = torch.arange(4, device=model.device).unsqueeze(0)
    head = _Head.of(model)
    with torch.no_grad():
        direct = model(input_ids=ids, use_cache=False).logits.float()
        ours = head.logits(head.backbone(input_ids=ids, use_cache=False).last_hidden_state)
    difference, size = float((direct - ours).abs().max()), float(direct.abs().max())
    if not math.isfinite(size):
        damaged = [name for name, weight in model.named_parameters() if not bool(weight.isfinite().all())]
        raise InputError(
            "The model's logits are not finite",
            why=f"Weights with values that are NaN or infinite: {', '.join(damaged[:3]) or 'none'}.",
            fix="Check or download the files of the model again; where no weight is named, disable bf16.",
        )
    if not difference <= 0.01 * size:
        raise ConfigurationError(
            f"The logits of {type(head.owner).__name__} cannot be computed in chunks",
            why=f"They differ from the model's own, which reach {size:.3g}, by up to {difference:.3g}.",
            fix="Use another architecture, or train online (--mode online), where TRL computes the logits.",
        )


@dataclass(frozen=True)
class _Head:
    """Backbone and head of a language model."""

    owner: Any
    backbone: Any
    linear: Any
    scale: float
    softcap: float | None

    @classmethod
    def of(cls, model: Any) -> _Head:
        """The parts of ``model``. A LoRA is in the layers of the backbone, so the PEFT wrapper is not needed."""
        owner = model.get_base_model() if hasattr(model, "peft_config") else model
        config = owner.config.get_text_config()
        scale = getattr(config, "logit_scale", None) or 1.0  # Cohere
        scale /= getattr(config, "logits_scaling", None) or 1.0  # Granite
        softcap = getattr(config, "final_logit_softcapping", None)  # Gemma
        return cls(owner, owner.base_model, owner.get_output_embeddings(), scale, softcap)

    def logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.linear(hidden).float()
        if self.scale != 1.0:
            logits = logits * self.scale
        if self.softcap:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        return logits


def _entropy(logps_NV: Tensor) -> Tensor:
    return torch.cat([rows_NV.exp().mul_(rows_NV).sum(-1).neg() for rows_NV in logps_NV.split(_ENTROPY_ROWS)])
