"""Settings of the steps that ask an endpoint: ``beams``, ``rewards`` and ``infer``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from grpo_training.cli.settings import WORKING_DIR, Positive, refuse_overwriting
from grpo_training.cli.steps import StepSettings
from grpo_training.runs.settings import (
    ENDPOINT_FIELDS,
    BudgetSettings,
    ClientSettings,
    EndpointSettings,
    ResumableSettings,
)
from grpo_training.selector.step_settings import OUTPUTS, EmbeddingSettings, ModelVersion

_Rate = Annotated[float, Field(gt=0)]
_Spaced = BeforeValidator(lambda value: tuple(value.replace(",", " ").split()) if isinstance(value, str) else value)
"""A list as one text, with spaces or commas between its values."""
_IMAGES = ("images", "images_dir", "max_image_mb")
_ASKED = (
    *("role", "max_tokens", *ENDPOINT_FIELDS, "attempts", "retry_minutes", "connect_minutes"),
    *("budget_usd", "budget_tokens"),
)


class ImageSettings(StepSettings):
    """Which images stand in prompts."""

    images: str | None = Field(
        None, description="column of the rows with the path of an image: send the images with the questions"
    )
    images_dir: Path = Field(WORKING_DIR, description="folder that the paths of images are relative to")
    max_image_mb: _Rate = Field(5.0, description="largest image file that is sent")


class BeamsSettings(EndpointSettings, BudgetSettings, ResumableSettings, ImageSettings):
    """Settings of ``selector beams``."""

    summary: ClassVar[str] = "make a beam file: score shot sequences with an endpoint's log-probs (InfoScore)"
    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "queries and pools": ("dataset", "sample_num", "pool", "sampler", "img_emb", "embedding_model", "seed"),
        "search": ("shots", "beam_size", "score"),
        "images": _IMAGES,
        "files": ("output_dir", "resume", "fresh"),
        "endpoint and budget": (
            *("role", *ENDPOINT_FIELDS, "concurrency", "attempts"),
            *("budget_usd", "budget_tokens"),
        ),
    }

    dataset: str = Field(
        description="name of a dataset, or a JSONL file; the id of a problem is its row number, from 0"
    )
    sample_num: Positive = Field(800, description="queries, by chance")
    pool: Positive = Field(64, description="shots that can be chosen for a query")
    sampler: Literal["rand", "text", "image", "mix"] = Field(
        "rand", description="pools: by chance, the nearest by text or image, or half by chance and half the nearest"
    )
    img_emb: Path | None = Field(None, description="embeddings of the images of the dataset, for --sampler")
    embedding_model: str = Field(
        "hashing", description="embeds the texts, and the images if it can; see `selector embed`"
    )
    shots: Positive = Field(2, description="length of a sequence")
    beam_size: Positive = Field(5, description="sequences that are kept")
    score: Literal["all", "last"] = Field(
        "all", description="of a sequence: the gain of all shots over none, or the gain of the last shot alone"
    )
    seed: int = Field(42, ge=0, description="of the draws")
    role: str = Field("generator_1", description="role of --api-config whose endpoint scores answers")
    concurrency: Positive = Field(16, description="requests in flight")
    attempts: Positive = Field(8, description="maximum attempts per request")
    output_dir: Path = Field(OUTPUTS / "beams", description="where beams.json and embeddings.npy are written")

    @classmethod
    def fingerprint_fields(cls) -> Sequence[str]:
        """The fields that change the beams."""
        names = ("dataset", "pool", "sampler", "img_emb", "embedding_model", "shots", "beam_size", "score", "seed")
        return (*names, "images")


class RewardsSettings(ClientSettings, ImageSettings, EmbeddingSettings):
    """Settings of ``selector rewards``."""

    summary: ClassVar[str] = "make a reward file: ask an endpoint with candidate sequences, and score its answers"
    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "queries and pools": ("dataset", "beam_data", "checkpoint", "embeddings", "sample_num", "pool", "seed"),
        "candidates of a query": (
            *("shots", "beams", "samples", "temperatures", "retrieval", "random", "img_emb", "text_emb"),
        ),
        "images": _IMAGES,
        "files": ("output", "cache_dir"),
        "endpoint and budget": _ASKED,
    }

    dataset: str = Field(description="queries and shots: name of a dataset, or a file; an id is a row number, from 0")
    beam_data: Path | None = Field(None, description="beam file: its queries, pools and beams (default: by chance)")
    checkpoint: Path | None = Field(None, description="selector whose beams and samples are candidates")
    sample_num: Positive = Field(800, description="queries by chance, without --beam-data")
    pool: Positive = Field(64, description="size of a pool that no file names")
    seed: int = Field(42, ge=0, description="of the draws")
    shots: Positive | None = Field(None, description="length of a sequence (default: as in the checkpoint or the file)")
    beams: int = Field(5, ge=0, description="best sequences of the checkpoint, and of the file")
    samples: int = Field(2, ge=0, description="sequences drawn from the checkpoint at each temperature")
    temperatures: Annotated[tuple[_Rate, ...], _Spaced] = Field((1.0, 1.3), description="of those draws")
    retrieval: int = Field(5, ge=0, description="sequences of the nearest shots by the embeddings")
    random: int = Field(1, ge=0, description="sequences by chance")
    role: str = Field("generator_1", description="role of --api-config that is asked")
    max_tokens: Positive = Field(16, description="maximum tokens of an answer")
    output: Path = Field(OUTPUTS / "rewards.json", description="the reward file")

    @model_validator(mode="after")
    def _own_output(self) -> Self:
        refuse_overwriting(self, "output", ("dataset", "beam_data", "checkpoint", "embeddings", "img_emb", "text_emb"))
        return self


class InferSettings(ClientSettings, ImageSettings):
    """Settings of ``selector infer``."""

    summary: ClassVar[str] = "put the chosen shots into prompts, ask an endpoint, and score its answers"
    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "selection": (
            *("checkpoint", "dataset", "shots_dataset", "shot_nums", "pool", "sampler", "max_problems", "seed"),
            "embedding_model",
        ),
        "images": _IMAGES,
        "files": ("output", "cache_dir"),
        "endpoint and budget": _ASKED,
    }

    checkpoint: tuple[Path, ...] = Field(
        min_length=1, description="checkpoints of selectors; each is compared with the first, which makes the pools"
    )
    model_version: ModelVersion | None = Field(
        None, description="refuse a last checkpoint of the other version: v2 is of `sft`, v3 of `train`"
    )
    embedding_model: str | None = Field(
        None, description="what embeds the rows, for a checkpoint that does not tell; see `selector embed`"
    )
    dataset: str = Field(description="the queries: name of a dataset, or a JSONL file")
    shots_dataset: str = Field(description="the shots: name of a dataset, or a JSONL file")
    shot_nums: Annotated[tuple[Positive, ...], _Spaced] = Field(
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

    @model_validator(mode="after")
    def _own_output(self) -> Self:
        refuse_overwriting(self, "output", ("checkpoint", "dataset", "shots_dataset"))
        return self

    @field_validator("checkpoint", mode="before")
    @classmethod
    def _paths(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(value.split(","))
        return (value,) if isinstance(value, Path) else value
