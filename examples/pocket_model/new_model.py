"""A language model from scratch: a byte-level tokenizer, random weights of Qwen3's architecture, and its folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

END, PAD = "<|end|>", "<|pad|>"
SPECIAL = (END, PAD, "<|system|>", "<|user|>", "<|assistant|>")
MAX_VOCABULARY = 2000

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

RESPONSE_TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {"content": {"close_pattern": r"<\|end\|>", "content": "text"}},
}
"""Marks the reply in the model's output. Without it ``transformers serve`` looks for Qwen's markers, which this chat
template does not have, and returns the prompt before each reply."""


def train_tokenizer(texts: Iterable[str], *, pieces: str, whole: Sequence[str]) -> PreTrainedTokenizerFast:
    """Train the vocabulary.

    Args:
        texts: to train on.
        pieces: a regular expression; no token spans two of its matches.
        whole: texts that are one token each.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=MAX_VOCABULARY - len(whole),
        min_frequency=3,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in whole])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
        padding_side="left",
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def new_model(
    hidden: int, layers: int, tokenizer: PreTrainedTokenizerFast, head_size: int = 64, spread: float = 0.02
) -> Qwen3ForCausalLM:
    """A model with random weights.

    Args:
        hidden: its width, a multiple of ``head_size``.
        layers: number of layers.
        head_size: width of an attention head.
        spread: standard deviation of the weights.
        tokenizer: gives the size of the vocabulary.
    """
    heads = hidden // head_size
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 2),
        head_dim=head_size,
        initializer_range=spread,
        tie_word_embeddings=True,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


def write_model(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the weights in bfloat16, the tokenizer with its chat template, and the generation config."""
    folder.mkdir(parents=True, exist_ok=True)
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        max_new_tokens=256,
    )
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _make_portable(folder / "tokenizer_config.json")


def _make_portable(path: Path) -> None:
    """Make the tokenizer's config readable for older servers. The special tokens are in ``tokenizer.json``."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("extra_special_tokens", None)
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config["response_template"] = RESPONSE_TEMPLATE
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
