"""The configuration of the fine-tune. Names are TRL's where the meaning is TRL's."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from engine.errors import InputError
from engine.tasks.registry import load_task
from grpo_training.cli.parsing import settings_from_yaml
from grpo_training.cli.settings import PHASES, WORKING_DIR, DeclaredKeys, Given, Listed, Positive, Weight
from grpo_training.runs.settings import ResumableSettings
from grpo_training.runs.trackers import REPORT_TO_HELP, Tracker
from grpo_training.train.online.reward_settings import checked_settings, declared_rewards

Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]

ALL_LINEAR = "all-linear"
TEACHER_TRACES = Path("data/teacher_traces.jsonl")
"""Default output of ``generate_teacher_traces``, in the working directory."""
CISPO_EPSILON_HIGH = 5.0
"""Default for cispo, where ``epsilon_high`` bounds the ratio itself; ``epsilon`` would clip every token."""
MEMORY_SETTINGS = (*("per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing"),)
"""Offline and supervised training take the same steps with other values of these, if a step has as many rows."""

_TRACKER_KEYS = ("use_wandb", "wandb_project", "wandb_run_name")


_FIRST_OF_GROUP = {
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


class GRPOTrainingConfig(ResumableSettings):
    """Fine-tune a local model with GRPO.

    Trains offline on the rollouts that the generators stored, or online on problems that it samples completions for
    itself. Writes a LoRA adapter, a merged model that can be served, metrics and a page of curves to --output-dir. Run
    the same command again to resume.
    """

    aliases: ClassVar[dict[str, str]] = {
        "model_path": "model_name_or_path",
        "model_name": "model_name_or_path",
        "batch_size": "per_device_train_batch_size",
        "num_epochs": "num_train_epochs",
        "num_samples_per_prompt": "num_generations",
        "kl_coeff": "beta",
        "kl_coef": "beta",
        "clip_range": "epsilon",
        "max_new_tokens": "max_completion_length",
        "lora_rank": "lora_r",
        "lora.r": "lora_r",
        "lora.target_modules": "lora_target_modules",
    }
    sections: ClassVar[frozenset[str]] = frozenset(
        {"model", "student", "lora", "grpo", "rce", "dual_source", "training", "generation", "data", "output"}
    )
    sections_of_others: ClassVar[frozenset[str]] = PHASES - sections
    not_in_fingerprint: ClassVar[Collection[str]] = {
        *("output_dir", "report_to", "logging_steps", "dry_run", "resume", "fresh", "run"),
        *("vllm_enable_sleep_mode", "score_deadline"),
    }
    """Fields that do not change the trained weights, or only through the samples, whose digest is compared."""

    # model and data
    model_name_or_path: str = Field(min_length=1, description="folder or hub name of the model")
    mode: Literal["offline", "online", "sft"] = Field(
        "offline",
        description="offline: on stored rollouts; online: on completions that it samples and scores (the default where "
        "reward or reward_settings are given); sft: supervised, on chats",
    )
    dataset_path: Path | None = Field(
        None, description="file or folder of stored rollouts (offline), of chats (sft), or of problems (online)"
    )
    run: str | None = Field(None, description="run whose rollouts are used without dataset_path; default: the newest")
    dataset: str | None = Field(None, description="problems by name or path, as for the generators (online)")
    task: str | None = Field(None, description="task of rows that name none: a name, FILE.py:NAME or MODULE:NAME")
    reward: str | None = Field(
        None, description="reward in place of the task's: FILE.py:NAME, MODULE:NAME, or the name of a task (online)"
    )
    reward_settings: dict[str, Any] | None = Field(
        None, description="settings of the task's training reward, which is then paid; as JSON they replace single keys"
    )
    max_problems: Positive | None = Field(None, description="number of problems to train on; all by default")
    output_dir: Path = Field(WORKING_DIR / "outputs/grpo", description="the run directory")
    prompts: str | None = Field(
        None,
        description="prompt style, such as full or compact (default: that in which prompts were sent, else full); "
        "prompts that were sent in another style are built anew in this one, without experiences",
    )
    experiences: Literal["keep", "strip"] = Field(
        "keep", description="prompts with the experiences they were sampled with, or without any"
    )
    validation_share: Share = Field(0.1, description="share of the problems that is held out")
    zero_variance: Literal["drop", "right", "keep"] = Field(
        "drop", description="groups of equal rewards: drop, keep those that are all correct (right), or keep"
    )
    served_as: str | None = Field(None, description="name under which this model was served for the rollouts")
    dry_run: bool = Field(False, description="check everything, print the plan and exit")

    # training steps
    learning_rate: float = Field(1e-5, gt=0, description="peak learning rate")
    num_train_epochs: Count = Field(3, description="epochs of the GRPO loss")
    max_steps: int = Field(-1, ge=-1, description="number of optimizer steps; -1: given by the epochs")
    per_device_train_batch_size: Positive = Field(8, description="rows per forward pass and device")
    gradient_accumulation_steps: Positive = Field(1, description="forward passes per optimizer step")
    lr_scheduler_type: Literal["cosine", "linear", "constant"] = Field("cosine", description="learning-rate schedule")
    warmup_steps: Weight = Field(0.1, description="steps of the learning-rate warm-up; below 1: their share of all")
    max_grad_norm: float = Field(1.0, gt=0, description="gradients are clipped to this norm")
    weight_decay: Weight = Field(0.0, description="weight decay of AdamW; offline and sft: of norms and biases too")
    optim: Literal["adamw_torch", "adamw_torch_fused", "adamw_8bit"] = Field(
        "adamw_torch", description="optimizer; adamw_8bit has its state in 8 bits (without bitsandbytes: adamw_torch)"
    )
    seed: int = Field(0, ge=0, lt=2**32, description="seed of the data order and the sampling")

    # sampling
    num_generations: Positive = Field(4, description="completions per prompt (online)")
    temperature: float = Field(1.0, gt=0, le=2, description="sampling temperature; the loss divides logits by it too")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus sampling; below 1 the ratio is biased")
    max_completion_length: Positive = Field(512, description="maximum tokens of a completion; divisor of dr_grpo")
    max_seq_length: Positive = Field(2048, description="maximum tokens of a row; longer rows are left out")
    repetition_penalty: float = Field(1.0, gt=0, le=2, description="penalty on repeated tokens; 1: none")
    use_vllm: bool = Field(False, description="sample with vLLM (online)")
    vllm_mode: Literal["server", "colocate"] = Field(
        "server", description="a vLLM server of TRL on other GPUs, or vLLM on the GPUs of the training"
    )
    vllm_server_base_url: str | None = Field(None, description="base URL of the vLLM server")
    vllm_gpu_memory_utilization: float = Field(0.3, gt=0, lt=1, description="share of GPU memory for vLLM (colocate)")
    vllm_enable_sleep_mode: bool = Field(
        False, description="vLLM frees its memory while weights are trained (colocate); each step wakes it up"
    )
    score_deadline: float | None = Field(
        None, gt=0, description="seconds to score a batch; later completions have no reward, which is not 0 (online)"
    )
    steps_ahead: int = Field(
        0, ge=0, le=1, description="1: train on the completions of the step before, which are scored meanwhile (online)"
    )

    # policy loss
    loss_type: Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo"] = Field("dapo", description="loss type, as in TRL")
    beta: Weight = Field(0.05, description="weight of the KL to the initial model")
    epsilon: float = Field(0.2, ge=0, lt=1, description="the ratio is clipped below at 1 - epsilon")
    epsilon_high: float | None = Field(
        None, ge=0, description="the ratio is clipped above at 1 + epsilon_high; default: epsilon (cispo: 5)"
    )
    scale_rewards: Literal["group", "batch", "none"] = Field("group", description="std that normalises advantages")
    importance_sampling_level: Literal["token", "sequence"] = Field("token", description="sequence: GSPO")
    mask_truncated_completions: bool = Field(False, description="exclude truncated completions from the loss")
    adaptive_kl: bool = Field(False, description="raise beta where the KL is above 0.1, lower it below 0.01 (offline)")

    # warm-up and curriculum
    rce_epochs: Count = Field(0, description="warm-up: epochs of reward-weighted cross-entropy (RCE)")
    rce_learning_rate: float | None = Field(None, gt=0, description="of RCE; default: a tenth of learning_rate")
    curriculum_epochs: Count = Field(0, description="first GRPO epochs, on the best replies of each group only")
    early_top_k: Positive = Field(3, description="replies per group in those epochs")

    # imitation
    grpo_weight: Weight = Field(1.0, description="weight of the policy loss")
    teacher_traces: Path | None = Field(
        None, description="teacher traces (default: data/teacher_traces.jsonl, if teacher_sft_weight is given)"
    )
    teacher_sft_weight: Weight = Field(0.3, description="weight of the teacher-SFT term")
    self_sft_weight: Weight = Field(
        0.2, description="imitation of the best correct own replies; 0 by default where reward or reward_settings pays"
    )
    self_sft_top_k: Positive = Field(2, description="maximum imitated replies per group")

    # adapter and memory
    use_peft: bool = Field(True, description="train a LoRA adapter instead of all weights")
    lora_r: Positive = Field(32, description="rank of the adapter")
    lora_alpha: Positive | None = Field(None, description="scale of the adapter; default: twice the rank")
    lora_target_modules: Annotated[tuple[str, ...], Listed] = Field(
        (ALL_LINEAR,), min_length=1, description="modules with an adapter; all-linear: every linear layer"
    )
    load_in_4bit: bool = Field(False, description="keep the base of the adapter in 4 bits, NF4 (needs bitsandbytes)")
    load_in_8bit: bool = Field(False, description="keep the base of the adapter in 8 bits (needs bitsandbytes)")
    gradient_checkpointing: bool = Field(False, description="recompute activations to save memory")
    bf16: bool | None = Field(None, description="train in bfloat16; default: where the hardware computes it")
    attn_implementation: str | None = Field(
        None,
        description="attention of transformers, such as flash_attention_2; flex_attention: a GPU computes each prompt "
        "once for all its replies, as a CPU does; default: the model's",
    )

    # logging and checkpoints
    logging_steps: Positive = Field(1, description="optimizer steps per line of metrics.jsonl")
    save_steps: Positive | None = Field(None, description="optimizer steps between checkpoints; default: each epoch")
    save_total_limit: Positive = Field(2, description="number of recent checkpoints to keep")
    report_to: tuple[Tracker, ...] = Field((), description=REPORT_TO_HELP)

    @classmethod
    def groups(cls) -> dict[str, list[str]]:
        """The fields by title in ``--help``, in the order of the class; those of its base end the first group."""
        inherited = list(ResumableSettings.model_fields)
        fields = [name for name in cls.model_fields if name not in inherited]
        starts = [*map(fields.index, _FIRST_OF_GROUP), len(fields)]
        return {
            title: fields[start:end] + (inherited if start == 0 else [])
            for title, (start, end) in zip(_FIRST_OF_GROUP.values(), pairwise(starts), strict=True)
        }

    @classmethod
    def translated(cls, key: str, value: Any, where: str) -> tuple[str, Any] | None:
        """``torch_dtype`` is read as ``bf16``."""
        if key.rpartition(".")[2] != "torch_dtype":
            return None
        dtype = str(value).removeprefix("torch.")
        if dtype not in ("bfloat16", "float32"):
            raise InputError(f"{where}: expected 'bfloat16' or 'float32', got {value!r}")
        return "bf16", dtype == "bfloat16"

    @classmethod
    def without_overridden(cls, given: dict[str, Given]) -> dict[str, Given]:
        """Without the settings of the task's training reward if another reward is given, which takes its place."""
        reward, settings = given.get("reward"), given.get("reward_settings")
        if reward is None or settings is None or None in (reward.value, settings.value):
            return given
        print(f"{settings.source}: no effect, as {reward.source} ({reward.value}) is given.", file=sys.stderr)
        return {name: value for name, value in given.items() if name != "reward_settings"}

    @classmethod
    def declared_keys(cls) -> DeclaredKeys:
        """The keys of the tasks' training rewards, and those of trackers, which files of other programs name."""
        rewards = declared_rewards().values()
        return DeclaredKeys(
            field="reward_settings",
            names={key: name for reward in rewards for key, name in reward.keys().items()},
            without_effect={key: why for reward in rewards for key, why in reward.without_effect.items()}
            | dict.fromkeys(_TRACKER_KEYS, "the metrics are in metrics.jsonl"),
        )

    @model_validator(mode="before")
    @classmethod
    def _read_names_and_defaults(cls, values: Any) -> Any:
        """Other spellings under the names of the fields; defaults that depend on other fields."""
        if not isinstance(values, dict):
            return values
        named: dict[str, Any] = {}
        for key, value in values.items():
            name = cls.aliases.get(str(key), str(key))
            if name in named:
                raise ValueError(f"{key} and another spelling set {name}")
            named[name] = value
        if named.get("reward") is not None or named.get("reward_settings") is not None:
            # Such a reward has a scale of its own, and may say nothing of which reply is right.
            named = {"mode": "online", "self_sft_weight": 0.0} | named
        gives_weight = bool(named.get("teacher_sft_weight")) and named.get("mode") != "sft"
        if gives_weight and "teacher_traces" not in named and TEACHER_TRACES.is_file():
            named["teacher_traces"] = TEACHER_TRACES
        return named

    @field_validator("reward_settings", mode="before")
    @classmethod
    def _settings_of_a_task(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None:
            return None
        if (task := info.data.get("task")) is not None:
            load_task(task)  # its training reward is known from then on
        return checked_settings(value)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for problem in self._contradictions():
            raise ValueError(problem)
        return self

    def _contradictions(self) -> Iterator[str]:
        """What does not fit together, as messages for the user."""
        if self.mode == "sft" and self.dataset_path is None:
            yield "mode sft needs dataset_path: a file of chats"
        if self.mode == "online" and self.dataset is None and self.dataset_path is None:
            yield "mode online needs dataset: the problems to sample completions for"
        if self.mode != "online" and self.reward is not None:
            yield "reward needs mode online (leave mode out, or set it to online): stored rollouts have their rewards"
        if self.mode != "online" and self.reward_settings is not None:
            yield "the settings of a task's training reward need mode online: stored rollouts have their rewards"
        if self.reward is not None and self.reward_settings is not None:
            names = ", ".join(self.reward_settings)
            yield f"reward and the settings of a task's training reward ({names}) exclude each other"
        if self.num_train_epochs + (self.rce_epochs if self.mode == "offline" else 0) == 0:
            yield "num_train_epochs is 0, and there is no warm-up: nothing is trained"
        if ALL_LINEAR in self.lora_target_modules and len(self.lora_target_modules) > 1:
            yield f"{ALL_LINEAR} in lora_target_modules stands alone: it is every linear layer but the head"
        imitates = self.self_sft_weight > 0 or self.traces_file is not None
        if self.mode != "sft" and self.grpo_weight == 0 and self.rce_epochs == 0 and not imitates:
            yield "there is no loss: grpo_weight is 0, and no imitation term is on"
        if self.vllm_server_base_url is not None and not (self.use_vllm and self.vllm_mode == "server"):
            yield "vllm_server_base_url is used with use_vllm and vllm_mode server only"
        if self.vllm_enable_sleep_mode and not (self.use_vllm and self.vllm_mode == "colocate"):
            yield "vllm_enable_sleep_mode is used with use_vllm and vllm_mode colocate only"
        for name in ("load_in_4bit", "load_in_8bit", "adaptive_kl"):
            if getattr(self, name) and self.mode == "online":
                yield f"{name} is used by offline and supervised training only"
        if self.load_in_4bit and self.load_in_8bit:
            yield "load_in_4bit and load_in_8bit exclude each other"
        if self.quantised and not self.use_peft:
            yield f"{self.quantised} needs use_peft: rounded weights cannot be trained"

    @property
    def traces_file(self) -> Path | None:
        """The file of teacher traces; None where teacher-SFT is off."""
        return self.teacher_traces if self.teacher_sft_weight > 0 else None

    @property
    def upper_epsilon(self) -> float:
        """``epsilon_high``, or its default."""
        default = CISPO_EPSILON_HIGH if self.loss_type == "cispo" else self.epsilon
        return default if self.epsilon_high is None else self.epsilon_high

    @property
    def quantised(self) -> str | None:
        """The setting that rounds the base, if one is on."""
        return next((name for name in ("load_in_4bit", "load_in_8bit") if getattr(self, name)), None)

    @property
    def prompt_style(self) -> str:
        """The style of prompts that no run has sent."""
        return self.prompts or "full"

    @property
    def rows_of_step(self) -> int:
        """The rows of a process in an optimizer step."""
        return self.per_device_train_batch_size * self.gradient_accumulation_steps

    @classmethod
    def from_yaml(cls, path: Path | str) -> Self:
        """The configuration of a YAML file.

        Raises:
            MissingInputError: there is no such file.
            InputError: it is not YAML, or a key or a value is wrong; names file, key and the nearest valid name.
        """
        return settings_from_yaml(cls, Path(path))

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values; written as YAML, ``from_yaml`` reads them back."""
        return self.model_dump(mode="json")

    def compared(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """:data:`MEMORY_SETTINGS` are as now, so that a training goes on with less memory."""
        values, now = super().compared(stored), self.fingerprint()
        rows = int(values["per_device_train_batch_size"]) * int(values["gradient_accumulation_steps"])
        if self.mode != "online" and rows == self.rows_of_step:
            values |= {name: now[name] for name in MEMORY_SETTINGS}
        return values


for _name, _field in GRPOTrainingConfig.aliases.items():
    if "." not in _name:
        setattr(GRPOTrainingConfig, _name, property(attrgetter(_field), doc=f"``{_field}``."))


def load_config(path: Path | str) -> GRPOTrainingConfig:
    """``GRPOTrainingConfig.from_yaml``."""
    return GRPOTrainingConfig.from_yaml(path)
