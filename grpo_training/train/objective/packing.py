"""The rows of a micro-batch as one sequence without padding.

* ``packed``: the rows one after the other. Positions restart at 0, from which transformers' attention keeps them apart.
* ``shared``: the completions of a prompt follow it, so that a prompt of several rows is computed once. A mask lets each
  completion see its prompt and itself. Its memory grows with the square of the tokens of a micro-batch.
"""
# ruff: noqa: N803, N806, N815 - names end in their shape

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from engine.errors import ConfigurationError

Layout = Literal["padded", "packed", "shared"]
"""How the rows of a micro-batch pass through the model."""
LAYOUT_OPTIONS: Mapping[Layout, str] = {"packed": "padding_free", "shared": "share_prompts"}
"""The setting of each layout that is one sequence."""


class OneSequence(NamedTuple):
    """One sequence of S tokens.

    Args:
        ids_S: the tokens.
        position_S: the position of each in its row, from 0.
        place_BT: where each position of the rows is in the sequence. Of a shared prompt only the last token has a place
            in each row.
        sees_SS: which tokens (columns) each token (row) sees; None: transformers finds it from the positions.
    """

    ids_S: Tensor
    position_S: Tensor
    place_BT: Tensor
    sees_SS: Tensor | None = None

    def hidden(self, backbone: Any) -> Tensor:
        """The last hidden states (S, H).

        Args:
            backbone: of a causal language model of transformers.
        """
        mask = {} if self.sees_SS is None else {"attention_mask": _as_mask(self.sees_SS, backbone)}
        states: Tensor = backbone(
            input_ids=self.ids_S.unsqueeze(0), position_ids=self.position_S.unsqueeze(0), use_cache=False, **mask
        ).last_hidden_state[0]
        return states


def packed(ids_BT: Tensor, is_token_BT: Tensor) -> OneSequence:
    """The rows one after the other."""
    place_BT = is_token_BT.flatten().cumsum(0).view(is_token_BT.shape) - 1
    position_BT = is_token_BT.cumsum(1) - 1
    return OneSequence(ids_BT[is_token_BT], position_BT[is_token_BT], place_BT)


def shared(ids_BT: Tensor, is_token_BT: Tensor, start_B: Tensor) -> OneSequence:
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


def check_window(config: Any, longest: int) -> None:
    """Check that each layer of a model sees all ``longest`` tokens of a row: the mask here has no sliding window.

    Raises:
        ConfigurationError: a layer sees fewer tokens.
    """
    text = config.get_text_config()
    window = getattr(text, "sliding_window", None) if getattr(text, "use_sliding_window", True) else None
    narrowest = min(filter(None, (window, getattr(text, "attention_chunk_size", None))), default=longest)
    if narrowest < longest:
        raise ConfigurationError(
            f"share_prompts does not fit rows of {longest} tokens",
            why=f"Layers of the model see {narrowest} tokens only.",
            fix="Leave share_prompts out, or train on shorter rows.",
        )


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
