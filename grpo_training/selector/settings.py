"""Settings of the steps of ``python -m grpo_training.selector``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from grpo_training.cli.settings import WORKING_DIR, Listed, Positive, Weight
from grpo_training.cli.steps import StepSettings
from grpo_training.runs.settings import ClientSettings, ResumableSettings

OUTPUTS = WORKING_DIR / "outputs/selector"
ModelVersion = Annotated[Literal["v2", "v3"], BeforeValidator(lambda value: str(value).lower())]
"""v2: after SFT; v3: after the post-training."""
_Share = Annotated[float, Field(ge=0, lt=1)]
_Rate = Annotated[float, Field(gt=0)]


class EmbeddingSettings(StepSettings):
    """Which embeddings a step reads."""

    group: ClassVar[str] = "embeddings"

    embeddings: Path | None = Field(None, description="embeddings of queries and shots: a .npy or .pt file, row = id")
    img_emb: Path | None = Field(None, description="image embeddings; with --text-emb, the normalised mean is used")
    text_emb: Path | None = Field(None, description="text embeddings, for --img-emb")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.img_emb is None) != (self.text_emb is None):
            raise ValueError("--img-emb and --text-emb belong together")
        if self.embeddings is not None and self.img_emb is not None:
            raise ValueError("--embeddings and --img-emb exclude each other")
        return self


class ImageSettings(StepSettings):
    """Which images belong to the rows of a dataset."""

    group: ClassVar[str] = "images"

    images: str | None = Field(None, description="column of the rows with the path of an image: use the images too")
    images_dir: Path = Field(WORKING_DIR, description="folder that the paths of images are relative to")


class TrainingSettings(EmbeddingSettings, ResumableSettings):
    """What SFT and the post-training share."""

    group: ClassVar[str] = "data, training and records"
    not_in_fingerprint: ClassVar[Collection[str]] = {"output_dir", "log_every_steps", "dry_run", "resume", "fresh"}
    """The fields that do not change the trained weights."""

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
    output_dir: Path = Field(OUTPUTS, description="the run directory")
    log_every_steps: Positive = Field(5, description="optimizer steps per line of metrics.jsonl")
    dry_run: bool = Field(False, description="check everything, make one step of each phase, write nothing")


class EmbedSettings(ImageSettings):
    """Embed the texts of a dataset, or with --images the images."""

    dataset: str = Field(description="name of a dataset, or a JSONL file")
    embedding_model: str = Field(
        "hashing",
        description="hashing, clip:MODEL (hub name or folder), or FILE.py:NAME, an encoder of yours",
    )
    output_dir: Path = Field(
        OUTPUTS / "embeddings", description="where embeddings.npy or image_embeddings.npy is written"
    )


class BeamsSettings(ClientSettings, ImageSettings):
    """Make a beam file: score shot sequences with an endpoint's log-probs (InfoScore)."""

    group: ClassVar[str] = "queries, pools and search"

    dataset: str = Field(
        description="name of a dataset, or a JSONL file; the id of a problem is its row number, from 0"
    )
    sample_num: Positive = Field(800, description="queries, by chance")
    pool: Positive = Field(64, description="shots that can be chosen for a query")
    sampler: Literal["rand", "text", "image", "mix"] = Field(
        "rand", description="pools: by chance, the nearest by text or image, or half by chance and half the nearest"
    )
    embedding_model: str = Field(
        "hashing", description="embeds the texts, and the images if it can; see `selector embed`"
    )
    shots: Positive = Field(2, description="length of a sequence")
    beam_size: Positive = Field(5, description="sequences that are kept")
    seed: int = Field(42, ge=0, description="of the draws")
    role: str = Field("generator_1", description="role of --api-config whose endpoint scores answers")
    output_dir: Path = Field(OUTPUTS / "beams", description="where beams.json and embeddings.npy are written")


class RewardsSettings(ClientSettings, ImageSettings):
    """Make a reward file: ask an endpoint with candidate sequences, and score its answers."""

    group: ClassVar[str] = "candidates of a query"
    read_beside: ClassVar[Mapping[str, Sequence[str]]] = {"output": ("dataset", "beam_data", "checkpoint")}

    dataset: str = Field(description="the dataset that the beam file was made from; an id is a row number, from 0")
    beam_data: Path = Field(description="beam file: its queries, pools and beams")
    checkpoint: Path | None = Field(None, description="selector whose best sequences are candidates too")
    beams: Positive = Field(5, description="best sequences of the file, and of the checkpoint")
    random: int = Field(1, ge=0, description="sequences by chance")
    seed: int = Field(42, ge=0, description="of the sequences by chance")
    role: str = Field("generator_1", description="role of --api-config that is asked")
    max_tokens: Positive = Field(16, description="maximum tokens of an answer")
    output: Path = Field(OUTPUTS / "rewards.json", description="the reward file")


class InferSettings(ClientSettings, ImageSettings):
    """Put the chosen shots into prompts, ask an endpoint, and score its answers."""

    group: ClassVar[str] = "selection"
    read_beside: ClassVar[Mapping[str, Sequence[str]]] = {"output": ("checkpoint", "dataset", "shots_dataset")}

    checkpoint: Annotated[tuple[Path, ...], Listed] = Field(
        min_length=1, description="checkpoints of selectors; each is compared with the first, which makes the pools"
    )
    model_version: ModelVersion | None = Field(
        None, description="refuse a last checkpoint of the other version: v2 is of `sft`, v3 of `train`"
    )
    dataset: str = Field(description="the queries: name of a dataset, or a JSONL file")
    shots_dataset: str = Field(description="the shots: name of a dataset, or a JSONL file")
    shot_nums: Annotated[tuple[Positive, ...], Listed] = Field(
        (1, 2, 3, 4), min_length=1, description="shots in a prompt, such as 1 2 3 4"
    )
    pool: Positive = Field(64, description="shots that can be chosen for a query")
    sampler: Literal["near", "rand"] = Field(
        "near", description="pools: the nearest by the embeddings, or by chance, as `beams` draws them by default"
    )
    max_problems: Positive | None = Field(None, description="queries, from the start (default: all)")
    seed: int = Field(42, description="of the shots by chance")
    role: str = Field("generator_1", description="role of --api-config that is asked")
    max_tokens: Positive = Field(16, description="maximum tokens of an answer")
    output: Path = Field(OUTPUTS / "infer_metrics.json", description="file for the figures")


class SftSettings(TrainingSettings):
    """Train a selector on the beams of a beam file (supervised)."""

    group: ClassVar[str] = "model"

    hidden_dim: Positive = Field(256, description="width of the model")
    dropout: _Share = Field(0.1, description="dropout, also of the attention")
    epochs: Positive = Field(20, description="passes over the queries")
    learning_rate: _Rate = Field(3e-3, description="peak learning rate")


class TrainSettings(TrainingSettings):
    """Post-train a selector on rewards: RCE, then GRPO."""

    group: ClassVar[str] = "rewards, RCE and GRPO"

    sft_ckpt: Path = Field(description="checkpoint to start from, of `selector sft` or of an earlier run")
    coherence_weight: Weight = Field(0.0, description="weight of the mean cosine of query and shots")
    diversity_weight: Weight = Field(0.0, description="weight of 1 - mean cosine between the shots")
    rce_epochs: int = Field(2, ge=0, description="epochs of reward-weighted cross-entropy (warm-up)")
    rce_lr_ratio: _Rate = Field(0.1, description="learning rate of RCE relative to SFT's")
    rce_temperature_start: _Rate = Field(2.0, description="temperature of the RCE weights at the first step")
    rce_temperature_end: _Rate = Field(0.5, description="temperature of the RCE weights at the last step")
    grpo_epochs: int = Field(3, ge=0, description="epochs of GRPO")
    grpo_lr: _Rate = Field(1e-4, description="learning rate of GRPO")
    clip_epsilon: float = Field(0.2, gt=0, lt=1, description="the ratio is clipped to 1 ± this")
    early_epochs: int = Field(1, ge=0, description="first GRPO epochs, on the best candidates of each query only")
    early_top_k: Positive = Field(3, description="candidates per query in those epochs")
    kl_beta: Weight = Field(0.1, description="weight of the KL to the policy at the start of GRPO")
    kl_target_min: Weight = Field(0.01, description="KL below which kl_beta is lowered and the temperature raised")
    kl_target_max: _Rate = Field(0.1, description="KL above which kl_beta is raised and the temperature lowered")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.rce_epochs + self.grpo_epochs == 0:
            raise ValueError("rce_epochs and grpo_epochs are both 0")
        if not self.kl_target_min < self.kl_target_max:
            raise ValueError(f"kl_target_min ({self.kl_target_min}) must be below kl_target_max ({self.kl_target_max})")
        return self


class PredictSettings(EmbeddingSettings):
    """Choose shots for the queries of a file."""

    read_beside: ClassVar[Mapping[str, Sequence[str]]] = {
        "output": ("checkpoint", "test_data", "embeddings", "img_emb", "text_emb")
    }

    checkpoint: Path = Field(description="checkpoint of a selector")
    model_version: ModelVersion | None = Field(
        None, description="refuse a checkpoint of the other version: v2 is of `sft`, v3 of `train`"
    )
    test_data: Path = Field(description="beam file or reward file; its queries and pools are used")
    shots: Positive | None = Field(None, description="length of a sequence (default: as the selector was trained)")
    beam_size: Positive = Field(5, description="width of the beam search; 1 is greedy")
    pool: Positive = Field(64, description="size of a pool that the file does not name")
    output: Path = Field(OUTPUTS / "chosen.json", description="file for the chosen shots, in the form of a beam file")


STEPS: Mapping[str, type[StepSettings]] = {
    "embed": EmbedSettings,
    "beams": BeamsSettings,
    "rewards": RewardsSettings,
    "sft": SftSettings,
    "train": TrainSettings,
    "predict": PredictSettings,
    "infer": InferSettings,
}
