"""Settings of ``python -m grpo_training.compare``."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from engine.api_manager import GENERATORS, ApiManager
from grpo_training.cli.settings import DATASET_HELP, Common, Positive
from grpo_training.gate.settings import ASK_ALL_HELP, TwoArmSettings
from grpo_training.runs.settings import PROMPTS_HELP, DryRunSettings

ARMS = ("a", "b")
"""The roles of the two arms, whose endpoints are copies of others."""
_WHAT = ("prompt", "model", "role", "improved")
_IMPROVED = "what `improve` has learned: the name of its run, or its folder `improved`"


class CompareSettings(DryRunSettings, TwoArmSettings):
    """Answer the same problems in two ways, A and B, and say which is better.

    A and B are two prompts (--prompt-a, --prompt-b), two models (--model-a, --model-b), or what `improve` has learned
    against a prompt (--improved-b). With --margin 3 it says whether B is at most 3 points worse: whether a model can be
    replaced by another one. It stops as soon as that is clear, after 25, 50, 75 or 100 % of the problems. Run the same
    command again to continue: stored answers are reused.
    """

    group: ClassVar[str] = "what is compared"

    dataset: Common[str] = Field(description=f"problems with right answers: {DATASET_HELP}")
    prompt_a: Common[str | None] = Field(None, description=f"prompt of A: {PROMPTS_HELP} (default: --prompts)")
    prompt_b: Common[str | None] = Field(None, description="prompt of B (default: --prompts)")
    model_a: Common[str | None] = Field(None, description="model of A (default: --model, or that of the api config)")
    model_b: Common[str | None] = Field(None, description="model of B (default: as A)")
    role_a: str = Field(GENERATORS[0], description="entry of the api config with the endpoint, key and prices of A")
    role_b: str = Field(GENERATORS[0], description="entry of the api config for B")
    improved_a: Common[str | None] = Field(None, description=f"A asks with {_IMPROVED}")
    improved_b: Common[str | None] = Field(None, description="B asks with what `improve` has learned")
    margin: Common[float | None] = Field(
        None,
        gt=0,
        le=50,
        description="say whether B is worse than A by at most so many points, instead of which is better",
    )
    max_problems: Common[Positive | None] = Field(None, description="number of problems, from the start (default: all)")
    samples: Positive | None = Field(
        None, description="answers of a problem in each arm (default: 4; below 100 problems 8)"
    )
    ask_all: bool = Field(False, description=ASK_ALL_HELP)
    temperature: float = Field(0.7, ge=0, le=2, description="LLM temperature")
    top_p: float | None = Field(None, gt=0, le=1, description="nucleus sampling (default: the server's)")
    max_tokens: Positive | None = Field(4096, description="maximum completion tokens of a reply")
    fail_unless_proven: bool = Field(
        False, description="exit with code 3 unless B is better; with --margin, unless it is not worse by more"
    )

    @model_validator(mode="after")
    def _two_ways(self) -> Self:
        if self.endpoint == "local":
            raise ValueError('--endpoint local has no use here: "base_url": "local" of an entry serves a model folder')
        for arm in ARMS:
            if getattr(self, f"prompt_{arm}") and getattr(self, f"improved_{arm}"):
                raise ValueError(f"--prompt-{arm} and --improved-{arm} exclude each other")
        if all(getattr(self, f"{name}_a") == getattr(self, f"{name}_b") for name in _WHAT):
            raise ValueError("A and B are the same: pass --prompt-b, --model-b, --role-b or --improved-b")
        return self

    def load_endpoints(self) -> ApiManager:
        """The endpoints, with two more roles for the arms."""
        copies = {}
        for arm in ARMS:
            model = getattr(self, f"model_{arm}")
            copies[arm] = getattr(self, f"role_{arm}"), {} if model is None else {"model": model}
        return super().load_endpoints().with_copies(copies)
