"""The keys of a training configuration: their order in ``--help``, other spellings, and keys that are refused."""

from __future__ import annotations

GROUPS = {
    "model and data": (
        *(
            "model_name_or_path",
            "mode",
            "dataset_path",
            "run",
            "dataset",
            "task",
            "reward",
            "reward_weight",
            "reward_settings",
            "max_problems",
            "output_dir",
            "prompts",
            "system_role",
        ),
        *("experiences", "experiences_dir", "validation_share", "zero_variance", "served_as", "stored_logprobs"),
        *("backend", "resume", "fresh", "dry_run"),
    ),
    "training steps": (
        *("learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size"),
        *("gradient_accumulation_steps", "lr_scheduler_type", "warmup_ratio", "warmup_steps", "max_grad_norm"),
        *("weight_decay", "optim", "seed"),
    ),
    "sampling": (
        *("num_generations", "temperature", "top_p", "max_completion_length", "max_seq_length"),
        *("repetition_penalty", "use_vllm", "vllm_mode", "vllm_server_base_url"),
        *("vllm_gpu_memory_utilization",),
    ),
    "policy loss": (
        *("loss_type", "beta", "epsilon", "epsilon_high", "delta", "scale_rewards"),
        *("advantage_std", "advantage_clip"),
        *("importance_sampling_level", "importance_cap", "missing_logprobs", "mask_truncated_completions"),
        *("kl_estimator", "use_bias_correction_kl", "adaptive_kl", "kl_target_low", "kl_target_high"),
        *("kl_adjustment_factor", "beta_min", "beta_max"),
    ),
    "warm-up and curriculum": (
        *("rce_epochs", "rce_temperature_start", "rce_temperature_end"),
        *("rce_learning_rate", "rce_lr_ratio"),
        *("curriculum_epochs", "early_top_k", "late_top_k"),
    ),
    "imitation": (
        *("grpo_weight", "teacher_traces", "teacher_sft_weight", "self_sft_weight", "self_sft_top_k"),
        *("self_sft_min_reward", "sft_schedule", "chord_mu_peak", "chord_mu_end", "chord_warmup_steps"),
        *("chord_decay_steps", "chord_phi"),
    ),
    "adapter and memory": (
        *("use_peft", "lora_r", "lora_alpha", "lora_dropout", "disable_dropout", "lora_target_modules"),
        *("load_in_4bit", "load_in_8bit", "gradient_checkpointing", "bf16", "padding_free", "logprob_chunk_size"),
    ),
    "logging and checkpoints": (
        *(
            "logging_steps",
            "save_steps",
            "save_total_limit",
            "max_kl",
            "export",
            "push_to_hub",
            "report_to",
            "project",
            "run_name",
        ),
    ),
}
"""Title -> fields, in the order of ``--help``."""

ALIASES = {
    "model_path": "model_name_or_path",
    "model_name": "model_name_or_path",
    "batch_size": "per_device_train_batch_size",
    "num_epochs": "num_train_epochs",
    "epochs": "num_train_epochs",
    "grpo_epochs": "num_train_epochs",
    "num_samples_per_prompt": "num_generations",
    "kl_coeff": "beta",
    "kl_coef": "beta",
    "kl_beta": "beta",
    "clip_epsilon": "epsilon",
    "clip_range": "epsilon",
    "max_new_tokens": "max_completion_length",
    "max_length": "max_seq_length",
    "early_epochs": "curriculum_epochs",
    "kl_target_min": "kl_target_low",
    "kl_target_max": "kl_target_high",
    "lora_rank": "lora_r",
    "gradient_clip_norm": "max_grad_norm",
    "lr_scheduler": "lr_scheduler_type",
    "synthetic_data_path": "teacher_traces",
    "wandb_project": "project",
    "wandb_run_name": "run_name",
    "dual_source.top_k": "self_sft_top_k",
    "dual_source.min_reward": "self_sft_min_reward",
    "lora.r": "lora_r",
    "lora.rank": "lora_r",
    "lora.alpha": "lora_alpha",
    "lora.dropout": "lora_dropout",
    "lora.target_modules": "lora_target_modules",
    "paths.grpo_dataset_dir": "dataset_path",
    "paths.grpo_model_dir": "output_dir",
}
"""Other spelling -> field; a dot separates a section from its key."""

SECTIONS = frozenset(
    {
        *("model", "student", "lora", "grpo", "rce", "dual_source", "training", "training.grpo", "generation"),
        *("data", "output", "paths", "logging"),
    }
)
"""Sections that a file may have."""

_TEACHER = "it belongs to generate_teacher_traces; the fine-tune reads the traces from teacher_traces"

REFUSED = {
    "torch_dtype": "use bf16: true or bf16: false",
    "top_k": "training samples from all tokens; top-k sampling would bias the ratio of new to old policy",
    "teacher": _TEACHER,
    "use_teacher_thinking": _TEACHER,
}
"""Keys of other programs that would have no effect here -> why."""

OF_OTHER_STAGES = {
    "training.sft": "of such a file only training.grpo is read; supervised training has a file of its own (mode: sft)",
    **dict.fromkeys(
        ("paths.data_dir", "paths.sft_dataset_dir", "paths.sft_model_dir", "paths.grpo_config"),
        "of the paths only grpo_dataset_dir (the dataset) and grpo_model_dir (the output) are read",
    ),
}
"""Keys of files that configure several stages -> why they have no effect."""
