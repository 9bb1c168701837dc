"""Loads a model for training: base weights, a LoRA on top, the tokenizer; saves and loads the trained weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training, set_peft_model_state_dict
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import BitsAndBytesConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from engine.errors import ConfigurationError, InputError, first_line
from grpo_training.serve.model_folder import TIED, adapts_tied_weights, load_complete
from grpo_training.train.config import ALL_LINEAR, GRPOTrainingConfig
from grpo_training.train.models.tokenizer import from_hub, load_tokenizer, supports_bf16


def load_model(config: GRPOTrainingConfig) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model of ``config``, with a fresh LoRA where ``use_peft``, in training mode.

    It is on the CPU, a 4-bit or 8-bit one on the device of this process. The base is in float32, or in bfloat16 where
    :func:`uses_bf16` and only a LoRA is trained; its linear layers may be in 4 or 8 bits. Trained weights are always
    float32. A fresh LoRA changes nothing: until the first step the log-probs are those of the base.

    Raises:
        MissingInputError: there is no such model.
        InputError: the folder holds no usable model: an adapter, or no weights or tokenizer.
        ConfigurationError: this machine or model does not support bf16 or the LoRA's target modules.
    """
    tokenizer, model = load_tokenizer(config), load_base_model(config)
    if config.quantised is not None:
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if config.use_peft:
        model = _with_lora(model, config)
    disable_progress_bar()  # else each save would print one into the progress of the training
    disable_dropout(model)
    model.config.use_cache = False
    if config.gradient_checkpointing:
        if config.use_peft:
            model.enable_input_require_grads()  # else no checkpointed layer would get a gradient
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.train(), tokenizer


def _with_lora(model: PreTrainedModel, config: GRPOTrainingConfig) -> Any:
    """Add a fresh LoRA to ``model``; it depends on the seed alone."""
    modules = config.lora_target_modules
    settings = LoraConfig(
        task_type="CAUSAL_LM",
        r=config.lora_r,
        lora_alpha=config.lora_alpha or 2 * config.lora_r,
        # PEFT takes all-linear (every linear layer but the head) as a string, and names as a list.
        target_modules=ALL_LINEAR if modules == (ALL_LINEAR,) else list(modules),
        bias="none",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        try:
            with_lora = get_peft_model(model, settings)
        except ValueError as error:
            raise ConfigurationError(
                f"The LoRA does not fit {config.model_name_or_path}",
                why=first_line(error),
                fix="Set lora_target_modules to names of this model's linear layers, or to all-linear.",
            ) from error
    if adapts_tied_weights(model):
        raise ConfigurationError(
            f"The LoRA does not fit {config.model_name_or_path}",
            why=TIED,
            fix="Leave embedding and head out of lora_target_modules.",
        )
    return with_lora


def uses_bf16(config: GRPOTrainingConfig) -> bool:
    """Whether this run computes in bfloat16: ``bf16``, and if that is unset, on a GPU or CPU that supports it."""
    return supports_bf16() if config.bf16 is None else config.bf16


def load_base_model(config: GRPOTrainingConfig) -> PreTrainedModel:
    """The base model, in the precision that :func:`load_model` describes. :func:`check_model` has accepted it.

    Raises:
        MissingInputError, InputError, ConfigurationError: as :func:`load_model`.
    """
    options: dict[str, Any] = {"dtype": torch.bfloat16 if uses_bf16(config) and config.use_peft else torch.float32}
    if config.quantised is not None:
        device = PartialState(cpu=not torch.accelerator.is_available()).device  # of this process
        options["device_map"] = {"": device}
        options["quantization_config"] = BitsAndBytesConfig(  # in 4 bits as in QLoRA (Dettmers et al. 2023)
            **{config.quantised: True},
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16 if uses_bf16(config) else torch.float32,
        )
    if config.attn_implementation is not None:
        options["attn_implementation"] = config.attn_implementation
    try:
        model: PreTrainedModel = from_hub(config, lambda name: load_complete(name, **options))
    except ImportError as error:
        raise ConfigurationError(
            f"The model {config.model_name_or_path} needs a package that is not installed", why=first_line(error)
        ) from error
    return model


def disable_dropout(model: torch.nn.Module) -> None:
    """Set every dropout to 0: layers, those of the adapter included, and rates that a forward pass reads."""
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for name, value in vars(module).items():
            if name.endswith("dropout") and isinstance(value, float):
                setattr(module, name, 0.0)


def has_adapter(model: PreTrainedModel) -> bool:
    """Whether the model has a LoRA, so that it is the initial one while the LoRA is disabled."""
    return hasattr(model, "peft_config")


def trained_weights(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The weights that are trained, by name."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def load_weights(model: PreTrainedModel, folder: Path) -> None:
    """Load into ``model`` what its ``save_pretrained`` wrote: a PEFT adapter, or the whole model where there is none.

    Raises:
        InputError: they are missing, cannot be read, or belong to another model or LoRA.
    """
    try:
        if has_adapter(model):
            set_peft_model_state_dict(model, load_file(folder / SAFETENSORS_WEIGHTS_NAME))
        else:
            model.load_state_dict(load_complete(folder, dtype=torch.float32).state_dict())
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise InputError(
            f"The weights in {folder} cannot be read",
            why=first_line(error),
            fix="Remove that folder to resume from the checkpoint before it, or start over with --fresh.",
        ) from error
