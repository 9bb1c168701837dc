"""Teacher examples as tensors for a supervised step of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

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
    length = max(len(prompt) + len(reply) for prompt, reply in rows)
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else chat.end_of_turn
    batch: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": [], "labels": []}
    for prompt_ids, ids in rows:
        room = length - len(prompt_ids) - len(ids)
        batch["input_ids"].append([*prompt_ids, *ids, *[padding] * room])
        batch["attention_mask"].append([*[1] * (length - room), *[0] * room])
        batch["labels"].append([*[IGNORED] * len(prompt_ids), *ids, *[IGNORED] * room])
    return {name: torch.tensor(values) for name, values in batch.items()}
