"""Settings of ``python -m grpo_training.gate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from engine.records import Problem, Sampling
from grpo_training.cli.settings import DATASET_HELP, ColumnSettings, Positive
from grpo_training.gate.problems import FEW
from grpo_training.runs.settings import PROMPTS_HELP, BatchSettings, RoleSettings

ASK_ALL_HELP = "ask all problems of the test, also after the result is clear: more tokens, and a narrower interval"


class TwoArmSettings(ColumnSettings, RoleSettings, BatchSettings):
    """Base of the settings of a command that asks the same problems in two ways, until a test decides."""

    group: ClassVar[str] = "model and prompts"

    top_p: float | None
    samples: Positive | None
    ask_all: bool

    @property
    def sampling(self) -> Sampling:
        """How answers are sampled."""
        return Sampling(temperature=self.temperature, top_p=self.top_p, max_tokens=self.max_tokens, seed=self.seed)

    def samples_of(self, problems: Sequence[Problem]) -> int:
        """The number of answers of each of the problems, in each way."""
        return self.samples or (8 if len(problems) < FEW else 4)


class GateSettings(TwoArmSettings):
    """Answer problems with and without the experience library of a generator, and say whether it helps.

    The verdict is adopted, rejected, or not proven, with an interval. The gate stops as soon as that is clear, after
    25, 50, 75 or 100 % of the problems, unless --ask-all is given. A problem that experiences were learned from is
    asked without those. The verdict is written into the library's log; a rejected library is not used any more. Run
    the same command again to continue an interrupted gate: stored answers are reused.
    """

    group: ClassVar[str] = "problems and sampling"

    role: Literal["generator_1", "generator_2", "generator_3"] = Field(
        "generator_1", description="whose library is tested, with its endpoint"
    )
    dataset: str = Field(description=f"problems, best those that nothing was learned from: {DATASET_HELP}")
    max_problems: Positive | None = Field(None, description="number of problems, from the start (default: all)")
    samples: Positive | None = Field(
        None, description="answers of a problem, with and without the library (default: 4; below 100 problems 8)"
    )
    ask_all: bool = Field(False, description=ASK_ALL_HELP)
    temperature: float = Field(0.3, ge=0, le=2, description="LLM temperature (default: that of the run, else 0.3)")
    top_p: float | None = Field(
        None, gt=0, le=1, description="nucleus sampling (default: that of the run, else the server's)"
    )
    max_tokens: Positive | None = Field(
        None, description="maximum completion tokens of a reply (default: that of the run, else the server's)"
    )
    prompts: str = Field("full", description=f"{PROMPTS_HELP} (default: that of the run)")
