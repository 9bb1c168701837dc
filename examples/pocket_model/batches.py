"""Batches of conversations for the training of the pocket model."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from examples.pocket_model.corpus import Conversation, Corpus
from examples.pocket_model.settings import PocketTrainSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

IGNORED = -100
"""Label of tokens without a loss."""


@dataclass(frozen=True)
class Batch:
    """Conversations as tensors of shape ``(conversations, length)``, padded at the end.

    Args:
        ids: token ids.
        labels: the token id for tokens of a reply, else -100.
        others: at the choice (the first token that differs from the other reply), the other reply's token, else -100.
        chances: at the choice, the probability of the reply's own token; 1 elsewhere.
    """

    ids: torch.Tensor
    labels: torch.Tensor
    others: torch.Tensor
    chances: torch.Tensor


@dataclass(frozen=True)
class Encoded:
    """A conversation's token ids, the length of its prompt, and the position, other token and chance of its choice."""

    ids: list[int]
    prompt: int
    fork: int
    other: int
    chance: float


def draw_batches(
    tokenizer: PreTrainedTokenizerFast,
    settings: PocketTrainSettings,
    pool: int,
    most_lessons: int,
    pool_size: int,
) -> Iterator[Batch]:
    """The batches of one pool: conversations of similar length together, batches in random order.

    Args:
        tokenizer: the run's tokenizer.
        settings: seed and batch size.
        pool: number of the pool; part of the seed.
        most_lessons: maximum number of experiences in a prompt.
        pool_size: number of conversations.
    """
    rng, corpus = random.Random(f"{settings.seed}:{pool}"), Corpus("train", most_lessons)
    rows = sorted((encode(tokenizer, corpus.draw(rng)) for _ in range(pool_size)), key=lambda row: len(row.ids))
    cut: list[list[Encoded]] = [[]]
    for row in rows:
        if (len(cut[-1]) + 1) * len(row.ids) > settings.batch_tokens and cut[-1]:
            cut.append([])
        cut[-1].append(row)
    rng.shuffle(cut)
    for batch in cut:
        yield _batch(batch, int(tokenizer.pad_token_id))


def _batch(rows: Sequence[Encoded], padding: int) -> Batch:
    shape = len(rows), max(len(row.ids) for row in rows)
    ids, labels, others = (torch.full(shape, fill) for fill in (padding, IGNORED, IGNORED))
    chances = torch.ones(shape)
    for index, row in enumerate(rows):
        tokens, length = torch.tensor(row.ids), len(row.ids)
        ids[index, :length] = tokens
        labels[index, row.prompt : length] = tokens[row.prompt :]
        others[index, row.fork] = row.other
        chances[index, row.fork] = row.chance
    return Batch(ids, labels, others, chances)


def encode(tokenizer: PreTrainedTokenizerFast, conversation: Conversation) -> Encoded:
    """The tokens of a conversation."""
    messages = [message.model_dump() for message in conversation.messages]
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    prompt_ids, reply, other = (
        tokenizer(text)["input_ids"]
        for text in (
            prompt,
            conversation.reply + tokenizer.eos_token,
            conversation.other_reply + tokenizer.eos_token,
        )
    )
    fork = next(index for index, (left, right) in enumerate(zip(reply, other, strict=False)) if left != right)
    return Encoded(prompt_ids + reply, len(prompt_ids), len(prompt_ids) + fork, other[fork], conversation.chance)
