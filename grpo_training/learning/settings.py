"""Settings of the generators and the critic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from grpo_training.cli.settings import (
    DATASET_HELP,
    DEFAULT_DATASET,
    ColumnSettings,
    Common,
    Positive,
    Weight,
)
from grpo_training.runs.settings import BatchSettings, ResumableSettings, RoleSettings, ScoringSettings

MAX_EPOCHS = 1000

_CHOICE = ("learn", "select", "k", "cases", "capacity")
"""Settings of generators and critic that decide which experiences there are, and which stand in a prompt."""


class ExtractionSettings(RoleSettings, ResumableSettings):
    """What the generators, the critic and the experience extractor share."""

    group: ClassVar[str] = "learning"

    window: Positive | None = Field(
        None,
        description="W, problems in flight: the prompt of problem k has the experiences of problems up to k-W "
        "(default: an eighth of the groups, at most 4 times the max_concurrency of the endpoint, or 8 if it has none; "
        "64 or more with --learn none)",
    )
    tau: float = Field(0.05, ge=0, description="extract experiences when the reward std of a group exceeds tau")
    capacity: Positive | None = Field(
        None, description="maximum experiences of a library (default: 256; with --learn add 64)"
    )
    verbose: bool = Field(False, description="show all rows of the final table")

    @property
    def library_capacity(self) -> int:
        """The maximum of experiences of the library."""
        return self.capacity or 256


class LearnerSettings(ExtractionSettings, ScoringSettings):
    """What the generators and the critic share."""

    group: ClassVar[str] = "learning"

    weight_ans: Weight = Field(0.5, description="weight of r_ans in r_total")
    weight_logic: Weight = Field(0.25, description="weight of r_logic in r_total")
    weight_graph: Weight = Field(0.25, description="weight of r_graph in r_total")
    weight_judge: float = Field(0.3, ge=0, le=1, description="share of the judge in r_logic, if one is configured")
    learn: Common[Literal["trial", "add", "none"]] = Field(
        "trial",
        description="trial: each matching experience stands in one of a group's two prompts, by lot, so that its "
        "effect is measured, and those that do not help are retired; add: all stand in all prompts, unmeasured; none: "
        "rollouts are collected, the analyst is not asked, and the library is used as it is",
    )
    select: Literal["all", "text"] | None = Field(
        None,
        description="experiences in a prompt: all (of more than 64 the most similar to the problem); or the k most "
        "similar to the problem, by the text of the problems that they were learned from (text) (default: text; with "
        "--learn add all)",
    )
    k: int = Field(8, ge=0, description="lessons that --select text chooses; 0: the analyst is not asked")
    cases: int = Field(
        4,
        ge=0,
        description="solved problems in a prompt: those most similar to the problem, with their answers; on trial as "
        "lessons are; only with --select text, and not in the critic's prompts",
    )

    @property
    def selected_by(self) -> Literal["all", "text"]:
        """How experiences are selected."""
        return self.select or ("all" if self.learn == "add" else "text")

    @property
    def cases_in_prompt(self) -> int:
        """The largest number of cases in a prompt."""
        return self.cases if self.selected_by == "text" else 0

    @property
    def makes_instructions(self) -> bool:
        """Whether the analyst is asked for instructions too."""
        return False

    @property
    def passes(self) -> int:
        """How often each problem is worked on."""
        return 1

    @property
    def library_capacity(self) -> int:
        """The maximum of experiences of the library."""
        return self.capacity or (64 if self.learn == "add" else 256)

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        if not self.weight_ans + self.weight_logic + self.weight_graph > 0:
            raise ValueError("the weights of r_ans, r_logic and r_graph are all 0")
        return self

    @property
    def reward_weights(self) -> dict[str, float]:
        """Reward component -> its weight in ``r_total``."""
        return {"r_ans": self.weight_ans, "r_logic": self.weight_logic, "r_graph": self.weight_graph}


class GeneratorSettings(ColumnSettings, LearnerSettings, BatchSettings):
    """Answer each problem several times, score the answers, and learn from groups whose rewards differ.

    All rollouts are kept in the cache for the critic and the fine-tune. Run the same command again to continue an
    interrupted run.
    """

    group: ClassVar[str] = "problems and sampling"
    fingerprinted: ClassVar[Sequence[str]] = (
        *(
            "dataset",
            "task",
            "fields",
            "columns",
            "compare",
            "gate",
            "hold_out",
            "rollouts",
            "temperature",
            "top_p",
        ),
        *("max_tokens", "epochs", "logprobs", "seed", "window", "tau", "prompts"),
        *("weight_judge", "weight_ans", "weight_logic", "weight_graph", *_CHOICE),
    )
    """The fields that change the rollouts or the library."""

    dataset: Common[str] = Field(DEFAULT_DATASET, description=DATASET_HELP)
    max_problems: Common[Positive | None] = Field(None, description="number of problems, from the start (default: all)")
    draw: Positive | None = Field(
        None, description="ask at most so many of the problems, drawn by their ids (default: all)"
    )
    rollouts: Common[Positive] = Field(3, description="rollouts per problem")
    temperature: float = Field(0.3, ge=0, le=2, description="LLM temperature for generation")
    top_p: float | None = Field(None, gt=0, le=1, description="nucleus sampling (default: the server's)")
    epochs: Positive = Field(1, le=MAX_EPOCHS, description="passes over the problems")
    logprobs: bool = Field(
        False,
        description=(
            "store sampled token ids and their log-probs, which give the fine-tune exact importance ratios; needs a "
            "server that returns both, such as vLLM. Costs no tokens. The cache grows, and replies are not "
            "constrained to a JSON schema, as that would change their log-probs"
        ),
    )

    learn_instruction: bool = Field(
        False,
        description="the analyst writes instructions for all problems too, from several wrong answers; they are on "
        "trial as lessons are (--learn trial)",
    )

    gate: Common[bool] = Field(
        False,
        description="after the run, test whether the library helps: below 250 problems on the same problems, each "
        "without the experiences learned from it; from 250 on, a third of them is kept for the test",
    )

    hold_out: bool = Field(
        False, description="from 250 problems on, keep a third for a later test: nothing is learned from them"
    )

    @model_validator(mode="after")
    def _gate_has_a_library(self) -> Self:
        if self.gate and self.learn == "none":
            raise ValueError("--gate tests what a run has learned, and with --learn none it learns nothing")
        return self

    def fingerprint(self) -> dict[str, Any]:
        """With several epochs also the number of problems, which sets their order; and that of the drawn ones."""
        added: dict[str, Any] = {"max_problems": self.max_problems} if self.epochs > 1 else {}
        added |= {name: value for name in ("draw", "learn_instruction") if (value := getattr(self, name))}
        added |= {} if self.json_schema is None else {"json_schema": str(self.json_schema)}
        return super().fingerprint() | added

    @property
    def makes_instructions(self) -> bool:
        """Whether the analyst is asked for instructions too."""
        return self.learn_instruction and self.learn == "trial"

    @property
    def passes(self) -> int:
        """How often each problem is worked on."""
        return self.epochs


class CriticSettings(LearnerSettings):
    """Fuse the candidates of each generator for a problem into one, score the fusions, and learn where they differ.

    Candidates are fused structurally where they agree, else by asking a model. Run it after the generators. Run the
    same command again to continue an interrupted run, and to fuse what the generators have added.
    """

    group: ClassVar[str] = "fusion and sampling"
    fingerprinted: ClassVar[Sequence[str]] = (
        *("generators", "temperature", "max_tokens", "seed", "window", "tau", "prompts"),
        *("weight_judge", "weight_ans", "weight_logic", "weight_graph", "weight_fusion", *_CHOICE),
    )
    """The fields that change the fusions or the library."""

    generators: Common[str] = Field("1,2,3", description="the generators whose rollouts are fused, such as 1,2")
    temperature: float = Field(0.0, ge=0, le=2, description="LLM temperature (0.0 = deterministic)")
    weight_ans: Weight = Field(0.25, description="weight of r_ans in r_total")
    weight_fusion: Weight = Field(0.25, description="weight of r_fusion in r_total")

    @property
    def cases_in_prompt(self) -> int:
        """None: the proposals are the critic's cases."""
        return 0

    @property
    def reward_weights(self) -> dict[str, float]:
        """Reward component -> its weight in ``r_total``."""
        return super().reward_weights | {"r_fusion": self.weight_fusion}


class ExtractorSettings(ExtractionSettings):
    """Show the stored groups of a generator or the critic to the analyst again, and add experiences to a library.

    That may be with another tau, another analyst, or a new --experiences-dir. No problem is answered again, so one
    process is enough: its requests overlap. Run the same command again to continue an interrupted run.
    """

    group: ClassVar[str] = "extraction"
    fingerprinted: ClassVar[Sequence[str]] = (
        *("role", "tau", "window", "capacity", "temperature", "max_tokens", "seed", "prompts", "cache_dir"),
    )
    """The fields that change the library."""

    role: Literal["generator_1", "generator_2", "generator_3", "critic"] = Field(
        "generator_1", description="whose stored groups are read and whose library is written"
    )
    temperature: float = Field(
        0.0, ge=0, le=2, description="LLM temperature of the analyst; with that of the run, its stored replies are used"
    )
