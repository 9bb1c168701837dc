"""Teacher examples as tensors for a supervised step of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils.rnn import pad_sequence

from engine.errors import InputError
from grpo_training.teacher.functions import unified_messages
from grpo_training.train.data.tokenising import ChatTokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

IGNORED = -100
"""Label of tokens that are not trained on."""


def prepare_teacher_sft_batch(
    teacher_examples: Sequence[Mapping[str, Any]],
    tokenizer: PreTrainedTokenizerBase,
    include_thinking: bool = True,
    *,
    style: str = "full",
) -> dict[str, torch.Tensor]:
    """Examples as ``input_ids``, ``attention_mask`` and ``labels``, each [examples, tokens], padded on the right.

    The label of a token of the reply is its id, also of the one that ends it; that of a token of the prompt or of the
    padding is -100. The tokens are those that the fine-tune trains on.

    Args:
        teacher_examples: each with ``prompt`` (the text of a problem), ``code`` and optionally ``thinking``.
        tokenizer: with a chat template.
        include_thinking: whether the reply begins with the thinking.
        style: prompt style: full, compact or zh.

    Raises:
        InputError: there is no example, or one has no program.
        ConfigurationError: the tokenizer has no chat template.
    """
    chat = ChatTokens(tokenizer)
    rows = []
    for number, example in enumerate(teacher_examples, 1):
        if not str(example.get("code") or "").strip():
            raise InputError(f"Teacher example {number} has no code")
        thinking = example.get("thinking") if include_thinking else None
        opening = f"<think>\n{thinking}\n</think>\n\n" if thinking else ""
        reply = f"{opening}```python\n{example['code']}\n```"
        prompt = chat.prompt(unified_messages(str(example["prompt"]), style=style))
        rows.append((prompt, chat.completion(reply, truncated=False)))
    if not rows:
        raise InputError("There are no teacher examples")
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else chat.end_of_turn
    ids = [torch.tensor(prompt + reply) for prompt, reply in rows]
    labels = [torch.tensor([*[IGNORED] * len(prompt), *reply]) for prompt, reply in rows]
    return {
        "input_ids": pad_sequence(ids, batch_first=True, padding_value=padding),
        "attention_mask": pad_sequence([torch.ones_like(row) for row in ids], batch_first=True),
        "labels": pad_sequence(labels, batch_first=True, padding_value=IGNORED),
    }
