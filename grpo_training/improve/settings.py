"""Settings of ``python -m grpo_training.improve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from grpo_training.cli.settings import (
    DATASET_HELP,
    WORKING_DIR,
    Common,
    Positive,
)
from grpo_training.gate.settings import ASK_ALL_HELP, TwoArmSettings
from grpo_training.runs.settings import PLACES, PROMPTS_HELP, DryRunSettings
from grpo_training.runs.trackers import REPORT_TO_HELP, Tracker


class ImproveSettings(DryRunSettings, TwoArmSettings):
    """Learn experiences from problems with right answers, and test whether they help.

    They are tested on problems that they do not come from, and the result is one sentence. What can be used afterwards
    is written to runs/NAME/improved: a prompt, the experiences, a report, and an example in Python. Run the same
    command again to continue an interrupted run; nothing is paid for twice.
    """

    group: ClassVar[str] = "problems, learning and test"

    dataset: Common[str] = Field(description=f"problems with right answers: {DATASET_HELP}")
    test: Common[str | None] = Field(
        None,
        description="problems of the test, in place of a part of the dataset (default: from 250 problems on a third "
        "is held out; below, each problem is tested without what was learned from it)",
    )
    max_problems: Common[Positive | None] = Field(None, description="number of problems, from the start (default: all)")
    draw: Positive = Field(400, description="learn from at most so many of the problems, drawn by their ids")
    generators: Annotated[int, Field(ge=1, le=3)] = Field(1, description="generators, each with a library of its own")
    critic: bool = Field(False, description="also fuse the answers of the generators")
    rollouts: Common[Positive] = Field(
        4, ge=2, description="answers of a problem in each pass, half of them with each prompt"
    )
    learn: Literal["trial", "add"] = Field(
        "trial", description="trial: what is learned is measured by lot while learning; add: it is used at once"
    )
    k: int = Field(8, ge=0, description="lessons in a prompt, those most similar to the problem; 0: cases only")
    cases: int = Field(4, ge=0, description="solved problems in a prompt; 0: lessons only")
    learn_instruction: bool = Field(
        False, description="the analyst writes instructions for all problems too, on trial as lessons are"
    )
    epochs: Positive | None = Field(
        None,
        description="passes over the problems of learning (default: 1 above 1,000, 2 from 100 on, else 3 or more; "
        "fewer when enough was learned)",
    )
    samples: Positive | None = Field(
        None,
        description="answers of a problem of the test, with and without the library (default: 4; in a test of fewer "
        "than 100 problems 8)",
    )
    ask_all: bool = Field(False, description=ASK_ALL_HELP)
    temperature: float = Field(0.7, ge=0, le=2, description="LLM temperature, in learning and in the test")
    top_p: float | None = Field(None, gt=0, le=1, description="nucleus sampling (default: the server's)")
    max_tokens: Positive | None = Field(4096, description="maximum completion tokens of a reply")
    prompts: Common[str] = Field("full", description=f"{PROMPTS_HELP} (default: full; with --endpoint local compact)")
    fresh: bool = Field(False, description="rename the results of the run and start over; stored replies stay")
    cache_dir: Path = WORKING_DIR / "grpo_training/cache"  # refused with a message, and not in the help
    experiences_dir: Path = WORKING_DIR / "data/grpo_experiences"
    report_to: tuple[Tracker, ...] = Field((), description=REPORT_TO_HELP)
    fail_without_gain: bool = Field(False, description="exit with code 3 unless the library was shown to help")

    @model_validator(mode="after")
    def _one_folder(self) -> Self:
        given = [name for name in PLACES if name in self.model_fields_set]
        if given:
            raise ValueError(f"--{given[0].replace('_', '-')} has no use here: --run NAME is the folder of everything")
        return self

    @model_validator(mode="after")
    def _batches_of_a_provider(self) -> Self:
        if self.batch and self.critic:
            raise ValueError("--batch and --critic exclude each other: the critic fuses problem by problem")
        if self.batch and self.endpoint == "local":
            raise ValueError("--batch has no use with --endpoint local: a model on this machine has no batch API")
        return self

    def for_its_model(self) -> Self:
        """As the base; another local model is asked with short prompts, if no others are given."""
        settings = super().for_its_model()
        is_asked_briefly = self.endpoint == "local" and not settings.asks_pocket_model
        if is_asked_briefly and "prompts" not in self.model_fields_set:
            return settings.model_copy(update={"prompts": "compact"})
        return settings
