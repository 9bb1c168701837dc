"""The configuration of the fine-tune. Names are TRL's where the meaning is TRL's; other spellings are aliases."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from engine.tasks.registry import load_task
from grpo_training.cli.parsing import settings_from_yaml
from grpo_training.cli.settings import PHASES, WORKING_DIR, DeclaredKeys, Positive, Weight
from grpo_training.runs.settings import ResumableSettings
from grpo_training.train.config_keys import ALIASES, FIRST_OF_GROUP, OF_OTHER_STAGES, REFUSED, SECTIONS
from grpo_training.train.memory import MEMORY_SETTINGS, rows_of_a_step
from grpo_training.train.online.reward_settings import checked_settings, declared_rewards

Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]

ALL_LINEAR = "all-linear"
NO_UNSLOTH = (
    "backend unsloth cannot be installed beside this project: unsloth 2026.10.9 needs trl <= 1.15.0 and "
    "transformers <= 5.17.0, this project trl >= 1.16 and transformers >= 5.23; use backend hf"
)
CISPO_EPSILON_HIGH = 5.0
"""Default for cispo, where ``epsilon_high`` bounds the ratio itself; ``epsilon`` would clip every token."""

_CHOOSE = ("export", "max_kl")
_NOT_IN_FINGERPRINT = frozenset(
    {
        *("output_dir", "report_to", "project", "run_name", "logging_steps", "dry_run", "resume", "fresh"),
        *("push_to_hub", "run", "experiences_dir", *_CHOOSE),
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


class GRPOTrainingConfig(ResumableSettings):
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
        "use_wandb": {True: ("report_to", "wandb"), False: ("report_to", "none")},
        "torch_dtype": {name: ("bf16", name == "bfloat16") for name in ("bfloat16", "float32")},
    }

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

    # model and data
    model_name_or_path: str = Field(min_length=1, description="folder or hub name of the model")
    mode: Literal["offline", "online", "sft"] = Field(
        "offline",
        description="offline: train on stored rollouts; online: sample completions, score them and train (the default "
        "where reward_settings are given); sft: supervised, on chats",
    )
    dataset_path: Path | None = Field(
        None,
        description="stored rollouts: a file, or a folder that is searched (offline); a file of chats (sft); the file "
        "or folder of problems, if dataset is not given (online)",
    )
    run: str | None = Field(
        None, description="name of the run whose rollouts are trained on, without dataset_path (default: the newest)"
    )
    dataset: str | None = Field(None, description="problems by name or path, as for the generators (online)")
    task: str | None = Field(None, description="task of rows that name none: a name, FILE.py:NAME or MODULE:NAME")
    reward: str | None = Field(
        None,
        description="reward in place of the task's: FILE.py:NAME or MODULE:NAME, called as f(answer, row), or the name "
        "of a task",
    )
    reward_weight: float = Field(
        1.0, gt=0, le=1, description="share of that reward; the task's reward has the rest. 1: it replaces the task's"
    )
    reward_settings: dict[str, Any] | None = Field(
        None,
        description="settings of the task's training reward, which then replaces r_total; on the command line JSON, "
        "whose keys replace those of the file one by one",
    )
    max_problems: Positive | None = Field(None, description="number of problems to train on; all by default")
    output_dir: Path = Field(WORKING_DIR / "outputs/grpo", description="the run directory")
    prompts: str | None = Field(
        None,
        description="prompt style: full, or a folder of prompts/ such as compact (default: that in which the prompts "
        "of the rollouts were sent; of prompts that were not, full)",
    )
    system_role: Literal["keep", "merge"] = Field(
        "keep",
        description="merge: put the system text in front of the user message, for a chat template without system role",
    )
    experiences: Literal["keep", "strip", "both"] = Field(
        "keep", description="train on prompts with the experiences they were sampled with, without any, or both"
    )
    experiences_dir: Path | None = Field(
        None, description="folder of the experience libraries (default: that of the run of each cache)"
    )
    validation_share: Share = Field(0.1, description="share of the problems that is held out")
    zero_variance: Literal["drop", "right", "keep"] = Field(
        "drop", description="groups of equal rewards: drop, keep those whose replies are all correct (right), or keep"
    )
    served_as: str | None = Field(
        None, description="name under which this model was served when the rollouts were sampled"
    )
    stored_logprobs: Literal["raw", "processed"] = Field(
        "raw", description="stored log-probs are at temperature 1 (raw) or at the sampling temperature (processed)"
    )
    backend: Literal["hf", "unsloth"] = Field(
        "hf", description="library that loads the model; unsloth is refused, as its releases need older trl versions"
    )
    dry_run: bool = Field(False, description="check everything, print the plan and exit")

    # training steps
    learning_rate: float = Field(1e-5, gt=0, description="peak learning rate")
    num_train_epochs: Count = Field(3, description="epochs of the GRPO loss")
    max_steps: int = Field(-1, ge=-1, description="number of optimizer steps; -1: given by the epochs")
    per_device_train_batch_size: Positive = Field(8, description="rows per forward pass and device")
    gradient_accumulation_steps: Positive = Field(1, description="forward passes per optimizer step")
    lr_scheduler_type: Literal["cosine", "linear", "constant"] = Field(
        "cosine", description="learning-rate schedule after the warm-up"
    )
    warmup_ratio: float = Field(0.1, ge=0, le=1, description="share of the steps for the learning-rate warm-up")
    warmup_steps: Count = Field(0, description="steps of the learning-rate warm-up; above 0 it overrides warmup_ratio")
    max_grad_norm: float = Field(1.0, gt=0, description="gradients are clipped to this norm")
    weight_decay: Weight = Field(0.0, description="weight decay of AdamW; offline and sft: of norms and biases too")
    optim: Literal["adamw_torch", "adamw_torch_fused", "adamw_8bit"] = Field(
        "adamw_torch", description="optimizer; adamw_8bit keeps its state in 8 bits and needs bitsandbytes"
    )
    seed: int = Field(0, ge=0, lt=2**32, description="seed of the data order, the dropout and the sampling")

    # sampling
    num_generations: Positive = Field(4, description="completions per prompt (online)")
    temperature: float = Field(1.0, gt=0, le=2, description="sampling temperature; the loss divides logits by it too")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus sampling; below 1 the ratio is biased")
    max_completion_length: Positive = Field(
        512, description="maximum tokens of a sampled completion; divisor of dr_grpo"
    )
    max_seq_length: Positive = Field(2048, description="maximum tokens of a row; longer rows are left out")
    repetition_penalty: float = Field(1.0, gt=0, le=2, description="penalty on repeated tokens; 1: none")
    use_vllm: bool = Field(False, description="sample with vLLM (online)")
    vllm_mode: Literal["server", "colocate"] = Field(
        "server", description="server: a vLLM server of TRL on other GPUs; colocate: vLLM on the GPUs of the training"
    )
    vllm_server_base_url: str | None = Field(None, description="base URL of the vLLM server")
    vllm_gpu_memory_utilization: float = Field(
        0.3, gt=0, lt=1, description="share of the GPU memory for vLLM, with vllm_mode colocate"
    )

    # policy loss
    loss_type: Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo"] = Field("dapo", description="loss type, as in TRL")
    beta: Weight = Field(0.05, description="weight of the KL to the initial model")
    epsilon: float = Field(0.2, ge=0, lt=1, description="the ratio is clipped below at 1 - epsilon")
    epsilon_high: float | None = Field(
        None, ge=0, description="the ratio is clipped above at 1 + epsilon_high; default: epsilon (cispo: 5)"
    )
    delta: float | None = Field(None, gt=1, description="upper bound of the ratio where the advantage is negative")
    scale_rewards: Literal["group", "batch", "none"] = Field("group", description="std that normalises advantages")
    advantage_std: Literal["sample", "population"] = Field(
        "sample",
        description="that std of scale_rewards group: sample, plus 1e-4, as in TRL; population (offline)",
    )
    advantage_clip: float = Field(5.0, gt=0, description="advantages are clipped to [-x, x]")
    importance_sampling_level: Literal["token", "sequence"] = Field("token", description="sequence: GSPO")
    importance_cap: float | None = Field(
        None, gt=0, description="cap of the truncated importance weights; default: off, with use_vllm 2"
    )
    missing_logprobs: Literal["ratio_1", "start"] = Field(
        "start", description="where no old log-probs are stored: those of the initial model (start), or ratio 1"
    )
    mask_truncated_completions: bool = Field(False, description="exclude truncated completions from the loss")
    kl_estimator: Literal["k1", "k2", "k3"] = Field("k3", description="KL estimator")
    use_bias_correction_kl: bool = Field(False, description="multiply the KL by the ratio")
    adaptive_kl: bool = Field(False, description="adapt beta to the measured KL")
    kl_target_low: Weight = Field(0.01, description="KL below which beta is lowered")
    kl_target_high: float = Field(0.1, gt=0, description="KL above which beta is raised")
    kl_adjustment_factor: float = Field(1.5, gt=1, description="factor of a change of beta")
    beta_min: float = Field(0.001, gt=0, description="lower bound of an adaptive beta")
    beta_max: float = Field(10.0, gt=0, description="upper bound of an adaptive beta")

    # warm-up and curriculum
    rce_epochs: Count = Field(0, description="warm-up: epochs of reward-weighted cross-entropy (RCE)")
    rce_temperature_start: float = Field(2.0, gt=0, description="temperature of the RCE weights at the start")
    rce_temperature_end: float = Field(0.5, gt=0, description="temperature of the RCE weights at the end")
    rce_learning_rate: float | None = Field(
        None, gt=0, description="learning rate of RCE; default: rce_lr_ratio x learning_rate"
    )
    rce_lr_ratio: float = Field(0.1, gt=0, description="share of learning_rate for RCE, if rce_learning_rate is unset")
    curriculum_epochs: Count = Field(0, description="first GRPO epochs, on the best replies of each group only")
    early_top_k: Positive = Field(3, description="replies per group in those epochs")
    late_top_k: Positive | None = Field(None, description="replies per group in the later epochs; default: all")

    # imitation
    grpo_weight: Weight = Field(1.0, description="weight of the policy loss")
    teacher_traces: Path | None = Field(None, description="file of teacher traces; without it teacher-SFT is off")
    teacher_sft_weight: Weight = Field(0.3, description="weight of the teacher-SFT term")
    self_sft_weight: Weight = Field(
        0.2,
        description="weight of the self-SFT term: imitation of the best correct own replies (default: 0.2; 0 where "
        "reward or reward_settings pays)",
    )
    sft_temperature: float = Field(
        1.0,
        gt=0,
        le=2,
        description="teacher-SFT and self-SFT divide logits by it, whatever the sampling temperature is",
    )
    self_sft_top_k: Positive = Field(2, description="maximum imitated replies per group")
    self_sft_min_reward: float = Field(
        0.8, description="minimum reward of an imitated reply whose correctness is not known"
    )
    sft_schedule: Literal["constant", "linear", "chord"] = Field(
        "constant", description="schedule of the imitation weights"
    )
    chord_mu_peak: float = Field(0.9, ge=0, le=1, description="CHORD: highest weight of the teacher")
    chord_mu_end: float = Field(0.05, ge=0, le=1, description="CHORD: weight of the teacher at the end")
    chord_warmup_steps: Count = Field(0, description="CHORD: steps up to the peak")
    chord_decay_steps: Count = Field(0, description="CHORD: steps from the peak to the end; 0: all remaining steps")
    chord_phi: bool = Field(False, description="CHORD: weight tokens by p(1-p)")

    # adapter and memory
    use_peft: bool = Field(True, description="train a LoRA adapter instead of all weights")
    lora_r: Positive = Field(32, description="rank of the adapter")
    lora_alpha: Positive | None = Field(None, description="scale of the adapter; default: twice the rank")
    lora_dropout: Share = Field(0.0, description="dropout of the adapter; needs disable_dropout off")
    disable_dropout: bool = Field(
        True, description="train without dropout; with it the policy differs from the reference before any step"
    )
    lora_target_modules: tuple[str, ...] = Field(
        (ALL_LINEAR,),
        min_length=1,
        description="modules with an adapter, comma-separated; all-linear: every linear layer",
    )
    load_in_4bit: bool = Field(False, description="keep the base of the adapter in 4 bits, NF4 (needs bitsandbytes)")
    load_in_8bit: bool = Field(False, description="keep the base of the adapter in 8 bits (needs bitsandbytes)")
    gradient_checkpointing: bool = Field(False, description="recompute activations to save memory")
    bf16: bool | None = Field(
        None, description="train in bfloat16; default: on a GPU that supports it, or a CPU with AVX512-BF16 or AMX"
    )
    attn_implementation: str | None = Field(
        None, description="attention of transformers, such as flash_attention_2; default: the model's, mostly sdpa"
    )
    padding_free: bool = Field(
        False, description="put the rows of a micro-batch in one sequence instead of padding them (offline, sft)"
    )
    share_prompts: bool = Field(
        False,
        description="compute a prompt once for its replies in a micro-batch, which pass as one sequence (offline, sft)",
    )
    logprob_chunk_size: Positive = Field(1024, description="positions whose logits are in memory at once")

    # logging and checkpoints
    logging_steps: Positive = Field(1, description="optimizer steps per line of metrics.jsonl")
    save_steps: Positive | None = Field(None, description="optimizer steps between checkpoints; default: each epoch")
    save_total_limit: Positive = Field(2, description="number of recent checkpoints to keep")
    max_kl: float = Field(
        0.5,
        gt=0,
        description="a model whose KL to the initial one is above this counts as ruined",
    )
    export: Literal["best", "last"] = Field(
        "best",
        description="best: the last checkpoint that is not worse on held-out groups than the initial model, else that "
        "model; last: the last checkpoint in any case",
    )
    push_to_hub: str | None = Field(
        None,
        pattern=r"^[\w.-]+/[\w.-]+$",
        description="upload the exported model to this repository (owner/name, made private if new) with HF_TOKEN",
    )
    report_to: Literal["none", "trackio", "wandb", "tensorboard", "mlflow"] = Field(
        "none", description="experiment tracker"
    )
    project: str = Field("scaffold-grpo", description="project name in the tracker")
    run_name: str | None = Field(None, description="run name in the tracker")

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
        if self.reward_settings is not None and "mode" not in self.model_fields_set:
            object.__setattr__(self, "mode", "online")
        if (self.reward or self.reward_settings) is not None and "self_sft_weight" not in self.model_fields_set:
            # Such a reward has a scale of its own, and may say nothing of which reply is right.
            object.__setattr__(self, "self_sft_weight", 0.0)
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

    def _contradictions(self) -> list[str]:
        rounded = self.quantised
        checks = [
            (self.mode == "sft" and self.dataset_path is None, "mode sft needs dataset_path: a file of chats"),
            (
                self.mode == "online" and self.dataset is None and self.dataset_path is None,
                "mode online needs dataset: the problems to sample completions for",
            ),
            (
                self.mode == "online" and self.num_generations < 2,
                "num_generations must be at least 2: the advantage in a group of one reply is 0",
            ),
            (
                self.mode != "online" and self.reward is not None,
                "reward needs mode online: stored rollouts have theirs",
            ),
            (
                self.mode != "online" and self.reward_settings is not None,
                "the settings of a task's training reward need mode online: stored rollouts have their rewards",
            ),
            (
                self.reward is not None and self.reward_settings is not None,
                "reward and the settings of a task's training reward exclude each other",
            ),
            (self.reward is None and self.reward_weight != 1, "reward_weight is used with reward only"),
            (self.num_train_epochs + self.rce_epochs == 0, "num_train_epochs and rce_epochs are both 0"),
            (
                self.mode == "sft" and self.num_train_epochs == 0,
                "num_train_epochs is 0: supervised training has no warm-up",
            ),
            (
                ALL_LINEAR in self.lora_target_modules and len(self.lora_target_modules) > 1,
                f"{ALL_LINEAR} in lora_target_modules stands alone: it is every linear layer but the head",
            ),
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
                f"adaptive_kl starts at beta, so beta ({self.beta}) must be in "
                f"[beta_min, beta_max] = [{self.beta_min}, {self.beta_max}]",
            ),
            (
                self.mode != "sft" and self.grpo_weight == 0 and self.rce_epochs == 0 and not self.has_imitation,
                "there is no loss: grpo_weight is 0, and no imitation term is on",
            ),
            (
                self.vllm_server_base_url is not None and not self.use_vllm,
                "vllm_server_base_url is used with use_vllm only",
            ),
            (
                self.vllm_server_base_url is not None and self.vllm_mode == "colocate",
                "vllm_server_base_url and vllm_mode colocate exclude each other: there is no server",
            ),
            *(
                (
                    getattr(self, name) and self.mode == "online",
                    f"{name} is used by offline and supervised training only",
                )
                for name in ("padding_free", "share_prompts")
            ),
            (self.padding_free and self.share_prompts, "share_prompts is padding-free too: leave padding_free out"),
            (self.load_in_4bit and self.load_in_8bit, "load_in_4bit and load_in_8bit exclude each other"),
            (rounded and not self.use_peft, f"{rounded} needs use_peft: rounded weights cannot be trained"),
            (self.backend == "unsloth", NO_UNSLOTH),
            (rounded and self.mode == "online", f"{rounded} is used by offline and supervised training only"),
        ]
        return [message for wrong, message in checks if wrong]

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
        fields = type(self).model_fields
        return {name: getattr(self, name) for name in _CHOOSE if getattr(self, name) != fields[name].default}

    def stored_choice(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The same settings in a manifest of an earlier version."""
        return {name: stored[name] for name in _CHOOSE if name in stored}

    def fingerprint(self) -> dict[str, Any]:
        """The values of those fields, as JSON values."""
        added = {name: getattr(self, name) for name in sorted(_ADDED_LATER)}
        fields = type(self).model_fields
        return super().fingerprint() | {name: one for name, one in added.items() if one != fields[name].default}


def _groups() -> dict[str, list[str]]:
    """The fields by title in ``--help``, in the order of the class; those of its bases end the first group."""
    inherited = list(ResumableSettings.model_fields)
    groups: dict[str, list[str]] = {}
    title = ""
    for name in GRPOTrainingConfig.model_fields:
        if name not in inherited:
            title = FIRST_OF_GROUP.get(name, title)
            groups.setdefault(title, []).append(name)
    next(iter(groups.values())).extend(inherited)
    return groups


GRPOTrainingConfig.groups = _groups()
for _name, _field in ALIASES.items():
    if "." not in _name:
        setattr(GRPOTrainingConfig, _name, property(attrgetter(_field), doc=f"``{_field}``."))


def load_config(path: Path | str) -> GRPOTrainingConfig:
    """``GRPOTrainingConfig.from_yaml``."""
    return GRPOTrainingConfig.from_yaml(path)
