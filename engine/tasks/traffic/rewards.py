"""Rewards of a decision from a stored row: arithmetic only, no SUMO."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from engine.tasks.traffic.policies import max_pressure
from engine.tasks.traffic.reply import Tier, TrafficReply
from engine.tasks.traffic.rows import Outcome, TrafficRow
from engine.tasks.traffic.signals import Observation, PhaseMeasure

Metric = Literal["queue", "queue_seconds", "waiting_s"]


@dataclass(frozen=True)
class TrafficRewardSettings:
    """How a decision is paid.

    Args:
        strict: format reward of a reply in the exact form.
        partial: of a reply whose decision can be read.
        invalid: of a reply without a readable decision; it gets no traffic reward.
        format_weight: weight of the format reward.
        tsc_weight: weight of the traffic reward.
        reward_scale: queue change at which the traffic reward is tanh(1) = 0.76.
        use_relative_baseline: pay the difference to Max-Pressure's decision instead of the change itself.
        pressure_threshold: of Max-Pressure.
    """

    strict: float = 1.0
    partial: float = -0.5
    invalid: float = -1.0
    format_weight: float = 1.0
    tsc_weight: float = 1.0
    reward_scale: float = 10.0
    use_relative_baseline: bool = False
    pressure_threshold: float = 0.0

    def __post_init__(self) -> None:
        if not self.strict >= self.partial >= self.invalid:
            raise ValueError("format rewards must satisfy strict >= partial >= invalid")
        if self.reward_scale <= 0:
            raise ValueError("reward_scale must be above 0")


@dataclass(frozen=True)
class TrafficReward:
    """One reply's reward and its parts; ``tsc`` is 0 for an invalid reply."""

    format: float
    tsc: float
    total: float


def reward_of(reply: TrafficReply, row: TrafficRow, settings: TrafficRewardSettings) -> TrafficReward:
    """The reward of a reply to a row."""
    form = {Tier.STRICT: settings.strict, Tier.PARTIAL: settings.partial, Tier.INVALID: settings.invalid}[reply.tier]
    tsc = 0.0 if reply.extend is None else traffic_reward(reply.extend, row, settings)
    return TrafficReward(form, tsc, settings.format_weight * form + settings.tsc_weight * tsc)


def traffic_reward(extend: bool, row: TrafficRow, settings: TrafficRewardSettings) -> float:
    """``tanh(-delta / scale)`` of the queue change; relative: ``tanh((delta_baseline - delta) / scale)``."""
    delta = queue_change(extend, row)
    if not settings.use_relative_baseline:
        return math.tanh(-delta / settings.reward_scale)
    baseline = max_pressure(observation_of(row), settings.pressure_threshold)
    return math.tanh((queue_change(baseline, row) - delta) / settings.reward_scale)


def queue_change(extend: bool, row: TrafficRow) -> int:
    """Halting vehicles after the horizon minus those before."""
    return branch(extend, row).queue - row.queue


def branch(extend: bool, row: TrafficRow) -> Outcome:
    """The stored outcome of a decision; an extension that is not allowed switches."""
    return row.branches.extend if extend and row.can_extend else row.branches.switch


def better_branch(row: TrafficRow, metric: Metric = "queue") -> bool | None:
    """Whether extending was better (True) or switching (False); None where both were equal."""
    extend, switch = getattr(row.branches.extend, metric), getattr(row.branches.switch, metric)
    return None if extend == switch else bool(extend < switch)


def regret(extend: bool, row: TrafficRow, metric: Metric = "queue") -> float:
    """How much worse a decision was than the better stored branch, in units of the metric; never negative."""
    values = {each: float(getattr(branch(each, row), metric)) for each in (True, False)}
    return values[extend] - min(values.values())


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
