"""What is shown before anything is asked: about how many tokens prompts and replies have, and a prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import TextIO

from engine.llm.requests import TOKENS_PER_IMAGE
from engine.records import IMAGE_TAG, Message
from grpo_training.cli.terminal_text import harmless

TOKENS_OF_REPLY = 250
"""Assumed where nothing was measured: a short derivation."""
_CHARACTERS_PER_TOKEN = 4
"""Of English text."""
_SHOWN = 20
_LONGEST = 5000
"""Characters of a message that are shown."""


def tokens_of(prompts: Sequence[Sequence[Message]]) -> int:
    """The mean number of tokens of prompts, estimated from the characters and images of the first ones."""
    texts = ["".join(message.content for message in messages) for messages in prompts[:_SHOWN]]
    images = [TOKENS_PER_IMAGE * len(IMAGE_TAG.findall(text)) for text in texts]
    return math.ceil(fmean(map(len, texts)) / _CHARACTERS_PER_TOKEN + fmean(images))


def tokens_line(read: int, written: int, cost_usd: float | None) -> str:
    """Tokens and price in a sentence.

    Args:
        read: tokens of all prompts.
        written: tokens of all replies, of which each has ``TOKENS_OF_REPLY``.
        cost_usd: of all tokens; None if the prices are not known.
    """
    price = "the price is not known (--price-in, --price-out)" if cost_usd is None else f"{cost_usd:.2f} USD"
    return (
        f"About {rounded(read)} tokens to the model and {rounded(written)} from it "
        f"({TOKENS_OF_REPLY} per answer assumed); {price}."
    )


def show_prompt(messages: Sequence[Message], stream: TextIO, title: str = "The first prompt") -> None:
    """Print the messages of a request under a title."""
    print(f"\n{title}:", file=stream)
    for message in messages:
        content = harmless(message.content[:_LONGEST], keep="\n")
        cut = f" ... ({len(message.content):,} characters)" if len(message.content) > _LONGEST else ""
        print(f"\n[{message.role}]\n{content}{cut}", file=stream)


def rounded(count: int) -> str:
    """A number with two digits, in millions if it is large."""
    return f"{count / 1e6:.2g} million" if count >= 100_000 else f"{int(float(f'{count:.2g}')):,}"
