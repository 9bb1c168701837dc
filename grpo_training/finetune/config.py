"""The fine-tune's configuration: names are TRL's where the meaning is TRL's, other spellings are aliases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from grpo_training.cli.settings import WORKING_DIR, Positive, Weight, settings_from_yaml
from grpo_training.runs.settings import ResumableSettings

Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]

CISPO_EPSILON_HIGH = 5.0
"""cispo bounds the ratio itself by ``epsilon_high``, so the ``epsilon`` of the other losses would bind everywhere."""

_TRAFFIC = "it belongs to the rewards of the traffic-signal task, not to the fine-tune"
_TEACHER = "the teacher is set where its traces are made; the fine-tune takes them by teacher_traces"

_NOT_IN_FINGERPRINT = frozenset(
    {"output_dir", "report_to", "project", "run_name", "logging_steps", "dry_run", "resume", "fresh"}
)
"""Fields that leave the trained weights as they are."""


class GRPOTrainingConfig(ResumableSettings):
    """Settings of ``python -m grpo_training.train``.

    A row is one completion. Fields that are None by default and stand for a value that follows from others
    (``lora_alpha``, ``epsilon_high``, ``rce_learning_rate``) hold that value once the configuration is made.
    """

    aliases: ClassVar[dict[str, str]] = {
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
    }
    sections: ClassVar[frozenset[str]] = frozenset(
        {"model", "student", "lora", "grpo", "rce", "dual_source", "training", "generation", "data", "output"}
    )
    refused: ClassVar[dict[str, str]] = {
        "use_wandb": "say report_to: wandb, or report_to: none",
        "torch_dtype": "say bf16: true or bf16: false",
        "top_k": "training samples from all tokens; a cut would bias the ratio of new to old policy",
        "rce_lr_ratio": "say rce_learning_rate; without it the warm-up takes a tenth of learning_rate",
        "format_weight": _TRAFFIC,
        "tsc_weight": _TRAFFIC,
        "format_reward": _TRAFFIC,
        "reward": _TRAFFIC,
        "sumo": _TRAFFIC,
        "simulation": _TRAFFIC,
        "max_workers": _TRAFFIC,
        "extend_seconds": _TRAFFIC,
        "teacher": _TEACHER,
        "use_teacher_thinking": _TEACHER,
        "load_in_8bit": "weights are trained in bf16 or float32; for less memory lower the batch or lora_r",
        "load_in_4bit": "weights are trained in bf16 or float32; for less memory lower the batch or lora_r",
    }

    # what is trained, on what
    model_name_or_path: str = Field(min_length=1, description="folder or hub name of the model")
    mode: Literal["offline", "online"] = Field(
        "offline", description="offline: learn from stored rollouts; online: sample, score and learn in turns"
    )
    dataset_path: Path | None = Field(
        None, description="stored rollouts: a file, or a folder that is searched (offline)"
    )
    dataset: str | None = Field(None, description="problems by name or path, as for the generators (online)")
    output_dir: Path = Field(WORKING_DIR / "outputs/grpo", description="the run directory")
    backend: Literal["hf", "unsloth"] = Field(
        "hf", description="who loads the model; unsloth is never chosen by itself"
    )
    prompts: str = Field("full", description="prompt style: full, or a folder of prompts/ such as compact")
    experiences: Literal["keep", "strip", "both"] = Field(
        "keep", description="train on prompts with the lessons they were asked with, without any, or on both"
    )
    experiences_dir: Path = Field(WORKING_DIR / "data/grpo_experiences", description="where the lessons are kept")
    max_problems: Positive | None = Field(None, description="how many problems to train on; all by default")
    served_as: str | None = Field(
        None, description="name under which this very model was served when the rollouts were made"
    )
    stored_logprobs: Literal["raw", "processed"] = Field(
        "raw", description="the server's log-probs are those of temperature 1 (raw) or of the sampling temperature"
    )
    zero_variance: Literal["drop", "right", "keep"] = Field(
        "drop", description="groups of equal rewards: drop, keep those whose replies are all right, or keep"
    )
    validation_share: Share = Field(0.1, description="share of the problems that is held out")

    # steps
    learning_rate: float = Field(1e-5, gt=0, description="peak learning rate")
    per_device_train_batch_size: Positive = Field(8, description="rows of one forward pass")
    gradient_accumulation_steps: Positive = Field(1, description="forward passes of one update step")
    num_train_epochs: Count = Field(3, description="passes over the data by the GRPO loss")
    max_steps: int = Field(-1, ge=-1, description="stop after so many update steps; -1: at the end of the epochs")
    warmup_ratio: float = Field(0.1, ge=0, le=1, description="share of the steps over which the rate rises")
    warmup_steps: Count = Field(0, description="steps over which the rate rises; above 0 it replaces the ratio")
    lr_scheduler_type: Literal["cosine", "linear", "constant"] = Field("cosine", description="how the rate falls")
    optim: Literal["adamw_torch", "adamw_torch_fused", "adamw_8bit"] = Field(
        "adamw_torch", description="adamw_8bit needs bitsandbytes and a GPU"
    )
    weight_decay: Weight = Field(0.0, description="of AdamW")
    max_grad_norm: float = Field(1.0, gt=0, description="gradients are scaled down to this norm")
    seed: int = Field(0, ge=0, description="of the order, the dropout and the sampling")

    # sampling (online), and the temperature of the log-probs
    num_generations: Positive = Field(4, description="completions per prompt (online)")
    temperature: float = Field(1.0, gt=0, le=2, description="of the sampling; logits are divided by it in the loss too")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus sampling; below 1 the ratio is biased")
    repetition_penalty: float = Field(1.0, gt=0, le=2, description="above 1 a repeated token gets less likely")
    max_completion_length: Positive = Field(512, description="tokens of a sampled completion; divisor of dr_grpo")
    max_seq_length: Positive = Field(2048, description="a row with more tokens is left out")
    use_vllm: bool = Field(False, description="sample by a vLLM server (online)")
    vllm_server_base_url: str | None = Field(None, description="the server of --use-vllm")

    # the policy loss
    loss_type: Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo"] = Field("dapo", description="how rows are averaged")
    importance_sampling_level: Literal["token", "sequence"] = Field("token", description="sequence: GSPO")
    epsilon: float = Field(0.2, ge=0, lt=1, description="lower clip of the ratio: 1 - epsilon")
    epsilon_high: float | None = Field(
        None, ge=0, description="upper clip: 1 + epsilon_high; epsilon if unset (cispo: 5)"
    )
    delta: float | None = Field(None, gt=1, description="upper bound of the ratio where the advantage is negative")
    scale_rewards: Literal["group", "batch", "none"] = Field("group", description="by whose std advantages are divided")
    advantage_clip: float = Field(5.0, gt=0, description="advantages are cut to [-x, x]")
    mask_truncated_completions: bool = Field(False, description="leave cut-off completions out of the loss")
    missing_logprobs: Literal["ratio_1", "start"] = Field(
        "ratio_1", description="old log-probs that were not stored: ratio 1, or those of the model training began with"
    )
    importance_cap: float | None = Field(None, gt=0, description="truncated importance correction; off if unset")
    beta: Weight = Field(0.05, description="weight of the KL to the model that training began with")
    kl_estimator: Literal["k1", "k2", "k3"] = Field("k3", description="estimator of the KL")
    use_bias_correction_kl: bool = Field(False, description="weight the KL by the ratio")
    adaptive_kl: bool = Field(False, description="let beta follow the measured KL")
    kl_target_low: Weight = Field(0.01, description="below it beta shrinks")
    kl_target_high: float = Field(0.1, gt=0, description="above it beta grows")
    kl_adjustment_factor: float = Field(1.5, gt=1, description="by which beta grows or shrinks")
    beta_min: float = Field(0.001, gt=0, description="lower bound of an adaptive beta")
    beta_max: float = Field(10.0, gt=0, description="upper bound of an adaptive beta")

    # stages
    rce_epochs: Count = Field(0, description="warm-up: epochs of reward-weighted cross-entropy")
    rce_temperature_start: float = Field(2.0, gt=0, description="temperature of its weights at the start")
    rce_temperature_end: float = Field(0.5, gt=0, description="temperature of its weights at the end")
    rce_learning_rate: float | None = Field(None, gt=0, description="its rate; a tenth of learning_rate if unset")
    curriculum_epochs: Count = Field(0, description="first GRPO epochs on the best replies of each group only")
    early_top_k: Positive = Field(3, description="how many replies of a group those epochs take")
    late_top_k: Positive | None = Field(None, description="how many the later ones take; all if unset")

    # further terms
    grpo_weight: Weight = Field(1.0, description="weight of the policy loss")
    teacher_sft_weight: Weight = Field(0.3, description="weight of the imitation of teacher traces")
    self_sft_weight: Weight = Field(0.2, description="weight of the imitation of one's own best replies")
    teacher_traces: Path | None = Field(None, description="accepted traces of a teacher; without them the term is off")
    sft_schedule: Literal["constant", "linear", "chord"] = Field("constant", description="of the imitation weights")
    chord_mu_peak: float = Field(0.9, ge=0, le=1, description="CHORD: highest share of imitation")
    chord_mu_end: float = Field(0.05, ge=0, le=1, description="CHORD: share at the end")
    chord_warmup_steps: Count = Field(0, description="CHORD: steps up to the peak")
    chord_decay_steps: Count = Field(0, description="CHORD: steps from the peak to the end; 0: all that are left")
    chord_phi: bool = Field(False, description="CHORD: weigh tokens by p(1-p)")
    self_sft_top_k: Positive = Field(2, description="how many replies of a group are imitated at most")
    self_sft_min_reward: float = Field(0.8, description="least reward of an imitated reply")

    # adapter, memory, precision
    use_peft: bool = Field(True, description="train a LoRA adapter instead of all weights")
    lora_r: Positive = Field(32, description="rank of the adapter")
    lora_alpha: Positive | None = Field(None, description="scale of the adapter; twice the rank if unset")
    lora_dropout: Share = Field(0.0, description="dropout in the adapter")
    lora_target_modules: tuple[str, ...] = Field(
        ("all-linear",), min_length=1, description="modules with an adapter, comma-separated; all-linear: every one"
    )
    gradient_checkpointing: bool = Field(False, description="less memory for more time")
    bf16: bool | None = Field(None, description="train in bfloat16; if unset, where a GPU has it")
    logprob_chunk_size: Positive = Field(1024, description="positions whose logits are held at once")

    # records
    logging_steps: Positive = Field(1, description="update steps between two lines of metrics.jsonl")
    save_steps: Positive | None = Field(None, description="also save every so many update steps; else each epoch")
    save_total_limit: Positive = Field(2, description="checkpoints that are kept")
    report_to: Literal["none", "trackio", "wandb", "tensorboard", "mlflow"] = Field("none", description="a tracker")
    project: str = Field("scaffold-grpo", description="the tracker's project")
    run_name: str | None = Field(None, description="the tracker's name for this run")
    dry_run: bool = Field(False, description="read and check everything, print the plan and stop")

    @field_validator("lora_target_modules", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for problem in self._contradictions():
            raise ValueError(problem)
        derived = {
            "lora_alpha": 2 * self.lora_r,
            "epsilon_high": CISPO_EPSILON_HIGH if self.loss_type == "cispo" else self.epsilon,
            "rce_learning_rate": self.learning_rate / 10,
        }
        for name, value in derived.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)  # frozen for readers; here it is still being made
        return self

    def _contradictions(self) -> list[str]:
        checks = [
            (
                self.mode == "offline" and self.dataset_path is None,
                "dataset_path is needed: the rollouts to learn from, such as grpo_training/cache",
            ),
            (self.mode == "online" and self.dataset is None, "mode online needs dataset: the problems to sample on"),
            (
                self.mode == "online" and self.num_generations < 2,
                "num_generations must be at least 2: a group of one reply has no spread to learn from",
            ),
            (self.num_train_epochs + self.rce_epochs == 0, "num_train_epochs and rce_epochs are both 0"),
            (
                not self.kl_target_low < self.kl_target_high,
                f"kl_target_low ({self.kl_target_low}) must be below kl_target_high ({self.kl_target_high})",
            ),
            (
                not self.beta_min <= self.beta_max,
                f"beta_min ({self.beta_min}) must not be above beta_max ({self.beta_max})",
            ),
            (
                self.adaptive_kl and not self.beta_min <= self.beta <= self.beta_max,
                f"adaptive_kl begins at beta, so beta ({self.beta}) must be in "
                f"[beta_min, beta_max] = [{self.beta_min}, {self.beta_max}]",
            ),
            (
                self.grpo_weight == 0 and self.rce_epochs == 0 and not self.has_imitation,
                "the weights leave no loss: grpo_weight is 0, and nothing is imitated",
            ),
            (
                self.vllm_server_base_url is not None and not self.use_vllm,
                "vllm_server_base_url is used with use_vllm only",
            ),
        ]
        return [message for wrong, message in checks if wrong]

    @property
    def has_imitation(self) -> bool:
        """Whether a teacher-SFT or a self-SFT term is on."""
        return self.self_sft_weight > 0 or (self.teacher_traces is not None and self.teacher_sft_weight > 0)

    @classmethod
    def from_yaml(cls, path: Path | str) -> Self:
        """The configuration of a YAML file.

        Raises:
            MissingInputError: there is no such file.
            InputError: it is not YAML, or a key or a value is wrong; file, key and the nearest name are given.
        """
        return settings_from_yaml(cls, Path(path))

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values; ``from_yaml`` of them gives an equal configuration."""
        return self.model_dump(mode="json")

    @classmethod
    def fingerprint_fields(cls) -> list[str]:
        """The fields that change the trained weights."""
        return [name for name in cls.model_fields if name not in _NOT_IN_FINGERPRINT]


def load_config(path: Path | str) -> GRPOTrainingConfig:
    """``GRPOTrainingConfig.from_yaml``."""
    return GRPOTrainingConfig.from_yaml(path)
