"""A small language model for traffic decisions: the pocket architecture with random weights and a tokenizer of its own.

The tokenizer has one token for each run of a prompt without a number, and one or two for a number: its whole part
up to 99, and its decimals. The embeddings of numbers begin with features of their values, so that what is learned of 7
halting vehicles says something about 8. All other weights are random.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import torch
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from engine.tasks.traffic.simulation.generation import locked
from engine.tasks.traffic.validation import all_rows
from grpo_training.traffic.settings import SmallModelSettings
from grpo_training.traffic.training_data import prompts_of
from grpo_training.train.data.tokenising import ChatTokens
from grpo_training.train.folders import write_folder
from grpo_training.training.new_model import new_model, train_tokenizer, write_model

WHOLE_NUMBERS = (*map(str, range(100)), *(f"{number:02d}" for number in range(10)))
DECIMALS = (*(f".{number}" for number in range(10)), *(f".{number:02d}" for number in range(100)))
_REPLY = ('{"extend": "', '"}')

# Dates, numbers in parts of two digits, decimals, and whatever is between numbers.
_PIECES = r"\d{4}-\d\d-\d\d|\d{1,2}|\.\d{1,2}|[^0-9.]+|\."

_HEAD_SIZE = 32

_SPREAD = 0.1
"""Of the weights. With the usual 0.02 the supervised stage moves all embeddings by more than they differ."""

_PERIODS = (1.5, 4.0, 10.0, 25.0, 60.0, 150.0)
"""Of the waves that describe a value, in its own unit."""


def make_small_model(settings: SmallModelSettings) -> int:
    """Write a new model whose tokenizer is made for the prompts of a dataset. Returns the exit code."""
    output = settings.output_dir.resolve()
    with locked(output.with_name(f".{output.name}.partial")):
        return _make(settings)


def _make(settings: SmallModelSettings) -> int:
    rows = all_rows(settings.dataset)
    prompts = prompts_of(rows, settings.prompts)
    tokenizer = small_tokenizer(message.content for messages in prompts for message in messages)
    torch.manual_seed(settings.seed)
    model = new_model(settings.hidden, settings.layers, tokenizer, _HEAD_SIZE, _SPREAD)
    describe_numbers(model, tokenizer)
    write_folder(settings.output_dir, lambda folder: write_model(model, tokenizer, folder))
    weights = sum(weight.numel() for weight in model.parameters())
    chat = ChatTokens(tokenizer)
    longest = max(len(chat.prompt(messages)) for messages in prompts)
    print(f"{weights:,} weights, {len(tokenizer)} tokens, prompts of up to {longest} tokens: {settings.output_dir}")
    return 0


def small_tokenizer(texts: Iterator[str]) -> PreTrainedTokenizerFast:
    """A tokenizer for prompts with these texts, and for replies."""
    return train_tokenizer(
        (*texts, json.dumps({"extend": "yes"}), json.dumps({"extend": "no"})),
        pieces=_PIECES,
        whole=(*WHOLE_NUMBERS, *DECIMALS, *_REPLY),
    )


def describe_numbers(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Add features of their value to the embeddings of numbers."""
    with torch.no_grad():
        weights = model.get_input_embeddings().weight
        for texts, unit in ((WHOLE_NUMBERS, 1.0), (DECIMALS, 10.0)):  # the first decimal is read as a whole number
            values = torch.tensor([unit * float(f"0{text}" if text[0] == "." else text) for text in texts])
            waves = [wave(values / period) for period in _PERIODS for wave in (torch.sin, torch.cos)]
            features = torch.stack([values / 20, torch.log1p(values), *waves], 1)
            directions = torch.randn(features.shape[1], weights.shape[1]) * weights.std()
            weights[torch.tensor(tokenizer.convert_tokens_to_ids(list(texts)))] += features @ directions
