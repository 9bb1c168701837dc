"""The configuration of the fine-tune. Names are TRL's where the meaning is TRL's; other spellings are aliases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import ValidationInfo, field_validator, model_validator

from engine.tasks.registry import load_task
from grpo_training.cli.parsing import settings_from_yaml
from grpo_training.cli.settings import PHASES, DeclaredKeys
from grpo_training.runs.settings import ResumableSettings
from grpo_training.train.config_fields import ALL_LINEAR, TrainingFields
from grpo_training.train.config_keys import ALIASES, FIRST_OF_GROUP, OF_OTHER_STAGES, REFUSED, SECTIONS
from grpo_training.train.memory import MEMORY_SETTINGS, rows_of_a_step
from grpo_training.train.online.reward_settings import checked_settings, declared_rewards

NO_UNSLOTH = (
    "backend unsloth cannot be installed beside this project: unsloth 2026.10.9 needs trl <= 1.15.0 and "
    "transformers <= 5.17.0, this project trl >= 1.16 and transformers >= 5.23; use backend hf"
)
TEACHER_TRACES = Path("data/teacher_traces.jsonl")
"""Default output of ``generate_teacher_traces``, in the working directory."""
CISPO_EPSILON_HIGH = 5.0
"""Default for cispo, where ``epsilon_high`` bounds the ratio itself; ``epsilon`` would clip every token."""

_CHOOSE = {"export", "max_kl"}
_NOT_IN_FINGERPRINT = frozenset(
    {
        *("output_dir", "report_to", "logging_steps", "dry_run", "resume", "fresh"),
        *("run", "experiences_dir", *_CHOOSE),
    }
)
"""Fields that do not change the trained weights, or only through the samples, whose digest is compared."""
_ADDED_LATER = frozenset(
    {
        *("task", "reward", "reward_weight", "reward_settings", "system_role"),
        *("advantage_std", "rce_lr_ratio", "disable_dropout", "sft_temperature"),
        *("padding_free", "share_prompts", "vllm_mode", "vllm_gpu_memory_utilization", "load_in_4bit", "load_in_8bit"),
        "attn_implementation",
        "prompts",
    }
)
"""Not in the fingerprint at their defaults, so that runs of earlier versions can be resumed."""


class GRPOTrainingConfig(TrainingFields):
    """Settings of ``python -m grpo_training.train``.

    Other spellings of a field, such as ``model_path`` and ``batch_size``, are accepted by the constructor and can be
    read as properties. A configuration is not changed in place; another one is made:
    ``GRPOTrainingConfig(**{**config.to_dict(), "learning_rate": 5e-6})``.

    A row is one completion. ``lora_alpha``, ``epsilon_high`` and ``rce_learning_rate`` are derived from other fields
    if they are not given; a configuration always holds their values.
    """

    aliases: ClassVar[dict[str, str]] = ALIASES
    sections: ClassVar[frozenset[str]] = SECTIONS
    sections_of_others: ClassVar[frozenset[str]] = PHASES - SECTIONS
    refused: ClassVar[dict[str, str]] = REFUSED
    translated: ClassVar[Mapping[str, Mapping[Any, tuple[str, Any]]]] = {
        "torch_dtype": {
            prefix + name: ("bf16", name == "bfloat16") for prefix in ("", "torch.") for name in ("bfloat16", "float32")
        },
    }
    overridden: ClassVar[Mapping[str, str]] = {"reward_settings": "reward"}

    @classmethod
    def declared_keys(cls) -> DeclaredKeys:
        """The keys of the tasks' training rewards, and those of files that configure other stages too."""
        rewards = declared_rewards().values()
        return DeclaredKeys(
            field="reward_settings",
            names={key: name for reward in rewards for key, name in reward.keys().items()},
            without_effect={key: why for reward in rewards for key, why in reward.without_effect.items()}
            | OF_OTHER_STAGES,
        )

    @model_validator(mode="before")
    @classmethod
    def _other_spellings(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        named: dict[str, Any] = {}
        for key, value in values.items():
            name = ALIASES.get(str(key), str(key))
            if name in named:
                raise ValueError(f"{key} and another spelling set {name}")
            named[name] = value
        return named

    @field_validator("reward_settings", mode="before")
    @classmethod
    def _settings_of_a_task(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None:
            return None
        if (task := info.data.get("task")) is not None:
            load_task(task)  # its training reward is known from then on
        return checked_settings(value)

    @field_validator("lora_target_modules", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.reward or self.reward_settings) is not None:
            # Such a reward has a scale of its own, and may say nothing of which reply is right.
            for name, value in (("mode", "online"), ("self_sft_weight", 0.0)):
                if name not in self.model_fields_set:
                    object.__setattr__(self, name, value)
        if self.weighs_teacher and "teacher_traces" not in self.model_fields_set and TEACHER_TRACES.is_file():
            object.__setattr__(self, "teacher_traces", TEACHER_TRACES)
        for problem in self._contradictions():
            raise ValueError(problem)
        derived = {
            "lora_alpha": 2 * self.lora_r,
            "epsilon_high": CISPO_EPSILON_HIGH if self.loss_type == "cispo" else self.epsilon,
            "rce_learning_rate": self.learning_rate / (1 / self.rce_lr_ratio),
        }
        for name, value in derived.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)  # the model is frozen once it is built
        return self

    def _contradictions(self) -> Iterator[str]:
        """What does not fit together, as messages for the user."""
        rounded = self.quantised
        if self.mode == "sft" and self.dataset_path is None:
            yield "mode sft needs dataset_path: a file of chats"
        if self.mode == "online" and self.dataset is None and self.dataset_path is None:
            yield "mode online needs dataset: the problems to sample completions for"
        if self.mode == "online" and self.num_generations < 2:
            yield "num_generations must be at least 2: the advantage in a group of one reply is 0"
        if self.mode != "online" and self.reward is not None:
            yield "reward needs mode online (leave mode out, or set it to online): stored rollouts have their rewards"
        if self.mode != "online" and self.reward_settings is not None:
            yield "the settings of a task's training reward need mode online: stored rollouts have their rewards"
        if self.reward is not None and self.reward_settings is not None:
            names = ", ".join(self.reward_settings)
            yield f"reward and the settings of a task's training reward ({names}) exclude each other"
        if self.reward is None and self.reward_weight != 1:
            yield "reward_weight is used with reward only"
        if self.num_train_epochs + self.rce_epochs == 0:
            yield "num_train_epochs and rce_epochs are both 0"
        if self.mode == "sft" and self.num_train_epochs == 0:
            yield "num_train_epochs is 0: supervised training has no warm-up"
        if ALL_LINEAR in self.lora_target_modules and len(self.lora_target_modules) > 1:
            yield f"{ALL_LINEAR} in lora_target_modules stands alone: it is every linear layer but the head"
        if not self.kl_target_low < self.kl_target_high:
            yield f"kl_target_low ({self.kl_target_low}) must be below kl_target_high ({self.kl_target_high})"
        if not self.beta_min <= self.beta_max:
            yield f"beta_min ({self.beta_min}) must not be above beta_max ({self.beta_max})"
        if self.adaptive_kl and not self.beta_min <= self.beta <= self.beta_max:
            yield (
                f"adaptive_kl starts at beta, so beta ({self.beta}) must be in "
                f"[beta_min, beta_max] = [{self.beta_min}, {self.beta_max}]"
            )
        if self.mode != "sft" and self.grpo_weight == 0 and self.rce_epochs == 0 and not self.has_imitation:
            yield "there is no loss: grpo_weight is 0, and no imitation term is on"
        if self.vllm_server_base_url is not None and not self.use_vllm:
            yield "vllm_server_base_url is used with use_vllm only"
        if self.vllm_server_base_url is not None and self.vllm_mode == "colocate":
            yield "vllm_server_base_url and vllm_mode colocate exclude each other: there is no server"
        for name in ("padding_free", "share_prompts"):
            if getattr(self, name) and self.mode == "online":
                yield f"{name} is used by offline and supervised training only"
        if self.report_to != "none" and self.mode != "online":
            yield "report_to is used by online training only; all write metrics.jsonl"
        if self.padding_free and self.share_prompts:
            yield "share_prompts is padding-free too: leave padding_free out"
        if self.load_in_4bit and self.load_in_8bit:
            yield "load_in_4bit and load_in_8bit exclude each other"
        if rounded and not self.use_peft:
            yield f"{rounded} needs use_peft: rounded weights cannot be trained"
        if self.backend == "unsloth":
            yield NO_UNSLOTH
        if rounded and self.mode == "online":
            yield f"{rounded} is used by offline and supervised training only"

    @property
    def weighs_teacher(self) -> bool:
        """Whether a weight of teacher-SFT is given, and not just the default."""
        return self.mode != "sft" and "teacher_sft_weight" in self.model_fields_set and self.teacher_sft_weight > 0

    @property
    def has_imitation(self) -> bool:
        """Whether teacher-SFT or self-SFT is on."""
        return self.self_sft_weight > 0 or (self.teacher_traces is not None and self.teacher_sft_weight > 0)

    @property
    def layout(self) -> Literal["padded", "packed", "shared"]:
        """How the rows of a micro-batch pass through the model."""
        return "shared" if self.share_prompts else "packed" if self.padding_free else "padded"

    @property
    def quantised(self) -> str | None:
        """The setting that rounds the base, if one is on."""
        return next((name for name in ("load_in_4bit", "load_in_8bit") if getattr(self, name)), None)

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

    @classmethod
    def fingerprint_fields(cls) -> list[str]:
        """The fields that change the trained weights."""
        return [name for name in cls.model_fields if name not in _NOT_IN_FINGERPRINT | _ADDED_LATER]

    @property
    def prompt_style(self) -> str:
        """The style of prompts that no run has sent."""
        return self.prompts or "full"

    def compared(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Without settings that earlier versions stored and that do not change the weights.

        :data:`MEMORY_SETTINGS` are as now, so that a training goes on with less memory. The earlier default of
        ``prompts`` was ``full``; where that is another prompt, the digest of the samples differs.
        """
        left_out = [*_CHOOSE, "experiences_dir"]
        if self.prompts is None and stored.get("prompts") == "full":
            left_out.append("prompts")
        values, own = super().compared(stored), self.fingerprint()
        if self.mode != "online" and rows_of_a_step(values) == rows_of_a_step(own):
            values = {name: one for name, one in values.items() if name not in MEMORY_SETTINGS}
            values |= {name: own[name] for name in MEMORY_SETTINGS if name in own}
        return {name: one for name, one in values.items() if name not in left_out}

    def choice(self) -> dict[str, Any]:
        """The settings that choose which checkpoint is exported, and judge it, where they are not the defaults."""
        return self.model_dump(include=_CHOOSE, exclude_defaults=True)

    def stored_choice(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The same settings in a manifest of an earlier version."""
        return {name: stored[name] for name in _CHOOSE if name in stored}

    def fingerprint(self) -> dict[str, Any]:
        """The values of those fields, as JSON values."""
        return super().fingerprint() | self.model_dump(mode="json", include=set(_ADDED_LATER), exclude_defaults=True)


def _groups() -> dict[str, list[str]]:
    """The fields by title in ``--help``, in the order of the class; those of its bases end the first group."""
    groups: dict[str, list[str]] = {}
    title = ""
    for name in TrainingFields.__annotations__:
        title = FIRST_OF_GROUP.get(name, title)
        groups.setdefault(title, []).append(name)
    next(iter(groups.values())).extend(ResumableSettings.model_fields)
    return groups


GRPOTrainingConfig.groups = _groups()
for _name, _field in ALIASES.items():
    if "." not in _name:
        setattr(GRPOTrainingConfig, _name, property(attrgetter(_field), doc=f"``{_field}``."))


def load_config(path: Path | str) -> GRPOTrainingConfig:
    """``GRPOTrainingConfig.from_yaml``."""
    return GRPOTrainingConfig.from_yaml(path)
