"""Settings of the steps of ``python -m grpo_training.traffic``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from grpo_training.cli.settings import WORKING_DIR, Positive
from grpo_training.cli.steps import StepSettings
from grpo_training.runs.settings import BudgetSettings

DATASETS = WORKING_DIR / "data/traffic"
SCENARIOS = DATASETS / "scenarios"


class Chosen(StepSettings):
    """Which scenarios a step works on."""

    scenario: str | None = Field(None, description="scenarios, separated by commas: folders of --scenarios-dir")
    all: bool = Field(False, description="all scenarios of --scenarios-dir")
    scenarios_dir: Path = Field(SCENARIOS, description="folder of the scenarios, each a folder with one .sumocfg")

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        if (self.scenario is None) != self.all:
            raise ValueError("exactly one of --scenario and --all is needed")
        return self


class GenerateSettings(Chosen):
    """Simulate both decisions at every decision point and store what they led to."""

    aliases: ClassVar[Mapping[str, str]] = {"s": "scenario", "a": "all", "p": "parallel", "o": "output_dir"}

    output_dir: Path = Field(DATASETS, description="where NAME/grpo_dataset.json is written")
    parallel: Positive = Field(1, description="scenarios that are simulated at the same time")
    extend_seconds: Positive = Field(5, description="seconds that one extension lasts")
    horizon: Positive = Field(60, description="seconds that both branches are simulated")
    warmup_steps: int = Field(300, ge=0, description="seconds before the first decision is stored")
    seed: int = Field(3407, description="of SUMO and of the exploration")
    explore: float = Field(0.3, ge=0, le=1, description="share of random decisions in the run that states come from")
    max_decisions: Positive | None = Field(None, description="decisions per scenario; all by default")
    keep_states: bool = Field(False, description="store SUMO's state of each row, for rewards that simulate")
    time_limit: float = Field(60.0, gt=0, description="seconds without a sign of life before a simulation is stopped")


class EvaluateSettings(Chosen, BudgetSettings):
    """Compare policies in closed loop in SUMO."""

    group: ClassVar[str] = "policies, closed loop and sampling"

    policy: str = Field(
        "max-pressure,fixed",
        description="policies, separated by commas: max-pressure, fixed (the network's programme), the folder of a "
        "model or adapter, the base URL of an endpoint, or role:NAME of the api config",
    )
    model: str | None = Field(None, description="name of the model at an endpoint that --policy gives by its URL")
    api_key_env: str | None = Field(None, description="environment variable with the key of that endpoint")
    experiences: Path | None = Field(None, description="library whose experiences are put into the prompts")
    prompts: str = Field("full", description="prompt style: full, compact, zh")
    seeds: Positive = Field(5, description="runs per scenario, each with another seed of SUMO")
    seed: int = Field(1, description="the first of these seeds")
    seconds: int = Field(0, ge=0, description="simulated seconds at most; 0: to the scenario's end")
    extend_seconds: Positive = Field(5, description="seconds that one extension lasts")
    parallel: Positive = Field(8, description="simulations at the same time; a model is asked for all of them at once")
    time_limit: float = Field(120.0, gt=0, description="seconds without a sign of life before a simulation is stopped")
    temperature: float = Field(0.0, ge=0, le=2, description="sampling temperature; 0 is greedy")
    max_tokens: Positive = Field(256, description="maximum tokens per reply")
    output: Path = Field(
        DATASETS / "evaluation.json", description="file of the results; the replies are kept next to it"
    )
    engine: Literal["auto", "transformers", "vllm"] = Field("auto", description="engine that serves a folder")
    api_config: Path = Field(
        WORKING_DIR / "data/api_keys/api_config.json", description="endpoints and keys of role:NAME"
    )


STEPS: Mapping[str, type[StepSettings]] = {"generate": GenerateSettings, "evaluate": EvaluateSettings}
