"""Models whose weights are divided among processes (FSDP 2, ZeRO 3): their state as whole tensors, and back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import DistributedType, parse_flag_from_env
from torch import Tensor
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, distribute_tensor

from engine.errors import ConfigurationError
from grpo_training.train.models import zero

_REFUSED = {
    "FSDP_OFFLOAD_PARAMS": ("fsdp_offload_params", "Its weights are on the CPU, where checkpoints cannot be gathered."),
    "FSDP_ACTIVATION_CHECKPOINTING": (
        "fsdp_activation_checkpointing",
        "It renames the weights. The setting gradient_checkpointing of the training does the same.",
    ),
}


def fsdp_plugin(*, bf16: bool) -> FullyShardedDataParallelPlugin | None:
    """The settings of FSDP from the configuration of accelerate; None where it does not ask for FSDP.

    Args:
        bf16: whether layers are gathered and computed in bfloat16. Gradients are reduced in float32.

    Raises:
        ConfigurationError: it asks for FSDP 1, or an option of FSDP that is not supported.
    """
    if not parse_flag_from_env("ACCELERATE_USE_FSDP"):
        return None
    if os.environ.get("FSDP_VERSION", "1") != "2":
        raise ConfigurationError(
            "FSDP 1 is not supported by offline and supervised training",
            why="It replaces the weights by flat ones, which have no names.",
            fix="Set fsdp_version: 2 in the configuration of accelerate, as grpo_training/configs/accelerate/"
            "fsdp_8gpu.yaml does.",
        )
    for variable, (name, why) in _REFUSED.items():
        if parse_flag_from_env(variable):
            raise ConfigurationError(
                f"{name} is not supported by offline and supervised training",
                why=why,
                fix=f"Set {name}: false in the configuration of accelerate.",
            )
    # The policy of accelerate would round the log-probs to bfloat16 as well.
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if bf16 else None
    return FullyShardedDataParallelPlugin(mixed_precision_policy=policy)


def enable_on_cpu(accelerator: Accelerator, plugin: FullyShardedDataParallelPlugin) -> None:
    """Make accelerate use FSDP on a CPU too, where torch supports it and accelerate falls back to DDP."""
    if accelerator.distributed_type == DistributedType.MULTI_CPU:
        accelerator.state.distributed_type = DistributedType.FSDP
        accelerator.state.fsdp_plugin = plugin


def is_sharded(policy: torch.nn.Module) -> bool:
    """Whether the weights of a module are divided among processes."""
    return isinstance(policy, FSDPModule) or any(map(zero.is_divided, policy.parameters()))


def reshard(policy: torch.nn.Module) -> None:
    """Free the whole weights that a forward pass without a backward pass leaves behind."""
    if isinstance(policy, FSDPModule):
        policy.reshard()


def whole(values: Any, *, keep: bool = True) -> Any:
    """Nested dicts and lists with each sharded tensor as a whole one on the CPU. All processes call it together.

    Args:
        values: as of ``state_dict(keep_vars=True)``.
        keep: false: sharded tensors become None, as on a process that writes nothing.
    """
    if isinstance(values, dict):
        return {name: whole(value, keep=keep) for name, value in values.items()}
    if isinstance(values, list):
        return [whole(value, keep=keep) for value in values]
    if isinstance(values, torch.Tensor) and zero.is_divided(values):
        gathered = zero.whole_parameter(values)
    elif isinstance(values, DTensor):
        gathered = values.detach().full_tensor()
    else:
        return values
    return gathered.cpu() if keep else None


def copy_into(tensor: Tensor, stored: Tensor) -> None:
    """Copy a whole tensor into a parameter or buffer; into its part where it is sharded."""
    if zero.is_divided(tensor):
        zero.copy_into_parameter(tensor, stored)
        return
    with torch.no_grad():
        tensor.copy_(_like(tensor, stored))


def not_finite_weight(model: torch.nn.Module) -> str | None:
    """The name of a weight that is not finite in the part that this process holds; None if there is none."""
    for name, weight in model.named_parameters():
        part: Tensor = weight.to_local() if isinstance(weight, DTensor) else weight
        if part.is_floating_point() and not bool(part.detach().isfinite().all()):
            return str(name)
    return None


def whole_shape(tensor: Tensor) -> torch.Size:
    """The shape of the whole of a tensor."""
    shape: torch.Size = getattr(tensor, "ds_shape", tensor.shape)
    return shape


def whole_optimizer_state(optimizer: Any, parameters: Sequence[Tensor], *, keep: bool) -> dict[str, Any]:
    """The state of an optimizer with whole tensors. All processes call it together.

    Args:
        optimizer: as accelerate has wrapped it.
        parameters: those that it was made with.
        keep: as in :func:`whole`.
    """
    if any(map(zero.is_divided, parameters)):
        return zero.whole_optimizer_state(optimizer.optimizer, parameters, keep=keep)
    state: dict[str, Any] = whole(optimizer.state_dict(), keep=keep)
    return state


def load_optimizer_state(optimizer: Any, parameters: Sequence[Tensor], stored: dict[str, Any]) -> None:
    """Load what :func:`whole_optimizer_state` gave; each process keeps its part."""
    if any(map(zero.is_divided, parameters)):
        zero.load_optimizer_state(optimizer.optimizer, parameters, stored)
        return
    optimizer.load_state_dict(stored)
    _shard_optimizer_state(optimizer.optimizer)


def _shard_optimizer_state(optimizer: torch.optim.Optimizer) -> None:
    """Divide the state of an optimizer as its parameters are divided, after whole tensors were loaded into it."""
    state: Mapping[Tensor, dict[str, Any]] = optimizer.state
    for parameter, values in state.items():
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and value.shape == parameter.shape:
                values[name] = _like(parameter, value)


def _like(tensor: Tensor, stored: Tensor) -> Tensor:
    if not isinstance(tensor, DTensor) or isinstance(stored, DTensor):
        return stored
    # Each process has the whole tensor, so nothing is sent (src_data_rank).
    on_device = stored.to(tensor.device)
    part: Tensor = distribute_tensor(on_device, tensor.device_mesh, tensor.placements, src_data_rank=None)
    return part
