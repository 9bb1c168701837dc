"""Settings of the steps of ``python -m grpo_training.traffic``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from engine.tasks.traffic.scenarios import Split
from grpo_training.cli.settings import WORKING_DIR, Positive
from grpo_training.cli.steps import StepSettings
from grpo_training.runs.settings import BudgetSettings

DATASETS = WORKING_DIR / "data/traffic"
SCENARIOS = DATASETS / "scenarios"
_Seconds = Annotated[float, Field(ge=0)]


class Chosen(StepSettings):
    """Which scenarios a step works on."""

    scenario: str | None = Field(None, description="one scenario: a folder of --scenarios-dir")
    scenarios: str | None = Field(None, description="several scenarios, separated by commas")
    all: bool = Field(False, description="all scenarios of --scenarios-dir")
    split: Split | None = Field(None, description="of these, only own scenarios of one split: train, validation, test")
    scenarios_dir: Path = Field(SCENARIOS, description="folder of the scenarios, each a folder with one .sumocfg")

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        count = sum([self.scenario is not None, self.scenarios is not None, self.all])
        if count > 1 or (count == 0 and self.needs_scenarios()):
            raise ValueError("exactly one of --scenario, --scenarios and --all is needed")
        return self

    @property
    def names_scenarios(self) -> bool:
        """Whether any scenario is chosen."""
        return self.all or self.scenario is not None or self.scenarios is not None

    def needs_scenarios(self) -> bool:
        """Whether the step cannot do without a scenario."""
        return True


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
    letters: ClassVar[Mapping[str, str]] = {"scenario": "-s", "all": "-a", "parallel": "-p", "output_dir": "-o"}

    output_dir: Path = Field(DATASETS, description="where NAME/grpo_dataset.json is written")
    parallel: Positive = Field(1, description="scenarios that are simulated at the same time")
    extend_seconds: Positive = Field(5, description="seconds that one extension lasts")
    horizon: Positive = Field(60, description="seconds that both branches are simulated")
    warmup_steps: int = Field(300, ge=0, description="seconds before the first decision is stored")
    min_green_offset: _Seconds = Field(2.0, description="minimum greens are moved by up to so many seconds")
    max_green_offset: _Seconds = Field(5.0, description="maximum greens are moved by up to so many seconds")
    seed: int = Field(3407, description="of SUMO, the offsets and the exploration")
    explore: float = Field(0.3, ge=0, le=1, description="share of random decisions in the run that states come from")
    max_decisions: Positive | None = Field(None, description="decisions per scenario; all by default")
    keep_states: bool = Field(False, description="store SUMO's state of each row, for rewards that simulate")
    time_limit: float = Field(60.0, gt=0, description="seconds without a sign of life before a simulation is stopped")


class SimulateSettings(StepSettings):
    """Settings of ``traffic simulate``."""

    summary: ClassVar[str] = "simulate both decisions of rows of another program, from the state files that they name"

    dataset: Path = Field(description="a grpo_dataset.json, or the folder of several scenarios")
    scenarios_dir: Path = Field(SCENARIOS, description="folder of the scenarios, each a folder with one .sumocfg")
    output_dir: Path = Field(DATASETS, description="where NAME/grpo_dataset.json is written")
    horizon: Positive = Field(60, description="seconds that both branches are simulated")
    seed: int = Field(3407, description="of SUMO")
    time_limit: float = Field(60.0, gt=0, description="seconds without a sign of life before a simulation is stopped")


class ValidateSettings(StepSettings):
    """Settings of ``traffic validate``."""

    summary: ClassVar[str] = "check datasets row by row; silent on success, exit code 1 otherwise"

    dataset: Path = Field(DATASETS, description="a grpo_dataset.json, or the folder of several scenarios")
    horizon: Positive | None = Field(None, description="horizon that every row must have")
    verify_sumo: bool = Field(
        False, description="also simulate the branches of ten rows per scenario again (--keep-states data)"
    )
    scenarios_dir: Path = Field(SCENARIOS, description="folder of the scenarios, for --verify-sumo")


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


class DemoSettings(StepSettings):
    """Settings of ``traffic demo``."""

    summary: ClassVar[str] = "the whole in short: scenarios, decisions, a small model, SFT, GRPO, evaluation"

    scenarios: Annotated[int, Field(ge=8)] = Field(16, description="own scenarios; of each eight, two are for the test")
    max_decisions: Positive = Field(200, description="stored decisions per scenario")
    seeds: Positive = Field(2, description="demand seeds of the closed loop")
    seconds: Positive = Field(900, description="simulated seconds of a run in closed loop")
    parallel: Positive = Field(2, description="simulations at the same time")
    seed: int = Field(3407, ge=0, description="of scenarios, simulation, model and training")
    output: Path = Field(WORKING_DIR / "grpo_training/cache/traffic_demo", description="folder for all output")


class EvaluateSettings(Chosen, BudgetSettings):
    """Settings of ``traffic evaluate``."""

    summary: ClassVar[str] = "compare policies in closed loop in SUMO, and on stored decisions"
    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "policies": ("policy", "model", "api_key_env", "experiences", "prompts"),
        "closed loop": (
            *("scenario", "scenarios", "all", "scenarios_dir", "seeds", "seed", "seconds", "extend_seconds"),
            *("parallel", "time_limit"),
        ),
        "stored decisions": ("dataset", "num_samples"),
        "sampling": ("temperature", "max_tokens"),
        "files": ("output",),
        "server, endpoint and budget": ("engine", "api_config", *BudgetSettings.model_fields),
    }

    policy: str = Field(
        "max-pressure,fixed,extend,switch,random",
        description="policies, separated by commas: max-pressure, fixed, extend, switch, random, the folder of a model "
        "or adapter, the base URL of an endpoint, or role:NAME of the api config",
    )
    model: str | None = Field(None, description="name of the model at an endpoint that --policy gives by its URL")
    api_key_env: str | None = Field(None, description="environment variable with the key of that endpoint")
    experiences: Path | None = Field(None, description="library whose experiences are put into the prompts")
    prompts: str = Field("full", description="prompt style: full, compact, zh")
    seeds: Positive = Field(5, description="runs per scenario, each with another demand")
    seed: int = Field(1, description="the first of these demand seeds")
    seconds: int = Field(0, ge=0, description="simulated seconds at most; 0: to the scenario's end")
    extend_seconds: Positive = Field(5, description="seconds that one extension lasts")
    parallel: Positive = Field(8, description="simulations at the same time; a model is asked for all of them at once")
    time_limit: float = Field(120.0, gt=0, description="seconds without a sign of life before a simulation is stopped")
    dataset: Path | None = Field(
        None, description="also compare on the stored decisions of a grpo_dataset.json, or of a folder of several"
    )
    num_samples: Positive = Field(1, description="samples per stored decision; the closed loop uses one")
    temperature: float = Field(0.0, ge=0, le=2, description="sampling temperature; 0 is greedy")
    max_tokens: Positive = Field(256, description="maximum tokens per reply")
    output: Path = Field(
        DATASETS / "evaluation.json",
        description="file of the results; the curves, the finished simulations and the replies are kept next to it",
    )
    engine: Literal["auto", "transformers", "vllm"] = Field("auto", description="engine that serves a folder")
    api_config: Path = Field(
        WORKING_DIR / "data/api_keys/api_config.json", description="endpoints and keys of role:NAME"
    )

    @model_validator(mode="after")
    def _samples_differ(self) -> Self:
        if self.num_samples > 1 and self.temperature == 0:
            raise ValueError("--num-samples above 1 needs a --temperature above 0: greedy samples are all the same")
        return self

    def needs_scenarios(self) -> bool:
        """Stored decisions can be compared without SUMO."""
        return self.dataset is None


STEPS: Mapping[str, type[StepSettings]] = {
    "scenarios": ScenarioSettings,
    "generate": GenerateSettings,
    "simulate": SimulateSettings,
    "validate": ValidateSettings,
    "sft-data": SftSettings,
    "rollouts": RolloutsSettings,
    "small-model": SmallModelSettings,
    "evaluate": EvaluateSettings,
    "demo": DemoSettings,
}
