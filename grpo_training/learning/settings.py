"""Settings of the generators and the critic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from grpo_training.cli.settings import POCKET_MODEL, WORKING_DIR, Positive, Weight
from grpo_training.runs.settings import ResumableSettings

MAX_EPOCHS = 1000

GENERATOR_FINGERPRINT_FIELDS = (
    *("dataset", "rollouts", "temperature", "top_p", "max_tokens", "epochs", "logprobs", "seed", "window", "tau"),
    *("capacity", "prompts", "weight_judge", "weight_ans", "weight_logic", "weight_graph"),
)
CRITIC_FINGERPRINT_FIELDS = (
    *("generators", "temperature", "max_tokens", "seed", "window", "tau", "capacity", "prompts", "weight_judge"),
    *("weight_ans", "weight_logic", "weight_graph", "weight_fusion"),
)


class RunSettings(ResumableSettings):
    """What the generators and the critic share."""

    seed: int = Field(0, description="seed of the sampling and of the order of problems from the 2nd epoch on")
    window: Positive = Field(
        8, description="problems in flight: problem k is asked with the lessons of problems up to k-W"
    )
    tau: float = Field(0.05, ge=0, description="a group teaches when the std of its rewards exceeds this")
    max_tokens: Positive | None = Field(None, description="completion tokens a reply may have")
    prompts: str = Field("full", description="prompt style: full, or a folder of prompts/ such as compact")
    capacity: Positive = Field(64, description="experiences that a library holds")
    budget_usd: float | None = Field(None, ge=0, description="stop before this run costs more (needs prices)")
    budget_tokens: Positive | None = Field(None, description="stop before this run uses more tokens")
    attempts: Positive = Field(8, description="attempts per request before its group is left open")
    retry_minutes: float = Field(15.0, gt=0, description="minutes that the attempts of a request may take")
    weight_ans: Weight = Field(0.5, description="weight of r_ans in r_total")
    weight_logic: Weight = Field(0.25, description="weight of r_logic")
    weight_graph: Weight = Field(0.25, description="weight of r_graph")
    weight_judge: float = Field(0.3, ge=0, le=1, description="share of a configured judge in r_logic")
    endpoint: Literal["config", "local"] = Field(
        "config", description="local: all roles on a model of this machine, served for the length of the run"
    )
    model: Path = Field(POCKET_MODEL, description="the model of --endpoint local")
    api_config: Path = Field(WORKING_DIR / "data/api_keys/api_config.json", description="endpoints and keys")
    cache_dir: Path = Field(WORKING_DIR / "grpo_training/cache", description="where rollouts and replies are kept")
    experiences_dir: Path = Field(WORKING_DIR / "data/grpo_experiences", description="where the libraries are kept")

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        if not self.weight_ans + self.weight_logic + self.weight_graph > 0:
            raise ValueError("the weights of r_ans, r_logic and r_graph are all 0")
        return self


class GeneratorSettings(RunSettings):
    """Settings of ``python -m grpo_training.generatorN``."""

    @classmethod
    def fingerprint_fields(cls) -> Sequence[str]:
        """The fields that change the rollouts or the library."""
        return GENERATOR_FINGERPRINT_FIELDS

    def fingerprint(self) -> dict[str, Any]:
        """With several epochs also how many problems there are: it changes the order of the steps."""
        return super().fingerprint() | ({"max_problems": self.max_problems} if self.epochs > 1 else {})

    dataset: str = Field("aime2024", description="aime2024, aime2025, physics, quickstart, mbpp, apps, or a JSONL file")
    max_problems: Positive | None = Field(None, description="how many problems to train on; all by default")
    rollouts: Positive = Field(3, description="rollouts per problem")
    temperature: float = Field(0.3, ge=0, le=2, description="LLM temperature for generation")
    top_p: float | None = Field(None, gt=0, le=1, description="nucleus sampling; the server's default if unset")
    epochs: Positive = Field(1, le=MAX_EPOCHS, description="passes over the problems")
    logprobs: bool = Field(
        False,
        description=(
            "keep each reply's sampled token ids and their log-probs, so that the fine-tune knows exactly how likely a "
            "reply was when it was sampled; needs a server that returns both, such as vLLM. Costs no tokens; the cache "
            "grows, and replies are not held to a JSON schema, which would change their log-probs"
        ),
    )


class CriticSettings(RunSettings):
    """Settings of ``python -m grpo_training.critic``."""

    @classmethod
    def fingerprint_fields(cls) -> Sequence[str]:
        """The fields that change the fusions or the library."""
        return CRITIC_FINGERPRINT_FIELDS

    temperature: float = Field(0.0, ge=0, le=2, description="LLM temperature (0.0 = deterministic)")
    generators: str = Field("1,2,3", description="whose rollouts to fuse, such as 1,2")
    follow: bool = Field(False, description="start while the generators still write")
    weight_ans: Weight = Field(0.25, description="weight of r_ans in r_total")
    weight_fusion: Weight = Field(0.25, description="weight of r_fusion")
