"""Online training: TRL samples completions of our problems, our tasks score them, and the policy learns, in turns.

What differs from the offline training: there are no stored log-probs (each completion is learnt from once, by the
policy that sampled it), no warm-up by RCE and no curriculum, and the learning-rate schedule is that of transformers,
whose first step has the rate 0 where there is a warm-up. A resumed run goes on with the weights, the optimizer and
the random state of its last checkpoint.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import time
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigurationError, InputError
from engine.reward_evaluator import RewardEvaluator
from grpo_training.finetune.export import export_model
from grpo_training.finetune.model_loading import has_adapter, load_model, uses_bf16
from grpo_training.finetune.objective.schedules import AdaptiveKL
from grpo_training.finetune.online.rewards import TaskReward, dataset_rows
from grpo_training.finetune.tracking import RunLog, TrainingProgress, TrainingResult, open_tracker
from grpo_training.runs.stop_request import StopRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from engine.records import Problem
    from grpo_training.finetune.config import GRPOTrainingConfig
    from grpo_training.finetune.data.samples import Sample

_STATE = "trainer_state.json"


def train_online(
    config: GRPOTrainingConfig,
    problems: Sequence[Problem],
    run_dir: Path,
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> TrainingResult:
    """Fine-tune the model of ``config`` on problems that it samples itself.

    The same call again goes on after the last checkpoint.

    Args:
        config: of the training.
        problems: to sample on.
        run_dir: gets ``metrics.jsonl``, ``samples.jsonl``, ``checkpoint-<step>/``, ``lora/`` and ``merged/``.
        stream: where progress is shown, stdout by default.
        clock: seconds that only grow.

    Raises:
        InputError: too few problems, prompts without room for a reply, no model at its place.
        ConfigurationError: the machine, an optional package or TRL does not do what the configuration asks.
        NothingScoredError: (exit code 3) no completion could be scored for several batches.
        TrainingStoppedError: (exit code 3) a loss or a gradient is not finite.
        KeyboardInterrupt: Ctrl-C; the step was finished and saved before.
    """
    started = clock()
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    _check(config)
    model, tokenizer = load_model(config)  # before TRL is imported: unsloth wants to come first
    import torch
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import GRPOConfig

    from grpo_training.finetune.online.trainer import DualSourceTrainer, RunCallback

    logging.getLogger("trl.trainer.grpo_trainer").setLevel(logging.ERROR)  # it prints whole rows that have no reward
    prompt_ids = tokenised_prompts(problems, tokenizer, config)
    kept = [problem for problem in problems if problem.id in prompt_ids]
    total = _steps(config, len(kept), len(problems))
    arguments = grpo_arguments(config, run_dir, bf16=uses_bf16(config), use_cpu=not torch.cuda.is_available())
    kl = AdaptiveKL.of(config)
    resumed = None if config.fresh else last_checkpoint(run_dir)
    done = 0 if resumed is None else int(resumed.name.partition("-")[2])
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", FutureWarning)  # of names that TRL still uses of transformers
        reward = stack.enter_context(TaskReward(RewardEvaluator()))
        trainer = DualSourceTrainer(
            config=config,
            reward=reward,
            prompt_ids=prompt_ids,
            teacher=_teacher(config, tokenizer),
            kl=kl,
            model=model,
            args=GRPOConfig(**arguments),
            train_dataset=Dataset.from_list(dataset_rows(kept, config.prompts)),
            processing_class=tokenizer,
        )
        trainer.remove_callback(PrinterCallback)
        _use_base_as_reference(trainer.model)
        is_first = trainer.is_world_process_zero()
        log = screen = None
        if is_first:
            tracker = open_tracker(
                config.report_to,
                run_dir,
                project=config.project,
                run_name=config.run_name or run_dir.name,
                config=config.to_dict(),
            )
            run_dir.mkdir(parents=True, exist_ok=True)
            screen = stack.enter_context(TrainingProgress(total, done=done, stream=stream, clock=clock))
            log = stack.enter_context(
                RunLog(run_dir / "metrics.jsonl", resume_step=done, tracker=tracker, warn=screen.note)
            )
            for note in _notes(config, len(problems) - len(kept), done, total):
                screen.note(note)
        stop = stack.enter_context(StopRequest())
        trainer.add_callback(
            RunCallback(kl=kl, reward=reward, run_dir=run_dir, log=log, screen=screen, stop=stop, clock=clock)
        )
        trainer.train(resume_from_checkpoint=None if resumed is None else str(resumed))
        stop.obey()
        adapter, merged = None, run_dir / "merged"
        if is_first:
            adapter, merged = export_model(trainer.accelerator.unwrap_model(trainer.model), tokenizer, run_dir)
        trainer.accelerator.wait_for_everyone()
    return TrainingResult(trainer.state.global_step, adapter, merged, {}, clock() - started)


# ------------------------------------------------------------------ before the first step


def grpo_arguments(config: GRPOTrainingConfig, run_dir: Path, *, bf16: bool, use_cpu: bool) -> dict[str, Any]:
    """The arguments of TRL's ``GRPOConfig``: every one that shapes the weights, so that no default of TRL counts.

    Args:
        config: of the training.
        run_dir: where checkpoints go.
        bf16: compute in bfloat16.
        use_cpu: stay off any GPU.
    """
    return {
        "output_dir": str(run_dir),
        # steps
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": config.lr_scheduler_type,
        "lr_scheduler_kwargs": None,
        "warmup_steps": config.warmup_steps or min(config.warmup_ratio, 0.999999),  # below 1 it is a share
        "num_train_epochs": config.num_train_epochs,
        "max_steps": config.max_steps,
        "per_device_train_batch_size": config.per_device_train_batch_size,
        "gradient_accumulation_steps": config.gradient_accumulation_steps,
        "average_tokens_across_devices": True,
        "optim": config.optim,
        "optim_args": None,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-8,
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.max_grad_norm,
        "label_smoothing_factor": 0.0,
        "neftune_noise_alpha": None,
        "seed": config.seed,
        "data_seed": None,
        "full_determinism": False,
        # sampling: each completion is learnt from in the very step that sampled it
        "num_generations": config.num_generations,
        "max_completion_length": config.max_completion_length,
        "temperature": config.temperature,
        "top_p": config.top_p,
        "top_k": 0,
        "min_p": None,
        "repetition_penalty": config.repetition_penalty,
        "generation_kwargs": None if config.use_vllm else {"use_cache": True},  # the model's own is off for training
        "cache_implementation": None,
        "chat_template_kwargs": None,
        "generation_batch_size": None,
        "steps_per_generation": config.gradient_accumulation_steps,
        "num_iterations": 1,
        "shuffle_dataset": True,
        "pad_to_multiple_of": None,
        "max_tool_calling_iterations": None,
        "use_transformers_continuous_batching": False,
        "transformers_continuous_batching_config": None,
        "ds3_gather_for_generation": True,
        "use_vllm": config.use_vllm,
        "vllm_mode": "server",
        "vllm_server_base_url": config.vllm_server_base_url,
        "vllm_structured_outputs_regex": None,
        "vllm_importance_sampling_correction": config.use_vllm and config.importance_cap is not None,
        "vllm_importance_sampling_mode": "token_truncate",
        "vllm_importance_sampling_clip_max": config.importance_cap,
        "vllm_importance_sampling_clip_min": None,
        # the loss
        "loss_type": config.loss_type,
        "importance_sampling_level": config.importance_sampling_level,
        "epsilon": config.epsilon,
        "epsilon_high": config.epsilon_high,
        "delta": config.delta,
        "scale_rewards": config.scale_rewards,
        "reward_weights": None,
        "multi_objective_aggregation": "sum_then_normalize",
        "mask_truncated_completions": config.mask_truncated_completions,
        "beta": config.beta,
        "use_bias_correction_kl": config.use_bias_correction_kl,
        "sync_ref_model": False,
        "top_entropy_quantile": 1.0,
        "entropy_coef": 0.0,
        "use_adaptive_entropy": False,
        "off_policy_mask_threshold": None,
        "router_aux_loss_coef": None,
        # precision and memory
        "bf16": bf16,
        "fp16": False,
        "tf32": None,
        "use_cpu": use_cpu,
        "cast_lm_head_to_fp32": False,
        "disable_dropout": False,
        "gradient_checkpointing": config.gradient_checkpointing,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "use_liger_kernel": False,
        "torch_compile": False,
        "auto_find_batch_size": False,
        # data: our columns must reach the reward function
        "remove_unused_columns": False,
        "dataloader_num_workers": 0,
        "dataloader_drop_last": False,
        "dataloader_pin_memory": not use_cpu,
        # records
        "logging_strategy": "steps",
        "logging_steps": config.logging_steps,
        "logging_nan_inf_filter": False,
        "log_completions": False,
        "save_strategy": "epoch" if config.save_steps is None else "steps",
        "save_steps": config.save_steps or 500,
        "save_total_limit": config.save_total_limit,
        "save_only_model": False,
        "eval_strategy": "no",
        "load_best_model_at_end": False,
        "ignore_data_skip": False,
        "restore_callback_states_from_checkpoint": False,
        "report_to": "none",
        "disable_tqdm": True,
        "push_to_hub": False,
        "trust_remote_code": False,
    }


def tokenised_prompts(
    problems: Sequence[Problem], tokenizer: Any, config: GRPOTrainingConfig
) -> dict[str, tuple[int, ...]]:
    """The prompts by problem id, as a server tokenises them; those that leave no room for a reply are left out."""
    conversations = [row["prompt"] for row in dataset_rows(problems, config.prompts)]
    ids = tokenizer.apply_chat_template(conversations, add_generation_prompt=True, return_dict=True)["input_ids"]
    room = config.max_seq_length - config.max_completion_length
    return {problem.id: tuple(prompt) for problem, prompt in zip(problems, ids, strict=True) if len(prompt) <= room}


def last_checkpoint(run_dir: Path) -> Path | None:
    """The latest whole checkpoint. The trainer writes its state last, so one without it was not finished."""
    found = []
    for folder in run_dir.glob("checkpoint-*"):
        try:
            found.append((int(json.loads((folder / _STATE).read_text(encoding="utf-8"))["global_step"]), folder))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return max(found)[1] if found else None


def _check(config: GRPOTrainingConfig) -> None:
    """Refuse what TRL would refuse late, or do differently without a word."""
    rows, group = _rows_of_step(config), config.num_generations
    if rows % group:
        raise ConfigurationError(
            f"A step of {rows} completions does not hold whole groups of {group}",
            why="per_device_train_batch_size x gradient_accumulation_steps x processes counts completions.",
            fix=f"Make it a multiple of num_generations, such as {group * max(1, round(rows / group))}.",
        )
    if config.num_train_epochs == 0 and config.max_steps < 1:
        raise ConfigurationError("num_train_epochs is 0", fix="Online training has no warm-up: set it, or max_steps.")
    if config.kl_estimator != "k3" and (config.beta > 0 or config.adaptive_kl):
        raise ConfigurationError(
            f"kl_estimator {config.kl_estimator} is not there online", why="TRL has k3 only.", fix="Set it to k3."
        )
    if config.optim == "adamw_8bit" and importlib.util.find_spec("bitsandbytes") is None:
        raise ConfigurationError(
            "optim adamw_8bit needs bitsandbytes", fix="Install it (it wants a GPU), or take adamw_torch."
        )
    if config.use_vllm and importlib.util.find_spec("vllm") is None:
        raise ConfigurationError(
            "--use-vllm: vllm is not installed here",
            why="Also where vLLM runs as a server, this side needs the package to send it the weights.",
            fix="Install vllm in this environment (it needs a GPU), or leave --use-vllm out.",
        )


def _steps(config: GRPOTrainingConfig, kept: int, given: int) -> int:
    """How many steps the training has."""
    prompts = _rows_of_step(config) // config.num_generations
    if kept < prompts:
        left_out = f"; {given - kept} of {given} leave no room for a reply" if kept < given else ""
        raise InputError(
            f"{kept} problems are too few for steps of {prompts} prompts{left_out}",
            fix="Give more problems, or lower per_device_train_batch_size or gradient_accumulation_steps; "
            "for long prompts raise max_seq_length.",
        )
    return config.max_steps if config.max_steps > 0 else config.num_train_epochs * (kept // prompts)


def _rows_of_step(config: GRPOTrainingConfig) -> int:
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    return config.per_device_train_batch_size * config.gradient_accumulation_steps * processes


def _use_base_as_reference(model: Any) -> None:
    """Drop TRL's copy of the LoRA for the reference: ours is fresh, so with it off the model is the same."""
    if has_adapter(model) and "ref" in model.peft_config:
        model.delete_adapter("ref")


def _teacher(config: GRPOTrainingConfig, tokenizer: Any) -> list[Sample]:
    if config.teacher_traces is None or config.teacher_sft_weight == 0:
        return []
    from grpo_training.finetune.data.teacher_samples import load_teacher_samples

    return load_teacher_samples(config.teacher_traces, tokenizer, config)


def _notes(config: GRPOTrainingConfig, too_long: int, done: int, total: int) -> Iterator[str]:
    if done:
        yield f"going on after step {done} of {total}"
    if too_long:
        yield f"{too_long} problems are left out: prompt and reply would pass max_seq_length"
    unused = [name for name in ("rce_epochs", "curriculum_epochs") if getattr(config, name)]
    if unused:
        yield f"{' and '.join(unused)}: only offline training has them"
    if config.importance_cap is not None and not config.use_vllm:
        yield "importance_cap: without vLLM the policy that samples is the one that learns, so nothing is corrected"
    if config.top_p < 1 or config.repetition_penalty != 1:
        yield "top_p or repetition_penalty: the log-probs are of the untouched distribution, so the ratio is biased"
