"""Options of the checks of games; flags of ``score_rollouts``."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from engine.tasks.phaser.problems import GameFacts
from engine.tasks.phaser.validation.verdict import ValidationRequest


class GameOptions(BaseModel):
    """What is checked, and for how long."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    skip_runtime: bool = Field(
        default=False, description="do not run the programs; what only a run shows is not measured"
    )
    skip_eslint: bool = Field(default=False, description="leave ESLint out")
    screenshots: Path | None = Field(
        default=None, description="folder for a picture of each program that ran, CODE_HASH.png"
    )
    frames: int = Field(default=60, ge=1, le=3600, description="frames of 1/60 s that a program runs")
    timeout_ms: int = Field(default=8000, ge=100, description="milliseconds of processor time per program")
    api_index: Path | None = Field(
        default=None,
        description="index of Phaser's API: phaser_api.jsonl; by default data/phaser/api_index/phaser_api.jsonl",
    )
    validator_cli: Path | None = Field(
        default=None,
        description="accepted for commands written for other validators",
        deprecated="the validator of this project is used",
    )

    def request(self, code: str, facts: GameFacts) -> ValidationRequest:
        """What is asked of the validator about a program."""
        return ValidationRequest(
            code=code,
            must_use=facts.must_use_apis,
            frames=self.frames,
            skip_runtime=self.skip_runtime,
            skip_eslint=self.skip_eslint,
            time_s=self.timeout_ms / 1000,
        )
