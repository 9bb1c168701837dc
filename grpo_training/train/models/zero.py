"""Trainings with DeepSpeed (ZeRO 3): its settings, and its weights and optimizer state as those of one process.

Weights, gradients and optimizer state are divided among the processes. The engine reduces and clips the gradients, and
takes the optimizer step in the last backward pass of a step.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from accelerate import Accelerator, DeepSpeedPlugin, PartialState
from accelerate.utils import DistributedType, parse_flag_from_env
from torch import Tensor
from transformers.integrations import unset_hf_deepspeed_config

from engine.errors import ConfigurationError
from grpo_training.train.config import GRPOTrainingConfig

_MOMENTS = ("exp_avg", "exp_avg_sq")
_ACCEPTED = {
    "ACCELERATE_DEEPSPEED_ZERO_STAGE": ("zero_stage", "3"),
    "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE": ("offload_optimizer_device", "none"),
    "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE": ("offload_param_device", "none"),
    "ACCELERATE_DEEPSPEED_CONFIG_FILE": ("deepspeed_config_file", "none"),
}
"""Variable of ``accelerate launch`` -> the key of its configuration, and the only value that is supported."""


def zero_plugin(config: GRPOTrainingConfig, *, bf16: bool) -> DeepSpeedPlugin | None:
    """The settings of DeepSpeed; None where the configuration of accelerate does not ask for it.

    Args:
        config: the training configuration; clipping and rows are those of it.
        bf16: compute in bfloat16. Gradients are reduced in float32.

    Raises:
        ConfigurationError: DeepSpeed is not installed, or the configuration asks for what is not supported.
    """
    if not parse_flag_from_env("ACCELERATE_USE_DEEPSPEED"):
        return None
    for variable, (name, accepted) in _ACCEPTED.items():
        if (value := os.environ.get(variable, accepted)) != accepted:
            raise ConfigurationError(
                f"{name}: {value} is not supported by offline and supervised training",
                why=f"With DeepSpeed it must be {accepted}.",
                fix="Use grpo_training/configs/accelerate/deepspeed_zero3_8gpu.yaml.",
            )
    if config.optim == "adamw_8bit":
        raise ConfigurationError("adamw_8bit is not supported with DeepSpeed", fix="Use adamw_torch.")
    if importlib.util.find_spec("deepspeed") is None:
        raise ConfigurationError(
            "DeepSpeed is not installed",
            why="The configuration of accelerate asks for it.",
            fix="Install it (pip install deepspeed), or use grpo_training/configs/accelerate/fsdp_8gpu.yaml.",
        )
    plugin = DeepSpeedPlugin(
        gradient_accumulation_steps=1,  # the loop says which backward pass ends a step
        gradient_clipping=config.max_grad_norm,
        zero_stage=3,
        zero3_init_flag=False,
    )
    plugin.deepspeed_config["train_micro_batch_size_per_gpu"] = config.per_device_train_batch_size
    if bf16:
        plugin.deepspeed_config["communication_data_type"] = "fp32"
    return plugin


def enable_zero(accelerator: Accelerator, plugin: DeepSpeedPlugin) -> None:
    """Make accelerate use DeepSpeed on a CPU too, and transformers load each model whole."""
    if accelerator.distributed_type != DistributedType.DEEPSPEED:
        plugin.set_mixed_precision(accelerator.mixed_precision)
        accelerator.state.deepspeed_plugins = plugin
        plugin.select(_from_accelerator_state=True)
        PartialState().distributed_type = accelerator.state.distributed_type = DistributedType.DEEPSPEED
    unset_hf_deepspeed_config()
    # DeepSpeed uses deprecated names of torch at each exchange.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")


def is_divided(tensor: Tensor) -> bool:
    """Whether a tensor is a parameter that DeepSpeed divides."""
    return hasattr(tensor, "ds_id")


def whole_parameter(parameter: Any) -> Tensor:
    """The float32 values of a trained parameter. All processes call it together."""
    values: Tensor = _deepspeed().utils.safe_get_full_fp32_param(parameter)
    return values


def copy_into_parameter(parameter: Any, stored: Tensor) -> None:
    """Set a trained parameter to a whole tensor, which each process has."""
    with _deepspeed().zero.GatheredParameters([parameter], modifier_rank=0):
        parameter.data.copy_(stored)
    _deepspeed().utils.safe_set_local_fp32_param(parameter, _own_part(parameter, stored))


def whole_optimizer_state(optimizer: Any, parameters: Sequence[Any], *, keep: bool) -> dict[str, Any]:
    """The state of AdamW, as ``state_dict()`` of one process gives it. All processes call it together.

    Args:
        optimizer: of DeepSpeed.
        parameters: the trained ones, in the order in which the optimizer was given them.
        keep: false: the tensors become None, as on a process that writes nothing.
    """

    def moment(parameter: Any, name: str) -> Tensor | None:
        gathered = _deepspeed().utils.safe_get_full_optimizer_state(parameter, name)
        return gathered.cpu() if keep else None

    group = optimizer.param_groups[0] | {"params": list(range(len(parameters)))}
    steps = [values["step"] for values in optimizer.state.values()]
    state = {
        number: {"step": steps[0].clone(), **{name: moment(parameter, name) for name in _MOMENTS}}
        for number, parameter in enumerate(parameters if steps else ())
    }
    return {"state": state, "param_groups": [group]}


def load_optimizer_state(optimizer: Any, parameters: Sequence[Any], stored: dict[str, Any]) -> None:
    """Load what :func:`whole_optimizer_state` gave, or one process, into the parts of this process."""
    for part in optimizer.fp32_partitioned_groups_flat if stored["state"] else ():
        step = stored["state"][0]["step"].clone()
        optimizer.state[part] = {"step": step} | {name: torch.zeros_like(part) for name in _MOMENTS}
    for number, values in stored["state"].items():
        for name in _MOMENTS:
            part = _own_part(parameters[number], values[name])
            _deepspeed().utils.safe_set_local_optimizer_state(parameters[number], part, name)


def _own_part(parameter: Any, stored: Tensor) -> Tensor:
    """The part of this process, filled up with zeros where the tensor does not divide evenly."""
    size = parameter.ds_tensor.numel()
    part = torch.zeros(size)
    own = stored.flatten()[size * PartialState().process_index :][:size]
    part[: own.numel()] = own
    return part


def _deepspeed() -> Any:
    return importlib.import_module("deepspeed")
