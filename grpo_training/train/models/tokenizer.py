"""The model's folder and tokenizer: everything that can be checked without loading weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from engine.errors import ConfigurationError, InputError, ScaffoldError, first_line
from grpo_training.serve.model_folder import ask_hub, no_model
from grpo_training.train.config import GRPOTrainingConfig

_MERGE_SYSTEM = (
    "{%- if messages[1:] and messages[0]['role'] == 'system' and messages[1]['role'] == 'user' -%}"
    "{%- set merged = messages[0]['content'] ~ '\\n\\n' ~ messages[1]['content'] -%}"
    "{%- set messages = [{'role': 'user', 'content': merged}] + messages[2:] -%}"
    "{%- endif -%}"
)
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")
_MARKER = "kJq7vRw2"


def check_model(config: GRPOTrainingConfig) -> None:
    """Check the model's folder and the precision, without loading weights.

    Raises:
        MissingInputError, InputError, ConfigurationError: as :func:`grpo_training.train.models.loading.load_model`.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    name = str(config.model_name_or_path)
    folder = Path(name).expanduser()
    if folder.is_dir() and not (folder / "config.json").exists():
        is_adapter = (folder / "adapter_config.json").exists()
        raise InputError(
            f"{folder} holds a LoRA adapter, not a model" if is_adapter else f"{folder} is not the folder of a model",
            why="It has no config.json.",
            fix="Give the folder of a whole model, with config.json, weights and tokenizer: the base of the adapter or "
            "the merged model of a fine-tune.",
        )
    if folder.is_dir() and not any((folder / file).exists() for file in _TOKENIZER_FILES):
        raise InputError(f"The model in {folder} has no tokenizer", fix="Copy the tokenizer files of the model there.")
    if config.bf16 and not supports_bf16():
        raise ConfigurationError(
            "bf16 is on, but this machine does not support bfloat16",
            why="There is no CUDA GPU with bfloat16, and the CPU has neither AVX512-BF16 nor AMX.",
            fix="Set bf16 to false: the model then trains in float32.",
        )


def supports_bf16() -> bool:
    """Whether the device supports bfloat16 in hardware; emulation is ten times slower than float32."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def load_tokenizer(config: GRPOTrainingConfig) -> PreTrainedTokenizerBase:
    """The tokenizer of the model, with a padding token, and a chat template that shows a system message.

    Raises:
        MissingInputError, InputError: as :func:`check_model`; also a tokenizer without an end-of-text token.
    """
    check_model(config)
    tokenizer = from_hub(config, lambda name: AutoTokenizer.from_pretrained(name))
    if tokenizer.eos_token_id is None:
        raise InputError(
            f"The tokenizer of {config.model_name_or_path} has no end-of-text token",
            fix="Set eos_token in its tokenizer_config.json: without it no completion can end.",
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token  # padding is masked by length, never by value
    if isinstance(tokenizer.chat_template, str) and not _shows_system(tokenizer):
        tokenizer.chat_template = _MERGE_SYSTEM + tokenizer.chat_template
    return tokenizer


def _shows_system(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the chat template takes a system message, and renders its text.

    Some models were trained without the role. The text then stands in front of the user message; the changed template
    is saved with the trained model, so a server of it renders prompts as the training did.
    """
    chat = [{"role": "system", "content": _MARKER}, {"role": "user", "content": "a"}]
    try:
        return _MARKER in str(tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False))
    except Exception:  # noqa: BLE001 - a template can raise any: of jinja2, of the values that it computes with
        return False


def from_hub(config: GRPOTrainingConfig, load: Callable[[str], Any]) -> Any:
    """Call ``load`` with the folder or hub name of the model and convert its errors.

    Raises:
        InputError: what is in the folder cannot be loaded.
        MissingInputError: there is no such model on the hub.
        ImportError: a package that the model needs is missing.
    """
    name = str(config.model_name_or_path)
    folder = Path(name).expanduser()
    try:
        if not folder.is_dir():
            ask_hub(name)
        return load(str(folder) if folder.is_dir() else name)
    except Exception as error:  # of many types: of damaged files, of the hub, of its transport
        if isinstance(error, ImportError | ScaffoldError | torch.OutOfMemoryError):
            raise
        if folder.is_dir():
            raise InputError(
                f"The model in {folder} cannot be loaded",
                why=first_line(error),
                fix="Check that its files are complete, with a tokenizer, and that it is a causal language model.",
            ) from error
        raise no_model(name, error) from error
