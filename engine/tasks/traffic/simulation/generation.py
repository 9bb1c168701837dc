"""Datasets of decisions: one ``grpo_dataset.json`` per scenario, written whole or not at all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.storage.folders import replace_folder
from engine.tasks.traffic.rows import DATASET, TrafficRow, row_of
from engine.tasks.traffic.scenarios import SimulationOptions, find_config, network_digest
from engine.tasks.traffic.signals import Observation
from engine.tasks.traffic.simulation.process import SimulationFailedError, simulate

RECORD = "generation.json"
_BRANCH_FAILED = "a branch failed"
_FAILURES_ALLOWED = 10


@dataclass(frozen=True)
class GenerationSettings:
    """What shapes a dataset.

    Args:
        extend_seconds: length of one extension.
        horizon: seconds that both branches are simulated.
        warmup_steps: seconds before the first decision is stored.
        seed: of SUMO and of the exploration.
        explore: share of random decisions in the run that the states are taken from.
        max_decisions: stop after so many per scenario; None: run to the end.
        keep_states: store SUMO's state of each row.
    """

    extend_seconds: int = 5
    horizon: int = 60
    warmup_steps: int = 300
    seed: int = 3407
    explore: float = 0.3
    max_decisions: int | None = None
    keep_states: bool = False


@dataclass(frozen=True)
class StoredDecision:
    """A decision that is due, with the state before it.

    Args:
        number: counts the decisions of the scenario.
        seen: the light.
        queue: halting vehicles on all of its incoming lanes.
        state: SUMO's state file, with the controllers in the ``.json`` file beside it.
    """

    number: int
    seen: Observation
    queue: int
    state: Path


@dataclass(frozen=True)
class Generated:
    """What a scenario gave: its rows, and how many decisions were dropped for which reason."""

    scenario: str
    rows: int
    dropped: dict[str, int]
    was_there: bool = False


def generate_scenario(
    folder: Path,
    output: Path,
    settings: GenerationSettings,
    *,
    limit_s: float = 60.0,
    progress: Callable[[], object] = lambda: None,
) -> Generated:
    """Simulate a scenario and write ``output/<scenario>/grpo_dataset.json``.

    A dataset that is there with the same settings is left as it is. The files appear at the end in one rename, so a
    process that is killed leaves either none or all.

    Args:
        folder: the scenario, with one ``.sumocfg``.
        limit_s: longest silence of the simulation before it is stopped.
        progress: called after each row.

    Raises:
        InputError: a dataset with other settings is there.
        SimulationFailedError: SUMO failed, or no row came out.
    """
    config, name = find_config(folder), folder.resolve().name
    record = asdict(settings) | {"config": config.name, "network": network_digest(config)}
    target = output / name
    if (kept := _kept(target, record)) is not None:
        return kept
    done: list[Generated] = []

    def write(new_folder: Path) -> None:
        generated = _write_dataset(new_folder, name, config, settings, limit_s, progress)
        counts = {"rows": generated.rows, "dropped": generated.dropped}
        (new_folder / RECORD).write_text(json.dumps(record | counts, indent=2) + "\n", encoding="utf-8")
        done.append(generated)

    replace_folder(target, write, lambda: _kept(target, record))
    return done[0]


def _write_dataset(
    folder: Path, name: str, config: Path, settings: GenerationSettings, limit_s: float, progress: Callable[[], object]
) -> Generated:
    """Fill a new folder with the dataset of a scenario and the states of its rows."""
    options = SimulationOptions(str(config.resolve()), settings.seed, settings.extend_seconds)
    states = folder / "states"
    states.mkdir(parents=True)
    shared: dict[str, Any] = {"scenario": name, "network": network_digest(config), "seed": settings.seed}
    shared |= {"extend_seconds": settings.extend_seconds, "horizon": settings.horizon}
    rows: list[dict[str, Any]] = []
    failed = 0

    def store(decision: StoredDecision | None) -> None:
        if decision is None:
            return
        row = row_with_outcomes(decision)
        if row is not None:
            rows.append(row.model_dump(mode="json"))
            progress()
        if row is None or not settings.keep_states:
            for path in (decision.state, decision.state.with_suffix(".json")):
                path.unlink()

    def row_with_outcomes(decision: StoredDecision) -> TrafficRow | None:
        nonlocal failed
        junction = decision.seen.junction
        try:
            branches = {
                branch: simulate("branch", options, decision.state, junction, extend, settings.horizon, limit_s=limit_s)
                for branch, extend in (("extend", True), ("switch", False))
            }
        except SimulationFailedError as error:
            failed += 1
            if failed > max(_FAILURES_ALLOWED, len(rows)):  # the cause is no single decision
                raise SimulationFailedError(
                    f"{failed} branches of {name} failed, {len(rows)} decisions stored", why=f"{error.what} {error.why}"
                ) from error
            return None
        state_file = f"states/{decision.state.name}" if settings.keep_states else ""
        facts: dict[str, Any] = {"queue": decision.queue, "branches": branches, "state_file": state_file}
        return row_of(decision.seen, number=decision.number, **facts, **shared)

    dropped: Counter[str] = simulate("step_through", options, settings, states, limit_s=limit_s, answer=store)
    dropped += Counter({_BRANCH_FAILED: failed})
    if not rows:
        raise SimulationFailedError(
            f"No decision of {name} could be stored",
            why="; ".join(f"{reason}: {count}" for reason, count in dropped.items()) or "No decision was due.",
            fix="Use a longer simulation, a shorter --warmup-steps, or a busier scenario.",
        )
    if not settings.keep_states:
        states.rmdir()
    (folder / DATASET).write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return Generated(name, len(rows), dict(dropped))


def _kept(target: Path, record: dict[str, Any]) -> Generated | None:
    """A dataset that is there; None where there is none.

    Raises:
        InputError: it is of other settings or other scenario files.
    """
    if not target.exists():
        return None
    try:
        stored = json.loads((target / RECORD).read_text(encoding="utf-8"))
        kept = Generated(target.name, stored["rows"], stored["dropped"], was_there=True)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{target} exists and is no dataset of this command", why=str(error), fix="Choose another --output-dir."
        ) from None
    if differing := [key for key, value in record.items() if stored.get(key) != value]:
        raise InputError(
            f"{target} holds a dataset with other settings or of other scenario files",
            why="; ".join(f"{key}: {stored.get(key)} there" for key in differing),
            fix="Remove that folder, or choose another --output-dir.",
        )
    return kept
