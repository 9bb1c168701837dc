"""Settings of the steps of ``python -m grpo_training.phaser``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from grpo_training.cli.settings import WORKING_DIR, Positive, Settings

DATA = WORKING_DIR / "data/phaser"
_PROMPT_SEEDS = DATA / "prompt_seeds.jsonl"
_TRAIN = DATA / "prompts_train.jsonl"


class StepSettings(Settings):
    """Base of the steps' settings; ``summary`` is what ``--help`` says of the step."""

    summary: ClassVar[str] = ""


class PromptSeedSettings(StepSettings):
    """Settings of ``phaser prompt-seeds``."""

    summary: ClassVar[str] = "make prompts for games, with symbols to use and conditions on the run"

    count: Positive = Field(2000, description="number of prompts: 40 % easy, 40 % medium, 20 % hard")
    seed: int = Field(42, description="of the random choices")
    lang: Literal["en", "zh"] = Field("en", description="language of the prompts")
    out: Path = Field(_PROMPT_SEEDS, description="file of the prompts")
    report_json: Path | None = Field(None, description="numbers of prompts; by default NAME_report.json beside --out")
    coverage_csv: Path | None = Field(None, description="table of modules; by default NAME_coverage.csv beside --out")


class SetsSettings(StepSettings):
    """Settings of ``phaser build-sets``."""

    summary: ClassVar[str] = "choose prompts for training and evaluation from prompt seeds, without overlap"

    prompt_seeds: Path = Field(_PROMPT_SEEDS, description="file of prompt seeds")
    out_train: Path = Field(_TRAIN, description="file of the training prompts")
    out_eval: Path = Field(DATA / "prompts_eval.jsonl", description="file of the evaluation prompts")
    train_count: Positive = Field(1500, description="number of training prompts")
    eval_count: Positive = Field(300, description="number of evaluation prompts")
    ood_ratio: float = Field(0.2, description="share of evaluation prompts that combine modules; 0 to 0.8")
    seed: int = Field(42, description="of the random choices")
    allow_repeat: bool = Field(False, description="repeat training prompts if there are too few seeds")


class MockSettings(StepSettings):
    """Settings of ``phaser mock-rollouts``."""

    summary: ClassVar[str] = "make rollouts without a model: right programs, and programs with one fault each"

    prompts: Path = Field(_TRAIN, description="file of prompts")
    out: Path = Field(DATA / "rollouts/mock_step0001.jsonl", description="file of the rollouts")
    step: int = Field(1, ge=0, description="training step that the rows name")
    num_prompts: Positive = Field(8, description="number of prompts, chosen at random")
    group_size: Positive = Field(8, description="rollouts per prompt")
    seed: int = Field(2026, description="of the random choices")


STEPS: Mapping[str, type[StepSettings]] = {
    "prompt-seeds": PromptSeedSettings,
    "build-sets": SetsSettings,
    "mock-rollouts": MockSettings,
}
"""The steps of ``python -m grpo_training.phaser``."""

ALIASES: Mapping[str, str] = {"build_grpo_sets": "build-sets", "generate_mock_rollouts": "mock-rollouts"}
"""Other names of steps, as in commands of the seed format."""


def step_named(name: str) -> type[StepSettings] | None:
    """The step with a name; None if there is none."""
    return STEPS.get(ALIASES.get(name, name).replace("_", "-"))


def usage(prog: str) -> Sequence[str]:
    """The lines that ``--help`` prints."""
    head = f"usage: {prog} STEP [options]\n\nSteps (each has its own --help):"
    return [head, *(f"  {name:13} {settings.summary}" for name, settings in STEPS.items())]
