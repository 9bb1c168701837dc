"""Bases whose linear layers bitsandbytes keeps in 4 or 8 bits: how they are loaded, and computed alike in all passes.

A ratio of two policies is only right if the log-probs of both come from the same arithmetic.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import torch
from torch.nn.functional import linear
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


def prepare_quantised(model: PreTrainedModel) -> None:
    """Make training and scoring passes compute the layers of a base in 4 or 8 bits in the same way.

    The other weights keep their type. PEFT's ``prepare_model_for_kbit_training`` makes them float32, and so all
    activations: with bfloat16 they would take twice the memory, more than those of a base that is not rounded.
    """
    layers: Any = importlib.import_module("bitsandbytes.nn")
    for module in model.modules():
        if isinstance(module, layers.Linear4bit):
            _keep_in_training_mode(module)
        elif isinstance(module, layers.Linear8bitLt):
            _round_only_weights(module)


def _keep_in_training_mode(layer: torch.nn.Module) -> None:
    """Keep a 4-bit layer in training mode for good.

    In evaluation mode on a CPU, bitsandbytes packs its weights for a kernel through which no gradient flows, and
    later training passes use it too. The mode changes nothing else in it.
    """
    layer.train()
    layer.train = partial(_unchanged, layer)


def _unchanged(module: torch.nn.Module, mode: bool = True) -> torch.nn.Module:
    return module


def _round_only_weights(layer: Any) -> None:
    """Make an 8-bit layer multiply its input, as it is, by the rounded weights.

    The layer of bitsandbytes does this in training mode on a CPU only. Otherwise it computes LLM.int8, which rounds the
    input too, except for the columns that are large in some row of the batch, so the output of a row depends on the
    other rows.
    """
    layer.init_8bit_state()
    layer.forward = partial(_linear, layer)


def _linear(layer: Any, inputs: torch.Tensor) -> Any:
    return _Product.apply(inputs, layer.state.CB, layer.state.SCB, layer.bias)


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """A linear layer with 8-bit weights that are not trained. They are in full precision inside a pass only."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weights: torch.Tensor, scales: torch.Tensor, bias: Any) -> torch.Tensor:
        ctx.save_for_backward(weights, scales)
        return linear(inputs, _whole(weights, scales, inputs.dtype), bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        weights, scales = ctx.saved_tensors
        return gradient @ _whole(weights, scales, gradient.dtype), None, None, None


def _whole(weights: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """8-bit weights (out, in), each row times its largest absolute value (out) over 127."""
    return weights.to(dtype).mul_((scales / 127).unsqueeze(1))


def _device() -> torch.device:
    """The device of this process."""
    kind = torch.accelerator.current_accelerator()
    if kind is None or not torch.accelerator.is_available():
        return torch.device("cpu")
    return torch.device(kind.type, torch.accelerator.current_device_index())
