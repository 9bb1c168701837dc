"""Rows of ``grpo_dataset.json``: one decision of one light, and what both branches led to."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from engine.errors import InputError, MissingInputError
from engine.records import first_fault
from engine.tasks.traffic.signals import Observation

DATASET = "grpo_dataset.json"
_DAY_S = 24 * 3600
_MOST = 10**12
"""Limit of counts and seconds, so that shares of them are numbers."""
_FIRST_DAY = datetime(2025, 1, 1, tzinfo=UTC)


def _of_own_phases(values: Any) -> Any:
    return {name: value for name, value in values.items() if value is not None} if isinstance(values, dict) else values


ByPhase = Annotated[dict[str, float], BeforeValidator(_of_own_phases)]
"""Figures by phase. A table of several lights (a ``datasets.Dataset``) adds the phases of the others as None."""


class BranchResult(BaseModel):
    """What a decision led to at one junction, at the end of the horizon.

    Args:
        queue: halting vehicles on all incoming lanes.
        phase_queues: halting vehicles per lane, by green phase.
        waiting_s: waiting time of the vehicles on the incoming lanes, summed, in seconds.
        queue_seconds: halting vehicles summed over the seconds of the horizon.
        throughput: vehicles that left the incoming lanes over the stop line.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    queue: int = Field(ge=0, le=_MOST)
    phase_queues: ByPhase
    waiting_s: float = Field(ge=0)
    queue_seconds: int = Field(ge=0, le=_MOST)
    throughput: int = Field(ge=0, le=_MOST)


class Branches(BaseModel):
    """Both outcomes of a decision."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    extend: BranchResult
    switch: BranchResult


class TrafficRow(BaseModel):
    """A row. The keys up to ``expert_decision`` are those of earlier datasets of this kind.

    Args:
        prompt: the state as JSON text, without the instruction.
        state_file: SUMO's state, relative to the scenario's folder; empty where it was not kept.
        queue: halting vehicles on all incoming lanes when the decision was due.
        branches: the outcomes after ``horizon`` seconds.
        seed: of SUMO.
        network: names the content of the scenario's files.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    id: str
    scenario: str
    junction_id: str
    simulation_time: float
    current_phase_id: int
    current_phase_order_idx: int = Field(ge=0)
    current_green_elapsed: float
    min_green: float
    max_green: float
    extend_seconds: int = Field(gt=0, le=_MOST)
    can_extend: bool
    phase_order: list[int]
    phase_metrics: ByPhase
    prompt: str
    state_file: str = ""
    expert_decision: str | None = None

    task: str = "traffic"
    horizon: int = Field(gt=0, le=_MOST)
    seed: int
    network: str
    moving: ByPhase
    queue: int = Field(ge=0, le=_MOST)
    branches: Branches

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> TrafficRow:
        phases = {str(index) for index in self.phase_order}
        if len(phases) < 2:
            raise ValueError("phase_order has fewer than two phases, so there is nothing to decide")
        if self.current_phase_id not in self.phase_order:
            raise ValueError(f"current_phase_id {self.current_phase_id} is not in phase_order")
        if self.phase_order[self.current_phase_order_idx :][:1] != [self.current_phase_id]:
            raise ValueError("current_phase_order_idx is not the place of current_phase_id")
        for name, keys in (("phase_metrics", self.phase_metrics.keys()), ("moving", self.moving.keys())):
            if set(keys) != phases:
                raise ValueError(f"{name} has the phases {sorted(keys)}, phase_order has {sorted(phases)}")
        return self


def row_of(light: Observation, *, scenario: str, number: int, extend_seconds: int, **others: Any) -> TrafficRow:
    """Make a row. ``number`` counts the scenario's decisions; ``others`` are fields that are not seen of a light."""
    return TrafficRow(
        id=f"{scenario}_{light.junction}_{int(light.time)}_{number}",
        scenario=scenario,
        junction_id=light.junction,
        simulation_time=light.time,
        current_phase_id=light.phase,
        current_phase_order_idx=light.phase_order.index(light.phase),
        current_green_elapsed=float(light.elapsed),
        min_green=light.min_green,
        max_green=light.max_green,
        extend_seconds=extend_seconds,
        can_extend=light.can_extend,
        phase_order=light.phase_order,
        phase_metrics={str(index): phase.queue for index, phase in light.phases.items()},
        prompt=state_text(light, extend_seconds),
        moving={str(index): phase.moving for index, phase in light.phases.items()},
        **others,
    )


def state_text(light: Observation, extend_seconds: int) -> str:
    """The state of a light as the model sees it: the same for generation, training and closed-loop evaluation."""
    state = {
        "crossing_id": crossing_id(light.junction),
        "as_of": moment(light.time),
        "phase_order": light.phase_order,
        "state": {
            "current_phase_id": light.phase,
            "current_green_elapsed_s": light.elapsed,
            "min_green_s": light.min_green,
            "max_green_s": light.max_green,
            "extend_s": extend_seconds,
            "phase_metrics_by_id": {
                str(index): {"avg_queue_veh": phase.queue, "avg_moving_veh": phase.moving}
                for index, phase in light.phases.items()
            },
        },
    }
    return json.dumps(state)


def moment(time_s: float) -> str:
    """The time of day of a simulated time, as the model sees it."""
    return (_FIRST_DAY + timedelta(seconds=time_s % _DAY_S)).strftime("%Y-%m-%d %H:%M:%S")


def crossing_id(junction: str) -> int:
    """A number from 0 to 9999 for a light, the same in every process (``hash`` is not)."""
    return int.from_bytes(hashlib.sha256(junction.encode()).digest()[:4], "big") % 10_000


def dataset_files(path: Path) -> list[Path]:
    """A dataset file, or those of a directory's scenarios (``*/grpo_dataset.json``).

    Raises:
        MissingInputError: there is none.
    """
    if path.is_file():
        return [path]
    files = sorted(path.glob(f"*/{DATASET}")) or sorted(path.glob(DATASET))
    if not files:
        raise MissingInputError(
            f"No {DATASET} in {path}",
            fix="Generate one: python -m grpo_training.traffic generate --all",
        )
    return files


def read_rows(path: Path) -> list[TrafficRow]:
    """The rows of a dataset file.

    Raises:
        InputError: the file is no JSON array, a row does not fit its schema, or two have the same id; it names the row.
    """
    rows: dict[str, TrafficRow] = {}
    for number, value in enumerate(read_array(path), 1):
        try:
            row = TrafficRow.model_validate(value)
        except ValidationError as error:
            raise InputError(f"{path}, row {number}: {first_fault(error)}") from None
        if rows.setdefault(row.id, row) is not row:
            raise InputError(f"{path}, row {number}: the id {row.id!r} is there twice")
    return list(rows.values())


def read_array(path: Path) -> list[Any]:
    """The JSON array of a dataset file.

    Raises:
        InputError: it cannot be read, or is no array.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if not isinstance(values, list):
        raise InputError(f"{path}: expected a JSON array, got {type(values).__name__}")
    return values
