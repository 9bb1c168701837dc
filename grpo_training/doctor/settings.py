"""Settings of ``python -m grpo_training.doctor``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from grpo_training.cli.settings import WORKING_DIR
from grpo_training.runs.settings import EndpointSettings


class DoctorSettings(EndpointSettings):
    """Check everything that the other commands need.

    That is environment, configuration, prompts, every kind of task, training labels, data and disk space; by default
    without GPU, API key or network. The exit code is the number of failed checks, at most 125.
    """

    endpoints: bool = Field(False, description="send one short request to each configured role (costs a few tokens)")
    data_dir: Path = Field(WORKING_DIR / "data", description="folder of the experience libraries")
    cache_dir: Path = Field(WORKING_DIR / "grpo_training/cache", description="where rollouts and replies are stored")
