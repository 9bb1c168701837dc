"""Rows with a state file and without outcomes get the outcomes of both decisions."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from engine.errors import InputError
from engine.storage.append_log import replace_file
from engine.tasks.traffic.rows import ByPhase
from engine.tasks.traffic.scenarios import find_config
from engine.tasks.traffic.simulation.generation import (
    DATASET,
    Generated,
    GenerationSettings,
    check_failures,
    finished,
    locked,
    record_of,
    simulation_options,
)
from engine.tasks.traffic.simulation.process import SimulationFailedError, SimulationProcess
from engine.tasks.traffic.validation import rows_of

NO_STATE = "no state file"


class RowWithoutOutcomes(BaseModel):
    """What is needed of a row that another program wrote.

    Args:
        state_file: SUMO's state, relative to the folder of the dataset or of the scenario.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    id: str
    scenario: str = Field(pattern=r"^[^/\\]*[^/\\.][^/\\]*$")
    junction_id: str
    simulation_time: float
    current_phase_id: int
    current_green_elapsed: float
    min_green: float
    max_green: float
    extend_seconds: int = Field(gt=0)
    phase_metrics: ByPhase
    state_file: str = ""
    expert_decision: str | None = None


def simulate_dataset(
    path: Path,
    scenarios_dir: Path,
    output: Path,
    *,
    horizon: int,
    seed: int,
    limit_s: float = 60.0,
    progress: Callable[[], object] = lambda: None,
) -> Generated:
    """Simulate both decisions of each row and write ``output/<scenario>/`` with dataset, states and record.

    Args:
        path: the ``grpo_dataset.json`` of one scenario.
        scenarios_dir: the folder with the folder of the scenario.
        horizon: seconds that both branches are simulated.
        seed: of SUMO.
        limit_s: longest silence of the simulation before it is stopped.
        progress: called after each row.

    Raises:
        InputError: a row is not of this kind, the rows are of several scenarios, or the dataset is there already.
        MissingInputError: there is no such scenario.
        SimulationFailedError: SUMO failed, or no row could be simulated.
    """
    rows = _rows(path)
    name = rows[0].scenario
    config, target = find_config(scenarios_dir / name), output / name
    if target.exists():
        raise InputError(f"{target} is there already", fix="Remove it, or choose another --output-dir.")
    settings = GenerationSettings(
        extend_seconds=rows[0].extend_seconds,
        horizon=horizon,
        warmup_steps=0,
        min_green_offset=0.0,
        max_green_offset=0.0,
        seed=seed,
        keep_states=True,
    )
    job = {
        "kind": "simulate",
        "scenario": name,
        "options": simulation_options(settings, config),
        "horizon": horizon,
        "branch_limit_s": limit_s / 2,
    }
    dropped = Counter[str]()
    found: list[dict[str, Any]] = []
    with locked(output / f".{name}.partial") as partial:
        states = partial / "states"
        states.mkdir()
        with SimulationProcess(job, limit_s) as process:
            for number, row in enumerate(rows, 1):
                state = _state(row, path.parent, config.parent)
                if state is None:
                    dropped[NO_STATE] += 1
                    continue
                message = process.answer({"row": row.model_dump(), "state": str(state.resolve()), "number": number})
                if "dropped" in message:
                    dropped[message["dropped"]] += 1
                    check_failures(name, len(found), dropped, message)
                    continue
                copy = states / f"state_{number}.xml"
                shutil.copyfile(state, copy)
                copy.with_suffix(".json").write_text(json.dumps(message["controllers"]), encoding="utf-8")
                kept: dict[str, Any] = {
                    "id": row.id,
                    "expert_decision": row.expert_decision,
                    "state_file": f"states/{copy.name}",
                }
                found.append(message["row"] | kept)
                progress()
        if not found:
            raise SimulationFailedError(
                f"No row of {path} could be simulated",
                why="; ".join(f"{reason}: {count}" for reason, count in dropped.items()),
                fix="The state files must be those that SUMO saved when the decisions of the rows were due.",
            )
        replace_file(partial / DATASET, json.dumps(found, indent=2, ensure_ascii=False).encode() + b"\n")
        return finished(partial, target, record_of(settings, config), len(found), dropped)


def _rows(path: Path) -> list[RowWithoutOutcomes]:
    rows = rows_of(path, RowWithoutOutcomes)
    if not rows:
        raise InputError(f"{path} has no rows")
    known: set[str] = set()
    for row in rows:
        if row.id in known:
            raise InputError(f"{path}: the id {row.id!r} is there twice", fix="Give every row an id of its own.")
        known.add(row.id)
    for what in ("scenario", "extend_seconds"):
        if len({getattr(row, what) for row in rows}) > 1:
            raise InputError(f"The rows of {path} differ in {what}", fix="Split the file: one file per scenario.")
    return rows


def _state(row: RowWithoutOutcomes, *folders: Path) -> Path | None:
    """The state file of a row; None if there is none. A path that leaves the folder is none."""
    for folder in folders:
        place = (folder / row.state_file).resolve()
        if row.state_file and place.is_relative_to(folder.resolve()) and place.is_file():
            return place
    return None
