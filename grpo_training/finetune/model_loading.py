"""From a configuration to a model that is ready to train: base weights, a LoRA on top, the tokenizer.

Everything that can be wrong with them is found here, before a run has written anything.
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigurationError, InputError, MissingInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from peft import LoraConfig
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from grpo_training.finetune.config import GRPOTrainingConfig

_ADAPTER_FILE = "adapter_model.safetensors"
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")


def load_model(config: GRPOTrainingConfig) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model of ``config``, with a fresh LoRA where ``use_peft``, on the CPU and in training mode.

    The base is kept in float32, or in bfloat16 where :func:`uses_bf16` and only a LoRA learns; what learns is
    always float32. A fresh LoRA changes nothing, so the model's log-probs are the base's until the first step.

    Raises:
        MissingInputError: the model is not there.
        InputError: what is there is no model: an adapter, a folder without weights or tokenizer.
        ConfigurationError: the backend, bf16 or the LoRA's target modules do not go with this machine or model.
    """
    check_model(config)
    if config.backend == "unsloth":
        loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase] = _load_with_unsloth(config)
        return loaded
    tokenizer, model = load_tokenizer(config), load_base_model(config)
    if config.use_peft:
        model = _with_lora(model, config)
    prepared: PreTrainedModel = _ready(model, config)
    return prepared, tokenizer


def _with_lora(model: PreTrainedModel, config: GRPOTrainingConfig) -> Any:
    """A fresh LoRA on ``model``; the same seed draws the same one."""
    import torch
    from peft import get_peft_model

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        try:
            return get_peft_model(model, lora_config(config))
        except ValueError as error:
            raise ConfigurationError(
                f"The LoRA does not fit {config.model_name_or_path}",
                why=_first_line(error),
                fix="Set lora_target_modules to names of this model's linear layers, or to all-linear.",
            ) from error


def check_model(config: GRPOTrainingConfig) -> None:
    """Find what is wrong with the model's place and the precision, without loading any weights.

    Raises:
        MissingInputError, InputError, ConfigurationError: as :func:`load_model`.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    name = str(config.model_name_or_path)
    folder = Path(name).expanduser()
    if folder.is_dir():
        _check_folder(folder)
    elif _looks_like_a_path(name):
        raise MissingInputError(
            f"Model not found: {folder}",
            why="It is a file, not a model's folder." if folder.exists() else "There is no such folder.",
            fix="Give the folder of a model (config.json, weights, tokenizer), or its name on the Hugging Face hub.",
        )
    if config.bf16 and not supports_bf16():
        raise ConfigurationError(
            "bf16 is on, but this machine does not compute in bfloat16",
            why="There is no CUDA GPU with bfloat16, and the CPU has neither AVX512-BF16 nor AMX.",
            fix="Leave bf16 off: the model then trains in float32.",
        )


def supports_bf16() -> bool:
    """Whether the device that trains computes in bfloat16 by itself; emulation is ten times slower than float32."""
    import torch

    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def uses_bf16(config: GRPOTrainingConfig) -> bool:
    """Whether this run computes in bfloat16: as ``bf16`` says, and where it says nothing, on a GPU that can."""
    import torch

    return (torch.cuda.is_available() and supports_bf16()) if config.bf16 is None else config.bf16


def load_tokenizer(config: GRPOTrainingConfig) -> PreTrainedTokenizerBase:
    """The model's tokenizer, with a padding token and a chat template.

    Raises:
        MissingInputError, InputError: as :func:`load_model`; also a tokenizer without an end-of-text token.
    """
    from transformers import AutoTokenizer

    check_model(config)
    tokenizer = _from_hub(config, lambda name: AutoTokenizer.from_pretrained(name))
    if tokenizer.eos_token_id is None:
        raise InputError(
            f"The tokenizer of {config.model_name_or_path} has no end-of-text token",
            fix="Set eos_token in its tokenizer_config.json: without it no completion can end.",
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token  # harmless: padding is masked by length, never by its value
    return tokenizer


def load_base_model(config: GRPOTrainingConfig) -> PreTrainedModel:
    """The weights that the LoRA stands on, in the precision that :func:`load_model` describes.

    Raises:
        MissingInputError, InputError, ConfigurationError: as :func:`load_model`.
    """
    import torch
    from transformers import AutoModelForCausalLM

    check_model(config)
    dtype = torch.bfloat16 if uses_bf16(config) and config.use_peft else torch.float32
    model: PreTrainedModel = _from_hub(config, lambda name: AutoModelForCausalLM.from_pretrained(name, dtype=dtype))
    return model


def lora_config(config: GRPOTrainingConfig) -> LoraConfig:
    """PEFT's description of the LoRA."""
    from peft import LoraConfig

    return LoraConfig(
        task_type="CAUSAL_LM",
        r=config.lora_r,
        lora_alpha=config.lora_alpha,
        lora_dropout=config.lora_dropout,
        target_modules=_target_modules(config),
        bias="none",
    )


def adapter_off(model: PreTrainedModel) -> Any:
    """A context in which the model is its base again: the reference policy, without a second copy."""
    return model.disable_adapter()


def has_adapter(model: PreTrainedModel) -> bool:
    """Whether a LoRA stands on the model, so that :func:`adapter_off` gives the reference."""
    return hasattr(model, "peft_config")


# ------------------------------------------------------------------ what was learned, in files


def trained_weights(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The weights that learn, by name."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def save_weights(model: PreTrainedModel, folder: Path) -> None:
    """Write what learns into ``folder``: a PEFT adapter, or the whole model where there is none."""
    model.save_pretrained(folder)


def load_weights(model: PreTrainedModel, folder: Path) -> None:
    """Put what :func:`save_weights` wrote into ``model``, in place.

    Raises:
        MissingInputError: the folder holds no weights.
        InputError: they were trained on another model, or with another LoRA.
    """
    if not has_adapter(model):
        _load_whole_model(model, folder)
        return
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    if not (folder / _ADAPTER_FILE).exists():
        raise MissingInputError(f"No adapter in {folder}", why=f"{_ADAPTER_FILE} is not there.")
    stored = load_file(folder / _ADAPTER_FILE)
    _check_shapes(model, stored, folder)
    set_peft_model_state_dict(model, stored)


def _load_whole_model(model: PreTrainedModel, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    stored = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()
    own = model.state_dict()
    wrong = [name for name in own if name not in stored or own[name].shape != stored[name].shape]
    if wrong:
        raise _of_another_model(folder, wrong[0], own[wrong[0]], stored.get(wrong[0]))
    model.load_state_dict(stored)


def _check_shapes(model: PreTrainedModel, stored: dict[str, torch.Tensor], folder: Path) -> None:
    from peft import get_peft_model_state_dict

    own = get_peft_model_state_dict(model)
    for name in sorted(own.keys() | stored.keys()):
        if name not in own or name not in stored or own[name].shape != stored[name].shape:
            raise _of_another_model(folder, name, own.get(name), stored.get(name))


def _of_another_model(folder: Path, name: str, own: torch.Tensor | None, stored: torch.Tensor | None) -> InputError:
    def shape(tensor: torch.Tensor | None) -> str:
        return "not there" if tensor is None else "x".join(map(str, tensor.shape))

    return InputError(
        f"The weights in {folder} belong to another model or LoRA",
        why=f"{name} is {shape(stored)} there and {shape(own)} in this model.",
        fix="Give the model and the LoRA settings that they were trained with, or begin anew with --fresh.",
    )


# ------------------------------------------------------------------ finding faults


def _check_folder(folder: Path) -> None:
    if (folder / "adapter_config.json").exists() and not (folder / "config.json").exists():
        base = _base_of_adapter(folder)
        raise InputError(
            f"{folder} holds a LoRA adapter, not a model",
            why=f"It stands on {base}." if base else "",
            fix="Give the folder of a whole model: the adapter's base, or the merged model that a fine-tune wrote.",
        )
    if not (folder / "config.json").exists():
        raise InputError(
            f"{folder} is no model's folder",
            why="config.json is not there.",
            fix="Give the folder that holds config.json, the weights (model.safetensors) and the tokenizer.",
        )
    if not any((folder / name).exists() for name in _TOKENIZER_FILES):
        raise InputError(
            f"The model in {folder} has no tokenizer",
            why="tokenizer.json is not there.",
            fix="Copy the tokenizer's files of the model into that folder.",
        )


def _base_of_adapter(folder: Path) -> str:
    try:
        return str(json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _looks_like_a_path(name: str) -> bool:
    """Names on the hub are ``owner/name``; anything else with a separator is a place on this disk."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or name.endswith("/") or Path(name).exists()


def _from_hub(config: GRPOTrainingConfig, load: Callable[[str], Any]) -> Any:
    """Call ``load`` with the model's folder or hub name; its failures become one clear error."""
    from safetensors import SafetensorError

    name = str(config.model_name_or_path)
    folder = Path(name).expanduser()
    place = str(folder) if folder.is_dir() else name
    try:
        return load(place)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        if folder.is_dir():
            raise InputError(
                f"The model in {folder} cannot be loaded",
                why=_first_line(error),
                fix="Check that its files are whole and that its architecture is a causal language model.",
            ) from error
        raise MissingInputError(
            f"Model not found: {name}",
            why=_first_line(error),
            fix="Give the folder of a model, or a name on the Hugging Face hub that this machine can reach.",
        ) from error


def _target_modules(config: GRPOTrainingConfig) -> str | list[str]:
    """``all-linear`` alone is PEFT's word for every linear layer but the head; names are a list."""
    names = list(config.lora_target_modules)
    return names[0] if names == ["all-linear"] else names


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _ready(model: Any, config: GRPOTrainingConfig) -> Any:
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # loading has shown its own; those of each save would only disturb the training's
    model.config.use_cache = False
    if config.gradient_checkpointing:
        if has_adapter(model):
            model.enable_input_require_grads()  # else nothing that is checkpointed would need a gradient
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.train()


def _load_with_unsloth(config: GRPOTrainingConfig) -> Any:
    """Only where the person asked for it: importing unsloth rewrites transformers and TRL in this process."""
    import torch

    fix = (
        "Train with --backend hf, or install unsloth in an environment of its own on a machine with a CUDA GPU "
        "(it needs older transformers and trl than this project)."
    )
    if not torch.cuda.is_available():
        raise ConfigurationError("--backend unsloth needs a CUDA GPU", why="torch sees none here.", fix=fix)
    try:
        loader: Any = importlib.import_module("unsloth").FastLanguageModel
        model, tokenizer = loader.from_pretrained(
            str(config.model_name_or_path),
            max_seq_length=config.max_seq_length,
            dtype=torch.bfloat16 if uses_bf16(config) else torch.float32,
            load_in_4bit=False,
        )
        if config.use_peft:
            model = loader.get_peft_model(
                model,
                r=config.lora_r,
                lora_alpha=config.lora_alpha,
                lora_dropout=config.lora_dropout,
                target_modules=_target_modules(config),
                use_gradient_checkpointing="unsloth" if config.gradient_checkpointing else False,
                random_state=config.seed,
            )
    except (ImportError, NotImplementedError, RuntimeError) as error:
        raise ConfigurationError("The backend unsloth cannot be used here", why=_first_line(error), fix=fix) from error
    return model.train(), tokenizer
