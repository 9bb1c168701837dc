"""The settings of the demos and of the ablation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from grpo_training.cli.settings import POCKET_DATASET, POCKET_MODEL, ROOT, WORKING_DIR, Positive, Settings

DATASET, TEST_SET = POCKET_DATASET, f"{POCKET_DATASET}:test"
STYLE = "compact"
"""The prompt style that the pocket model was trained on."""
TEMPERATURE = 1.0
"""Of every role: transformers' continuous batching samples all requests with the same parameters."""

_CACHE, _CONFIGS = WORKING_DIR / "grpo_training/cache", ROOT / "grpo_training/configs"


class DemoSettings(Settings):
    """Settings of ``python -m grpo_training.demo``."""

    problems: Positive = Field(80, description="number of training problems")
    test_problems: Annotated[int, Field(ge=2)] = Field(100, description="number of held-out test problems")
    samples: Positive = Field(2, description="samples per test problem and arm")
    rollouts: Positive = Field(4, description="rollouts per training problem")
    window: Positive = Field(8, description="problem k sees the experiences of problems up to k - window")
    max_tokens: Positive = Field(256, description="maximum tokens per completion")
    seed: int = Field(0, description="sampling seed, for servers that support it")
    model: Path = Field(POCKET_MODEL, description="folder of the model to serve")
    output: Path = Field(_CACHE / "demo", description="folder for all output")
    fresh: bool = Field(False, description="rename the existing output and start over")


class TrainDemoSettings(Settings):
    """Settings of ``python -m grpo_training.train_demo``."""

    problems: Positive = Field(120, description="number of problems to collect rollouts on")
    rollouts: Positive = Field(4, description="rollouts per problem and generator")
    test_problems: Annotated[int, Field(ge=2)] = Field(120, description="number of held-out test problems")
    samples: Positive = Field(4, description="samples per test problem and arm")
    max_tokens: Positive = Field(256, description="maximum tokens per completion")
    seed: int = Field(0, ge=0, description="seed of the sampling and of the training")
    model: Path = Field(POCKET_MODEL, description="folder of the model to train")
    offline_config: Path = Field(_CONFIGS / "pocket.yaml", description="configuration of the offline training")
    online_config: Path = Field(_CONFIGS / "pocket_online.yaml", description="configuration of the online training")
    output: Path = Field(_CACHE / "train_demo", description="folder for all output")


class AblationSettings(Settings):
    """Settings of ``python -m grpo_training.ablation``."""

    cache: Path = Field(_CACHE / "train_demo", description="output folder of train_demo, with its rollouts")
    base_config: Path = Field(_CONFIGS / "pocket.yaml", description="training configuration that all variants share")
    model: Path = Field(POCKET_MODEL, description="folder of the model to train")
    variants: Literal["parts", "far"] = Field(
        "parts", description="parts: each part of the fine-tune alone; far: KL terms at ten times the learning rate"
    )
    seeds: Annotated[int, Field(ge=2)] = Field(3, description="trainings per variant")
    problems: Positive = Field(40, description="number of problems whose rollouts are used")
    test_problems: Annotated[int, Field(ge=2)] = Field(240, description="number of held-out test problems")
    output: Path = Field(_CACHE / "ablation", description="folder for all output")
