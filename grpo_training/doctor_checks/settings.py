"""Settings of ``python -m grpo_training.doctor``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from grpo_training.cli.settings import WORKING_DIR, Settings


class DoctorSettings(Settings):
    """Settings of ``python -m grpo_training.doctor``."""

    endpoints: bool = Field(False, description="send one short request to each configured role (costs a few tokens)")
    teacher: bool = Field(False, description="ask the teacher one small problem and score its reply")
    model: Path | None = Field(None, description="folder of a model: serve it and ask it the same problem")
    prompts: str = Field("full", description="prompt style of --teacher and --model")
    max_tokens: int = Field(2048, gt=0, description="maximum tokens of a reply to --teacher or --model")
    api_config: Path = Field(WORKING_DIR / "data/api_keys/api_config.json", description="endpoints and keys")
    data_dir: Path = Field(WORKING_DIR / "data", description="training data, traces and libraries")
    cache_dir: Path = Field(WORKING_DIR / "grpo_training/cache", description="where rollouts and replies are stored")
