"""Options of the checks and rewards of games; flags of ``score_rollouts``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from engine.tasks.phaser.hints import needs_reaction
from engine.tasks.phaser.problems import GameFacts
from engine.tasks.phaser.validation.verdict import ValidationLimits, ValidationRequest


class GameOptions(BaseModel):
    """What is checked, for how long, and by which formulas it is paid."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    skip_runtime: bool = Field(
        default=False, description="do not run the programs; what only a run shows is not measured"
    )
    skip_eslint: bool = Field(default=False, description="leave ESLint out")
    runtime: Literal["headless", "chromium"] = Field(
        default="headless", description="where the programs run; chromium is slower, to audit the verdicts of headless"
    )
    screenshots: Path | None = Field(
        default=None, description="folder for a picture of each program that ran, CODE_HASH.png; needs chromium"
    )
    frames: int = Field(default=60, ge=1, le=3600, description="frames of 1/60 s that a program runs")
    timeout_ms: int = Field(default=8000, ge=100, description="milliseconds of processor time per program")
    reward_version: Literal["v0", "v1"] = Field(default="v1", description="formulas of the reward; v0 has known holes")
    copy_penalty: float = Field(
        default=0.02,
        ge=0,
        le=1,
        description="share of the reward that near copies in a group lose, at most; v0 has none",
    )
    api_index: Path | None = Field(
        default=None,
        description="index of Phaser's API: phaser_api.jsonl; by default data/phaser/api_index/phaser_api.jsonl",
    )
    validator_cli: Path | None = Field(
        default=None,
        description="accepted for commands written for other validators",
        deprecated="the validator of this project is used",
    )

    @model_validator(mode="after")
    def _can_take_pictures(self) -> Self:
        if self.screenshots is not None and self.runtime != "chromium":
            raise ValueError("screenshots need a browser; add --runtime chromium")
        return self

    def request(self, code: str, facts: GameFacts) -> ValidationRequest:
        """What is asked of the validator about a program. It runs twice only if a hint needs the comparison."""
        usual = ValidationLimits()
        total_s = self.timeout_ms / 1000
        return ValidationRequest(
            code=code,
            must_use=facts.must_use_apis,
            frames=self.frames,
            skip_runtime=self.skip_runtime,
            skip_eslint=self.skip_eslint,
            screenshot=self.screenshots is not None,
            check_reaction=any(needs_reaction(hint) for hint in facts.eval_hints),
            limits=ValidationLimits(time_s=min(usual.time_s, total_s), total_s=total_s),
        )
