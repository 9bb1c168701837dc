"""Settings of the steps of ``python -m grpo_training.selector``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from grpo_training.cli.settings import WORKING_DIR, DeclaredKeys, Positive, Weight, refuse_overwriting
from grpo_training.cli.steps import StepSettings
from grpo_training.runs.settings import ResumableSettings
from grpo_training.selector.asking.settings import BeamsSettings, InferSettings, RewardsSettings
from grpo_training.selector.step_settings import OUTPUTS, EmbeddingSettings, ModelVersion, NormalizeMethod, RewardMode

_Share = Annotated[float, Field(ge=0, lt=1)]
_Rate = Annotated[float, Field(gt=0)]
_STEPS = ("batch_size", "weight_decay", "gradient_clip_norm", "warmup_ratio", "lr_scheduler", "seed", "device")
_RECORDS = ("output_dir", "resume", "fresh", "dry_run", "log_every_steps")


class TrainingSettings(EmbeddingSettings, ResumableSettings):
    """What SFT and the post-training share."""

    beam_data: Path = Field(description="beam file or reward file")
    max_samples: Positive | None = Field(None, description="queries that are used, the first ones (default: all)")
    beam_size: Positive | None = Field(None, description="beams of a query that are used (default: all)")
    pool: Positive = Field(64, description="size of a pool that the file does not name")
    train_ratio: float = Field(0.8, gt=0, le=1, description="share of the queries to train on; the others are held out")
    batch_size: Positive = Field(32, description="queries per optimizer step")
    weight_decay: Weight = Field(0.01, description="weight decay of AdamW")
    gradient_clip_norm: _Rate = Field(1.0, description="gradients are clipped to this norm")
    warmup_ratio: float = Field(0.1, ge=0, le=1, description="share of a phase's steps for the learning-rate warm-up")
    lr_scheduler: Literal["cosine", "linear", "constant"] = Field("cosine", description="schedule after the warm-up")
    seed: int = Field(0, ge=0, description="seed of the split, the order and the dropout")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="where the model is trained")
    output_dir: Path = Field(OUTPUTS, description="the run directory")
    log_every_steps: Positive = Field(5, description="optimizer steps per line of metrics.jsonl")
    dry_run: bool = Field(False, description="check everything, make one step of each phase, write nothing")

    @classmethod
    def fingerprint_fields(cls) -> Sequence[str]:
        """The fields that change the trained weights."""
        others = {"output_dir", "log_every_steps", "dry_run", "resume", "fresh"}
        return [name for name in cls.model_fields if name not in others | {"device"}]

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return self.model_dump(mode="json")


class EmbedSettings(StepSettings):
    """Settings of ``selector embed``."""

    summary: ClassVar[str] = "embed the texts or the images of a dataset, once"

    dataset: str = Field(description="name of a dataset, or a JSONL file")
    images: str | None = Field(
        None, description="column of the rows with the path of an image: embed the images instead"
    )
    images_dir: Path = Field(WORKING_DIR, description="folder that the paths of images are relative to")
    embedding_model: str = Field(
        "hashing",
        description="hashing, hashing:DIMENSIONS, clip:MODEL, a model of sentence-transformers (hub name or folder), "
        "or an encoder of your own, FILE.py:NAME",
    )
    output_dir: Path = Field(
        OUTPUTS / "embeddings", description="folder of the .npy files, one for each model and data"
    )


class SftSettings(TrainingSettings):
    """Settings of ``selector sft``."""

    summary: ClassVar[str] = "train a selector on the beams of a beam file (supervised)"
    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "data": (
            *("beam_data", "embeddings", "img_emb", "text_emb", "max_samples", "beam_size", "pool"),
            "train_ratio",
        ),
        "model": ("hidden_dim", "num_heads", "num_layers", "dropout", "attn_dropout", "decoder", "stop"),
        "training": ("epochs", "learning_rate", *_STEPS),
        "files and records": _RECORDS,
    }

    hidden_dim: Positive = Field(256, description="width of the model")
    num_heads: Positive = Field(1, description="attention heads")
    num_layers: Positive = Field(1, description="layers in which the query attends to its pool")
    dropout: _Share = Field(0.1, description="dropout")
    attn_dropout: _Share = Field(0.1, description="dropout of the attention")
    decoder: Literal["static", "gate", "gru"] = Field(
        "gate", description="how later choices depend on earlier ones: not at all, by a gate, by a GRU"
    )
    stop: bool = Field(False, description="a learned entry that ends a sequence early")
    epochs: Positive = Field(20, description="passes over the queries")
    learning_rate: _Rate = Field(3e-3, description="peak learning rate")

    @model_validator(mode="after")
    def _whole_heads(self) -> Self:
        if self.hidden_dim % self.num_heads:
            raise ValueError(f"--hidden-dim {self.hidden_dim} is no multiple of --num-heads {self.num_heads}")
        return self


class TrainSettings(TrainingSettings):
    """Settings of ``selector train``."""

    summary: ClassVar[str] = "post-train a selector on rewards: RCE, then GRPO"
    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "data": (
            *("sft_ckpt", "beam_data", "embeddings", "img_emb", "text_emb", "max_samples"),
            *("beam_size", "pool", "train_ratio"),
        ),
        "rewards": (
            *("reward_mode", "hard_weight", "soft_weight", "rel_weight", "keep_fallback", "coherence_weight"),
            *("diversity_weight", "normalize_method", "normalize_clamp"),
        ),
        "RCE": ("rce_epochs", "rce_lr", "rce_lr_ratio", "rce_temperature_start", "rce_temperature_end"),
        "GRPO": (
            *("grpo_epochs", "grpo_lr", "clip_epsilon", "advantage_clip", "early_epochs", "early_top_k", "late_top_k"),
            *("kl_beta", "adaptive_kl", "kl_target_min", "kl_target_max", "kl_adjustment_factor", "kl_every"),
            *("grpo_temperature", "grpo_temperature_min", "grpo_temperature_max", "grpo_temperature_factor"),
            "freeze_backbone",
        ),
        "training": _STEPS,
        "files and records": _RECORDS,
    }
    sections: ClassVar[frozenset[str]] = frozenset(
        {"model", "rce", "grpo", "grpo.curriculum", "data", "training", "logging"}
    )
    translated: ClassVar[Mapping[str, Mapping[Any, tuple[str, Any]]]] = {
        "data.normalize_rewards": {True: ("normalize_method", "z_score"), False: ("normalize_method", "none")}
    }
    aliases: ClassVar[Mapping[str, str]] = {
        "rce.epochs": "rce_epochs",
        "rce.lr": "rce_lr",
        "rce.temperature_start": "rce_temperature_start",
        "rce.temperature_end": "rce_temperature_end",
        "grpo.epochs": "grpo_epochs",
        "grpo.lr": "grpo_lr",
        "training.gradient_clip": "gradient_clip_norm",
        "training.scheduler": "lr_scheduler",
        "rce_temp_start": "rce_temperature_start",
        "rce_temp_end": "rce_temperature_end",
    }

    @classmethod
    def declared_keys(cls) -> DeclaredKeys:
        """Keys of the configuration of Lever-Plus that change nothing here."""
        architecture = ("d_model", "shot_num", "hidden_dim", "num_heads", "num_layers", "dropout", "attn_dropout")
        reasons = dict.fromkeys((f"model.{name}" for name in architecture), "it is that of --sft-ckpt")
        return DeclaredKeys(
            without_effect=reasons
            | {
                "model.K": "pools are those of the file, or of the size --pool",
                "model.label_smoothing": "RCE and GRPO have none",
                "clip_name": "the embeddings tell which model made them",
                "model.clip_name": "the embeddings tell which model made them",
                "rce.warmup_ratio": "every phase has training.warmup_ratio",
                "data.shot_num": "it is that of the sequences",
                "training.save_every_epoch": "a checkpoint is written for each epoch",
                "logging.metrics": "all metrics are written",
            }
        )

    sft_ckpt: Path = Field(description="checkpoint to start from, of `selector sft` or of an earlier run")
    reward_mode: RewardMode = Field("hard_plus_soft", description="how the measurements of a reward file are combined")
    hard_weight: Weight = Field(1.0, description="weight of a right answer")
    soft_weight: Weight = Field(1.0, description="weight of the soft accuracy, or of the reference's probability")
    rel_weight: Weight = Field(0.1, description="weight of the relevance of a wrong answer")
    keep_fallback: bool = Field(False, description="use candidates that the official metric did not score")
    coherence_weight: Weight = Field(0.0, description="weight of the mean cosine of query and shots")
    diversity_weight: Weight = Field(0.0, description="weight of 1 - mean cosine between the shots")
    normalize_method: NormalizeMethod = Field("z_score", description="scale of the rewards of a query in RCE")
    normalize_clamp: _Rate = Field(3.0, description="bound of z_score_clamp")
    rce_epochs: int = Field(2, ge=0, description="epochs of reward-weighted cross-entropy (warm-up)")
    rce_lr: float | None = Field(None, gt=0, description="learning rate of RCE (default: --rce-lr-ratio x that of SFT)")
    rce_lr_ratio: _Rate = Field(0.1, description="learning rate of RCE relative to SFT's")
    rce_temperature_start: _Rate = Field(2.0, description="temperature of the RCE weights at the first step")
    rce_temperature_end: _Rate = Field(0.5, description="temperature of the RCE weights at the last step")
    grpo_epochs: int = Field(3, ge=0, description="epochs of GRPO")
    grpo_lr: _Rate = Field(1e-4, description="learning rate of GRPO")
    clip_epsilon: float = Field(0.2, gt=0, lt=1, description="the ratio is clipped to 1 ± this")
    advantage_clip: _Rate = Field(5.0, description="advantages are clipped to [-x, x]")
    early_epochs: int = Field(1, ge=0, description="first GRPO epochs, on the best candidates of each query only")
    early_top_k: Positive = Field(3, description="candidates per query in those epochs")
    late_top_k: Positive | None = Field(None, description="candidates per query in the later epochs (default: all)")
    kl_beta: Weight = Field(0.1, description="weight of the KL to the policy at the start of GRPO")
    adaptive_kl: bool = Field(True, description="adapt kl_beta and the temperature of GRPO to the KL")
    kl_target_min: Weight = Field(0.01, description="KL below which kl_beta is lowered and the temperature raised")
    kl_target_max: _Rate = Field(0.1, description="KL above which kl_beta is raised and the temperature lowered")
    kl_adjustment_factor: float = Field(1.5, gt=1, description="factor of a change of kl_beta")
    kl_every: Positive = Field(5, description="optimizer steps between changes of kl_beta, by their mean KL")
    grpo_temperature: _Rate = Field(1.0, description="temperature of the ratios of GRPO at its first step")
    grpo_temperature_min: _Rate = Field(0.5, description="lower bound of that temperature")
    grpo_temperature_max: _Rate = Field(2.0, description="upper bound of that temperature")
    grpo_temperature_factor: float = Field(1.05, gt=1, description="factor of a change of it, after each step")
    freeze_backbone: bool = Field(False, description="train attention and decoder only in GRPO")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.rce_epochs + self.grpo_epochs == 0:
            raise ValueError("rce_epochs and grpo_epochs are both 0")
        if not self.kl_target_min < self.kl_target_max:
            raise ValueError(f"kl_target_min ({self.kl_target_min}) must be below kl_target_max ({self.kl_target_max})")
        if not self.grpo_temperature_min <= self.grpo_temperature <= self.grpo_temperature_max:
            raise ValueError("grpo_temperature must be within grpo_temperature_min and grpo_temperature_max")
        return self


class PredictSettings(EmbeddingSettings):
    """Settings of ``selector predict``."""

    summary: ClassVar[str] = "choose shots for the queries of a file, and compare with similarity, random and oracle"

    checkpoint: Path = Field(description="checkpoint of a selector")
    model_version: ModelVersion | None = Field(
        None, description="refuse a checkpoint of the other version: v2 is of `sft`, v3 of `train`"
    )
    test_data: Path = Field(description="beam file or reward file; its scores are used for the comparison only")
    shots: Positive | None = Field(None, description="length of a sequence (default: as the selector was trained)")
    beam_size: Positive = Field(5, description="width of the beam search; 1 is greedy")
    pool: Positive = Field(64, description="size of a pool that the file does not name")
    output: Path | None = Field(None, description="file for the chosen shots (default: stdout has figures only)")

    @model_validator(mode="after")
    def _own_output(self) -> Self:
        refuse_overwriting(self, "output", ("checkpoint", "test_data", "embeddings", "img_emb", "text_emb"))
        return self


STEPS: Mapping[str, type[StepSettings]] = {
    "embed": EmbedSettings,
    "beams": BeamsSettings,
    "rewards": RewardsSettings,
    "sft": SftSettings,
    "train": TrainSettings,
    "predict": PredictSettings,
    "infer": InferSettings,
}
