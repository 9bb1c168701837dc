"""Rewards of a decision from the outcomes in its row: arithmetic only, no SUMO."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from engine.tasks.traffic.policies import max_pressure
from engine.tasks.traffic.rows import TrafficRow
from engine.tasks.traffic.signals import Observation, PhaseMeasure


class OutcomeSettings(BaseModel):
    """Where the outcomes of both decisions come from."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    tsc_reward_mode: Literal["stored", "live"] = Field(
        default="stored", description="outcomes of the decisions: stored in the rows, or simulated from the state files"
    )
    live_dataset: str = Field(
        default="data/traffic", description="live: grpo_dataset.json with its state files, or a folder of several"
    )
    live_scenarios_dir: str = Field(
        default="data/traffic/scenarios", description="live: the folder with the scenarios of the dataset"
    )
    live_workers: int = Field(default=2, gt=0, description="live: simulations at the same time")
    live_time_limit_s: float = Field(
        default=60.0, gt=0, description="live: seconds without a sign of life before a simulation is replaced"
    )
    live_max_failures: int = Field(default=10, ge=0, description="live: more failed simulations than that end the run")


class TrafficRewardSettings(OutcomeSettings):
    """How a decision is paid in training."""

    strict: float = Field(default=1.0, description="format reward of a reply in the exact form")
    partial: float = Field(default=-0.5, description="format reward of a reply whose decision can be read")
    invalid: float = Field(
        default=-1.0, description="format reward of a reply without a decision; it has no traffic reward"
    )
    format_weight: float = Field(default=1.0, ge=0, description="weight of the format reward")
    tsc_weight: float = Field(default=1.0, ge=0, description="weight of the traffic reward")
    reward_scale: float = Field(
        default=10.0, gt=0, description="queue change at which the traffic reward is tanh(1) = 0.76"
    )
    use_relative_baseline: bool = Field(
        default=False, description="pay the difference to Max-Pressure's decision instead of the change itself"
    )
    extend_seconds: int | None = Field(default=None, gt=0, description="rows with another extension are refused")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.strict >= self.partial >= self.invalid:
            raise ValueError("format rewards must satisfy strict >= partial >= invalid")
        if self.format_weight == 0 and self.tsc_weight == 0:
            raise ValueError("format_weight and tsc_weight are both 0")
        return self


def traffic_reward(extend: bool, row: TrafficRow, settings: TrafficRewardSettings) -> float:
    """``tanh(-change / scale)`` of the queue; relative: of the difference to the queue after Max-Pressure decided."""
    before = after(max_pressure(observation_of(row)), row) if settings.use_relative_baseline else row.queue
    return math.tanh((before - after(extend, row)) / settings.reward_scale)


def after(extend: bool, row: TrafficRow) -> float:
    """Halting vehicles after a decision, mean over the horizon; an extension that is not allowed is a switch.

    It is not the queue at the end of the horizon: at the end of 20 s both branches of a fifth of the decisions have the
    same queue, and of the mean less than 1 % tie (2x2 grids, 703 decisions).
    """
    outcome = row.branches.extend if extend and row.can_extend else row.branches.switch
    return outcome.queue_seconds / row.horizon


def better_branch(row: TrafficRow) -> bool | None:
    """Whether extending was better (True) or switching (False); None where both were equal."""
    extend, switch = after(True, row), after(False, row)
    return None if extend == switch else extend < switch


def regret(extend: bool, row: TrafficRow) -> float:
    """How many more vehicles halt after a decision than in the better branch; never negative."""
    return after(extend, row) - min(after(True, row), after(False, row))


def observation_of(row: TrafficRow) -> Observation:
    """The light as it was seen when the row was made."""
    return Observation(
        junction=row.junction_id,
        time=row.simulation_time,
        phase=row.current_phase_id,
        elapsed=int(row.current_green_elapsed),
        min_green=int(row.min_green),
        max_green=int(row.max_green),
        can_extend=row.can_extend,
        phases={
            index: PhaseMeasure(row.phase_metrics[str(index)], row.moving[str(index)]) for index in row.phase_order
        },
    )


@lru_cache(maxsize=4096)
def row_of_answer(answer: str) -> TrafficRow:
    """The row that ``Problem.answer`` holds."""
    return TrafficRow.model_validate({**json.loads(answer), "prompt": ""})
