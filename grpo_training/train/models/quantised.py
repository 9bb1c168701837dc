"""Bases whose linear layers bitsandbytes keeps in 4 or 8 bits."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import torch
from peft import prepare_model_for_kbit_training
from transformers import BitsAndBytesConfig, PreTrainedModel


def loading_options(quantised: str, compute_dtype: torch.dtype) -> dict[str, Any]:
    """Arguments of ``from_pretrained``. The weights are rounded on the device of this process, and stay there.

    Args:
        quantised: ``load_in_4bit``, with the settings of QLoRA (Dettmers et al. 2023), or ``load_in_8bit``.
        compute_dtype: of the products with 4-bit weights; those with 8-bit weights take the type of their input.
    """
    settings = BitsAndBytesConfig(
        **{quantised: True},
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=compute_dtype,
    )
    return {"quantization_config": settings, "device_map": {"": _device()}}


def prepare_quantised(model: PreTrainedModel) -> PreTrainedModel:
    """The model as PEFT prepares it for a LoRA on top: frozen, and what is not rounded in float32.

    4-bit layers stay in training mode: in evaluation mode on a CPU, bitsandbytes packs their weights for a kernel
    through which no gradient flows, and later training passes use it too. The mode changes nothing else in them.
    """
    layers: Any = importlib.import_module("bitsandbytes.nn")
    for module in model.modules():
        if isinstance(module, layers.Linear4bit):
            module.train().train = partial(_unchanged, module)
    prepared: PreTrainedModel = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    return prepared


def _unchanged(module: torch.nn.Module, mode: bool = True) -> torch.nn.Module:
    return module


def _device() -> torch.device:
    """The device of this process."""
    kind = torch.accelerator.current_accelerator()
    if kind is None or not torch.accelerator.is_available():
        return torch.device("cpu")
    return torch.device(kind.type, torch.accelerator.current_device_index())
