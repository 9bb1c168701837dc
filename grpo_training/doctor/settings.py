"""Settings of ``python -m grpo_training.doctor``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from engine.api_manager import ApiManager
from grpo_training.cli.settings import WORKING_DIR
from grpo_training.runs.settings import EndpointSettings


class DoctorSettings(EndpointSettings):
    """Settings of ``python -m grpo_training.doctor``."""

    endpoints: bool = Field(False, description="send one short request to each configured role (costs a few tokens)")
    teacher: bool = Field(False, description="ask the teacher one small problem and score its reply")
    model: str | None = Field(
        None,
        description="name of the model at --base-url; without that, the folder of a model: serve it and ask it the "
        "problem of --teacher",
    )
    prompts: str = Field("full", description="prompt style of --teacher and --model")
    max_tokens: int = Field(2048, gt=0, description="maximum tokens of a reply to --teacher or --model")
    data_dir: Path = Field(WORKING_DIR / "data", description="training data, traces and libraries")
    cache_dir: Path = Field(WORKING_DIR / "grpo_training/cache", description="where rollouts and replies are stored")

    @property
    def model_folder(self) -> Path | None:
        """The folder of a model that is served and asked."""
        return None if self.model is None or self.base_url is not None else Path(self.model).expanduser()

    def load_endpoints(self) -> ApiManager:
        """The endpoints. ``--model`` changes those of the file in other commands; here it is a folder then."""
        settings = self if self.base_url is not None else self.model_copy(update={"model": None})
        return EndpointSettings.load_endpoints(settings)
