"""Sequences that are longer than those a model has positions for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from engine.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FIRST_POSITION = 2
"""The first row of OPT's table that is used for a position; GPT-2 uses all."""
_BY_LONGEST = {"dynamic": "max_position_embeddings", "longrope": "original_max_position_embeddings"}
"""RoPE scaling whose frequencies depend on the longest sequence of a batch, and the length from which on they do."""


def check_positions(model: PreTrainedModel, longest: int) -> None:
    """Refuse sequences for which a model has no positions, or none that are the same in each batch.

    The first are those beyond the table of a model such as GPT-2 and OPT. The second are those beyond the original
    length of a RoPE scaling of type ``dynamic`` or ``longrope``: a long row changes the log-probs of the rows beside
    it, so the ratio and the KL would not start at 1 and 0.

    Args:
        model: the model.
        longest: tokens of the longest sequence, prompt and completion.

    Raises:
        InputError: the longest sequence is too long.
    """
    config = model.config.get_text_config()
    limit = _learned(config)
    if limit is None:
        return
    tables = {module for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    tables.discard(model.get_input_embeddings())
    if longest > limit and any(limit <= table.num_embeddings <= limit + _FIRST_POSITION for table in tables):
        raise _too_long(longest, limit, f"{config.model_type} has {limit} positions")
    for rope in _rope(config):
        name = _BY_LONGEST.get(rope.get("rope_type", ""))
        start = rope.get(name, getattr(config, name, None)) if name else None
        if start is not None and longest > start:
            raise _too_long(
                longest,
                start,
                f"beyond {start} the RoPE scaling {rope['rope_type']!r} makes each log-prob depend on the longest row "
                "of its batch",
            )


def position_note(model: PreTrainedModel, longest: int) -> str:
    """A warning about sequences that are longer than those a model with RoPE was trained on; empty if there are none.

    Args:
        model: the model.
        longest: tokens of the longest sequence, prompt and completion.
    """
    config = model.config.get_text_config()
    limit = _learned(config)
    if limit is None or longest <= limit:
        return ""
    return (
        f"the longest prompt and reply have {longest} tokens; the model was made for {limit} "
        f"(--max-seq-length {limit} leaves longer ones out)"
    )


def _learned(config: Any) -> int | None:
    """The number of positions that the configuration of a model names; RoPE scaling may extend them."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None:
        return None
    scaled = [
        int(rope["factor"] * rope["original_max_position_embeddings"])
        for rope in _rope(config)
        if rope.get("factor") and rope.get("original_max_position_embeddings")
    ]
    return max(limit, *scaled) if scaled else int(limit)


def _rope(config: Any) -> list[dict[str, Any]]:
    """The RoPE parameters, which some models have for each type of layer."""
    rope = getattr(config, "rope_parameters", None) or {}
    return [one for one in rope.values() if isinstance(one, dict)] or [rope]


def _too_long(longest: int, limit: int, why: str) -> InputError:
    return InputError(
        f"The longest prompt and reply have {longest} tokens; {why}",
        fix=f"Pass --max-seq-length {limit}: longer ones are then left out.",
    )
