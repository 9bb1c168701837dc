"""The keys of a training configuration: groups in ``--help``, other spellings, and keys that are refused."""

from __future__ import annotations

FIRST_OF_GROUP = {
    "model_name_or_path": "model and data",
    "learning_rate": "training steps",
    "num_generations": "sampling",
    "loss_type": "policy loss",
    "rce_epochs": "warm-up and curriculum",
    "grpo_weight": "imitation",
    "use_peft": "adapter and memory",
    "logging_steps": "logging and checkpoints",
}
"""The first field of a group of ``--help`` -> the title of the group; the others follow it in the class."""

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
    "early_epochs": "curriculum_epochs",
    "kl_target_min": "kl_target_low",
    "kl_target_max": "kl_target_high",
    "lora_rank": "lora_r",
    "gradient_clip_norm": "max_grad_norm",
    "lr_scheduler": "lr_scheduler_type",
    "lora.r": "lora_r",
    "lora.rank": "lora_r",
    "lora.alpha": "lora_alpha",
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

REFUSED = {
    "top_k": "training samples from all tokens; top-k sampling would bias the ratio of new to old policy",
    "use_teacher_thinking": "the thinking of a trace is imitated with its reply",
}
"""Keys of other programs that would have no effect here -> why."""

OF_OTHER_STAGES = {
    "training.sft": "of such a file only training.grpo is read; supervised training has a file of its own (mode: sft)",
    **dict.fromkeys(
        ("paths.data_dir", "paths.sft_dataset_dir", "paths.sft_model_dir", "paths.grpo_config"),
        "of the paths only grpo_dataset_dir (the dataset) and grpo_model_dir (the output) are read",
    ),
    **dict.fromkeys(
        (section + key for section in ("", "logging.") for key in ("use_wandb", "wandb_project", "wandb_run_name")),
        "report_to names the tracker",
    ),
}
"""Keys of files that configure several stages -> why they have no effect."""
