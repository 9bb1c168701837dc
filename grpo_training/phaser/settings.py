"""Settings of the steps of ``python -m grpo_training.phaser``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import ClassVar, Literal

from pydantic import Field

from grpo_training.cli.settings import WORKING_DIR, Positive
from grpo_training.cli.steps import StepSettings

DATA = WORKING_DIR / "data/phaser"
_PROMPT_SEEDS = DATA / "prompt_seeds.jsonl"
_TRAIN = DATA / "prompts_train.jsonl"


class IndexSettings(StepSettings):
    """Build the index of Phaser's API from the package: phaser_api.jsonl and meta.json."""

    out_dir: Path = Field(DATA / "api_index", description="folder of both files")


class PromptSeedSettings(StepSettings):
    """Make prompts for games, with symbols to use."""

    count: Positive = Field(2000, description="number of prompts: 40 % easy, 40 % medium, 20 % hard")
    seed: int = Field(42, description="of the random choices")
    lang: Literal["en", "zh"] = Field("en", description="language of the prompts")
    out: Path = Field(_PROMPT_SEEDS, description="file of the prompts")
    report_json: Path | None = Field(None, description="numbers of prompts; by default NAME_report.json beside --out")


class SetsSettings(StepSettings):
    """Choose prompts for training and evaluation from prompt seeds, without overlap."""

    prompt_seeds: Path = Field(_PROMPT_SEEDS, description="file of prompt seeds")
    out_train: Path = Field(_TRAIN, description="file of the training prompts")
    out_eval: Path = Field(DATA / "prompts_eval.jsonl", description="file of the evaluation prompts")
    train_count: Positive = Field(1500, description="number of training prompts")
    eval_count: Positive = Field(300, description="number of evaluation prompts")
    ood_ratio: float = Field(0.2, description="share of evaluation prompts that combine modules; 0 to 0.8")
    seed: int = Field(42, description="of the random choices")


class MockSettings(StepSettings):
    """Make rollouts without a model: right programs, and programs with one fault each."""

    prompts: Path = Field(_TRAIN, description="file of prompts")
    out: Path = Field(DATA / "rollouts/mock_step0001.jsonl", description="file of the rollouts")
    step: int = Field(1, ge=0, description="training step that the rows name")
    num_prompts: Positive = Field(8, description="number of prompts, chosen at random")
    group_size: Positive = Field(8, description="rollouts per prompt")
    seed: int = Field(2026, description="of the random choices")


class ValidateSettings(StepSettings):
    """Validate one program: validate game.js; exit code 1 if it fails a check."""

    positional: ClassVar[str] = "code"

    code: Path = Field(description="file with the JavaScript of a game")
    must_use: str = Field("", description="symbols that it must use, separated by commas")
    frames: int = Field(60, ge=1, le=3600, description="frames of 1/60 s that it runs")
    screenshot: Path | None = Field(None, description="PNG file for a picture of the game")
    skip_runtime: bool = Field(False, description="do not run it")
    skip_eslint: bool = Field(False, description="leave ESLint out")
    api_index: Path | None = Field(None, description="index of Phaser's API, if not the one that api-index writes")
    as_json: bool = Field(False, description="print the whole validation as JSON")


class ScoreStep(StepSettings):
    """Verify rollouts, and write rewards and advantages: python -m grpo_training.score_rollouts."""


SCORE = "score-rollouts"
STEPS: Mapping[str, type[StepSettings]] = {
    "api-index": IndexSettings,
    "prompt-seeds": PromptSeedSettings,
    "build-sets": SetsSettings,
    "mock-rollouts": MockSettings,
    "validate": ValidateSettings,
    SCORE: ScoreStep,
}
"""The steps of ``python -m grpo_training.phaser``."""


ALIASES: Mapping[str, str] = {"build-grpo-sets": "build-sets", "generate-mock-rollouts": "mock-rollouts"}
"""Other names of steps, as in commands of the seed format."""


def step_name(word: str) -> str:
    """The name of the step that a word means. A path of a script, ``stage2/scripts/build_grpo_sets.py``, is one too."""
    name = PurePath(word).name.removesuffix(".py").replace("_", "-")
    return ALIASES.get(name, name)
