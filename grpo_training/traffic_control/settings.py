"""Settings of the steps of ``python -m grpo_training.traffic``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from grpo_training.cli.settings import WORKING_DIR, Positive, Settings

DATASETS = WORKING_DIR / "data/traffic"
SCENARIOS = DATASETS / "scenarios"
_Seconds = Annotated[float, Field(ge=0)]


class StepSettings(Settings):
    """Base of the steps' settings; ``summary`` is what ``--help`` says of the step."""

    summary: ClassVar[str] = ""


class Chosen(StepSettings):
    """Which scenarios a step works on."""

    scenario: str | None = Field(None, description="one scenario: a folder of --scenarios-dir")
    scenarios: str | None = Field(None, description="several scenarios, separated by commas")
    all: bool = Field(False, description="all scenarios of --scenarios-dir")
    scenarios_dir: Path = Field(SCENARIOS, description="folder of the scenarios, each a folder with one .sumocfg")

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        if sum([self.scenario is not None, self.scenarios is not None, self.all]) != 1:
            raise ValueError("exactly one of --scenario, --scenarios and --all is needed")
        return self


class ScenarioSettings(StepSettings):
    """Settings of ``traffic scenarios``."""

    summary: ClassVar[str] = "make networks and demand with SUMO's tools"

    kind: Literal["grid2x2", "arterial1x4", "single"] = Field("grid2x2", description="shape of the network")
    count: Positive = Field(8, description="how many; of each eight, five train, one validation, two test")
    seed: int = Field(3407, description="of the networks and the demand")
    scenarios_dir: Path = Field(SCENARIOS, description="where the scenarios are written")


class GenerateSettings(Chosen):
    """Settings of ``traffic generate``."""

    summary: ClassVar[str] = "simulate both decisions at every decision point and store what they led to"

    output_dir: Path = Field(DATASETS, description="where NAME/grpo_dataset.json is written")
    parallel: Positive = Field(1, description="scenarios that are simulated at the same time")
    extend_seconds: Positive = Field(5, description="seconds that one extension lasts")
    horizon: Positive = Field(20, description="seconds that both branches are simulated")
    warmup_steps: int = Field(300, ge=0, description="seconds before the first decision is stored")
    min_green_offset: _Seconds = Field(2.0, description="minimum greens are moved by up to so many seconds")
    max_green_offset: _Seconds = Field(5.0, description="maximum greens are moved by up to so many seconds")
    seed: int = Field(3407, description="of SUMO, the offsets and the exploration")
    explore: float = Field(0.3, ge=0, le=1, description="share of random decisions in the run that states come from")
    max_decisions: Positive | None = Field(None, description="decisions per scenario; all by default")
    keep_states: bool = Field(False, description="store SUMO's state of each row, for rewards that simulate")
    time_limit: float = Field(60.0, gt=0, description="seconds without a sign of life before a simulation is stopped")


class ValidateSettings(StepSettings):
    """Settings of ``traffic validate``."""

    summary: ClassVar[str] = "check datasets row by row; silent on success, exit code 1 otherwise"

    dataset: Path = Field(DATASETS, description="a grpo_dataset.json, or the folder of several scenarios")
    horizon: Positive | None = Field(None, description="horizon that every row must have")
    verify_sumo: bool = Field(False, description="also check that SUMO is installed")


class SftSettings(StepSettings):
    """Settings of ``traffic sft-data``."""

    summary: ClassVar[str] = "write examples of the answer's form, with random decisions"

    dataset: Path = Field(DATASETS, description="a grpo_dataset.json, or the folder of several scenarios")
    output_dir: Path = Field(DATASETS, description="where sft_dataset.json and sft_dataset.jsonl are written")
    sample_size: Positive = Field(100, description="examples")
    seed: int = Field(42, description="of the draw and the decisions")
    prompts: str = Field("full", description="prompt style: full, compact, zh")


class RolloutsSettings(StepSettings):
    """Settings of ``traffic rollouts``."""

    summary: ClassVar[str] = "write both decisions of every row as scored rollouts, for offline training"

    dataset: Path = Field(DATASETS, description="a grpo_dataset.json, or the folder of several scenarios")
    output_dir: Path = Field(DATASETS / "rollouts", description="where enumerated_rollouts.jsonl is written")
    prompts: str = Field("full", description="prompt style that will be trained: full, compact, zh")


class SmallModelSettings(StepSettings):
    """Settings of ``traffic small-model``."""

    summary: ClassVar[str] = "make a small model with random weights and a tokenizer for the prompts of a dataset"

    dataset: Path = Field(DATASETS, description="a grpo_dataset.json, or the folder of several scenarios")
    output_dir: Path = Field(WORKING_DIR / "outputs/traffic_small/start", description="folder for the model")
    prompts: str = Field("compact", description="prompt style that the tokenizer is made for")
    hidden: Annotated[int, Field(ge=32, multiple_of=32)] = Field(64, description="width")
    layers: Positive = Field(3, description="number of layers")
    seed: int = Field(3407, description="of the weights")


class EvaluateSettings(Chosen):
    """Settings of ``traffic evaluate``."""

    summary: ClassVar[str] = "run policies in closed loop and compare waiting time, queue, throughput"

    policy: str = Field(
        "max-pressure,fixed,extend,switch,random",
        description="policies, separated by commas: max-pressure, fixed, extend, switch, random",
    )
    seeds: Positive = Field(5, description="runs per scenario, each with another seed of SUMO")
    seed: int = Field(1, description="the first of these seeds")
    seconds: int = Field(0, ge=0, description="simulated seconds at most; 0: to the scenario's end")
    parallel: Positive = Field(1, description="runs at the same time")
    api_config: Path = Field(
        WORKING_DIR / "data/api_keys/api_config.json", description="endpoints and keys of role:NAME"
    )
    output: Path = Field(DATASETS / "evaluation.json", description="figures of every run")
    time_limit: float = Field(120.0, gt=0, description="seconds without a sign of life before a simulation is stopped")


STEPS: Mapping[str, type[StepSettings]] = {
    "scenarios": ScenarioSettings,
    "generate": GenerateSettings,
    "validate": ValidateSettings,
    "sft-data": SftSettings,
    "rollouts": RolloutsSettings,
    "small-model": SmallModelSettings,
    "evaluate": EvaluateSettings,
}
