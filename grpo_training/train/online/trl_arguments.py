"""The arguments of TRL's ``GRPOConfig`` for a configuration, and the checks that TRL makes late or not at all.

An argument that affects the trained weights is given, or has the default that the tests expect of TRL.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.errors import ConfigurationError, InputError
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.processes import number_of_processes

Arguments = dict[str, Any]
_SAMPLER_CAP = 2.0
"""Cap of the weights p(trained model) / p(vLLM) of tokens. vLLM rounds otherwise: without them the gradient is biased.

Source: Yao et al. 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training.
"""

_SAME_NAME = (
    *("learning_rate", "lr_scheduler_type", "num_train_epochs", "max_steps", "optim", "weight_decay", "max_grad_norm"),
    *("per_device_train_batch_size", "gradient_accumulation_steps", "seed"),
    *("num_generations", "max_completion_length", "temperature", "top_p", "repetition_penalty"),
    *("use_vllm", "vllm_mode", "vllm_server_base_url", "vllm_gpu_memory_utilization", "vllm_enable_sleep_mode"),
    *("loss_type", "importance_sampling_level", "epsilon", "scale_rewards"),
    *("mask_truncated_completions", "beta", "gradient_checkpointing", "logging_steps", "save_total_limit"),
)
"""Settings that TRL has under the same name."""

_FIXED: Arguments = {
    "pad_to_multiple_of": None,
    "vllm_importance_sampling_mode": "token_truncate",
    "gradient_checkpointing_kwargs": {"use_reentrant": False},
    "logging_nan_inf_filter": False,
    "disable_dropout": True,
    "use_bias_correction_kl": False,
    "report_to": "none",
    "vllm_importance_sampling_clip_max": _SAMPLER_CAP,
    "disable_tqdm": True,
}
"""Arguments whose default in TRL is another one. The tests compare the defaults that apply with those of TRL."""


def grpo_arguments(config: GRPOTrainingConfig, run_dir: Path, *, bf16: bool, use_cpu: bool) -> Arguments:
    """The arguments of TRL's ``GRPOConfig``.

    Args:
        config: the training configuration.
        run_dir: where checkpoints are written.
        bf16: compute in bfloat16.
        use_cpu: use no GPU.
    """
    same = {name: getattr(config, name) for name in _SAME_NAME}
    derived = {
        "output_dir": str(run_dir),
        "warmup_steps": config.warmup_steps,
        "epsilon_high": config.upper_epsilon,
        "steps_per_generation": config.gradient_accumulation_steps,
        "generation_kwargs": None if config.use_vllm else {"use_cache": True},  # the training disables the model's
        "vllm_importance_sampling_correction": config.use_vllm,
        "bf16": bf16,
        "use_cpu": use_cpu,
        "dataloader_pin_memory": not use_cpu,
        "save_strategy": "epoch" if config.save_steps is None else "steps",
        "save_steps": config.save_steps or 500,
    }
    return same | _FIXED | derived


def check_arguments(config: GRPOTrainingConfig) -> None:
    """Refuse what TRL would refuse late, or silently do differently.

    Raises:
        ConfigurationError: says what.
    """
    rows, group = config.rows_of_step * number_of_processes(), config.num_generations
    if group < 2:
        raise ConfigurationError(
            "num_generations must be at least 2", why="The advantage in a group of one completion is 0."
        )
    if rows % group:
        raise ConfigurationError(
            f"A step of {rows} completions does not hold whole groups of {group}",
            why="per_device_train_batch_size x gradient_accumulation_steps x processes counts completions.",
            fix=f"Make it a multiple of num_generations, such as {group * max(1, round(rows / group))}.",
        )


def count_steps(config: GRPOTrainingConfig, kept: int, given: int) -> int:
    """The number of optimizer steps of a training.

    Args:
        config: the training configuration.
        kept: problems whose prompt leaves room for a reply.
        given: all problems.

    Raises:
        InputError: the problems do not fill one step.
    """
    prompts = config.rows_of_step * number_of_processes() // config.num_generations
    if kept < prompts:
        left_out = f"; {given - kept} of {given} leave no room for a reply" if kept < given else ""
        raise InputError(
            f"{kept} problems are too few for steps of {prompts} prompts{left_out}",
            fix="Give more problems, or lower per_device_train_batch_size or gradient_accumulation_steps; "
            "for long prompts raise max_seq_length.",
        )
    return config.max_steps if config.max_steps > 0 else config.num_train_epochs * (kept // prompts)
