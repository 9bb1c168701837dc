"""The settings of the pocket model's two commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from grpo_training.cli.settings import POCKET_MODEL, WORKING_DIR, Positive, Settings


class PocketTrainSettings(Settings):
    """Make the pocket model: tokenizer, training from scratch, evaluation, model card."""

    output: Path = Field(WORKING_DIR / "data/models/pocket", description="folder for the trained model")
    run_dir: Path = Field(WORKING_DIR / "grpo_training/cache/pocket", description="folder for checkpoint and metrics")
    tokens: Positive = Field(8_000_000, description="number of training tokens")
    batch_tokens: Positive = Field(4096, description="tokens per batch")
    learning_rate: float = Field(2e-3, gt=0, description="peak learning rate (linear warm-up, cosine decay)")
    hidden: Positive = Field(256, description="hidden size")
    layers: Positive = Field(6, description="number of layers")
    seed: int = Field(0, description="seed of weights and corpus")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="device to train on")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto: bfloat16 if the device supports it natively"
    )
    threads: Annotated[int, Field(ge=0)] = Field(0, description="CPU threads; 0: torch's default")
    checkpoint_minutes: float = Field(3.0, gt=0, description="minutes between checkpoints")
    evaluate_minutes: float = Field(10.0, gt=0, description="minutes between evaluations on the validation split")
    fresh: bool = Field(False, description="ignore an existing checkpoint and tokenizer")


class PocketEvaluateSettings(Settings):
    """Sample from the pocket model and report the share of right replies by role and family."""

    model: Path = Field(POCKET_MODEL, description="folder of the model")
    split: Literal["train", "validation", "test"] = Field("test", description="split of wordings and numbers")
    per_family: Positive = Field(16, description="samples per family and setting")
    most_lessons: Positive = Field(6, description="maximum experiences in a prompt, including the fitting one")
    temperature: float = Field(1.0, ge=0, le=2, description="sampling temperature")
    seed: int = Field(0, description="seed of problems and samples")
    output: Path | None = Field(None, description="JSON file for the figures")
