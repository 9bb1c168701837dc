"""Datasets of decisions: one ``grpo_dataset.json`` per scenario, written whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import InputError, LockHeldError
from engine.storage.append_log import replace_file
from engine.tasks.traffic.scenarios import find_config, network_digest
from engine.tasks.traffic.simulation.forks import BRANCH_FAILED
from engine.tasks.traffic.simulation.process import SimulationFailedError, SimulationProcess

DATASET = "grpo_dataset.json"
RECORD = "generation.json"
SIMULATION_OPTIONS = ("extend_seconds", "min_green_offset", "max_green_offset")
"""The settings that the simulation of a branch has, too."""
_FAILURES_ALLOWED = 10
_CLEARING_ATTEMPTS = 50
_CLEARING_PAUSE_S = 0.1


@dataclass(frozen=True)
class GenerationSettings:
    """What shapes a dataset.

    Args:
        extend_seconds: length of one extension.
        horizon: seconds that both branches are simulated.
        warmup_steps: seconds before the first decision is stored.
        min_green_offset: limits move by up to so many seconds, drawn per light and phase.
        max_green_offset: the same for the longest green.
        seed: of SUMO, of the offsets and of the exploration.
        explore: share of random decisions in the run that the states are taken from.
        max_decisions: stop after so many per scenario; None: run to the end.
        keep_states: store SUMO's state of each row.
    """

    extend_seconds: int = 5
    horizon: int = 60
    warmup_steps: int = 300
    min_green_offset: float = 2.0
    max_green_offset: float = 5.0
    seed: int = 3407
    explore: float = 0.3
    max_decisions: int | None = None
    keep_states: bool = False


@dataclass(frozen=True)
class Generated:
    """What a scenario gave: its rows, and how many decisions were dropped for which reason.

    ``no_yellow`` names the lights whose programme has no yellow.
    """

    scenario: str
    rows: int
    dropped: dict[str, int]
    was_there: bool = False
    no_yellow: tuple[str, ...] = ()


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
        LockHeldError: another process generates it.
        SimulationFailedError: SUMO failed, or no row came out.
    """
    config, name = find_config(folder), folder.resolve().name
    target = output / name
    record = record_of(settings, config)
    if (kept := _kept(target, record)) is not None:
        return kept
    with locked(output / f".{name}.partial") as partial:
        if (kept := _kept(target, record)) is not None:  # finished by another process in the meantime
            return kept
        states = partial / "states"
        if settings.keep_states:
            states.mkdir()
        job = _job(config, name, settings, states, limit_s)
        rows, dropped, no_yellow = 0, Counter[str](), ()
        with SimulationProcess(job, limit_s) as process, (partial / DATASET).open("w", encoding="utf-8") as file:
            for message in process.messages():
                if "row" in message:
                    file.write("[\n  " if rows == 0 else ",\n  ")
                    file.write(json.dumps(message["row"], indent=2, ensure_ascii=False).replace("\n", "\n  "))
                    rows += 1
                    progress()
                elif "no_yellow" in message:
                    no_yellow = tuple(message["no_yellow"])
                elif "dropped" in message:
                    dropped[message["dropped"]] += 1
                    check_failures(name, rows, dropped, message)
            file.write("\n]\n")
        if rows == 0:
            raise SimulationFailedError(
                f"No decision of {name} could be stored",
                why="; ".join(f"{reason}: {count}" for reason, count in dropped.items()) or "No decision was due.",
                fix="Use a longer simulation, a shorter --warmup-steps, or a busier scenario.",
            )
        return replace(finished(partial, target, record, rows, dropped), no_yellow=no_yellow)


def record_of(settings: GenerationSettings, config: Path) -> dict[str, Any]:
    """How a dataset is made, as its record says it."""
    return {"settings": asdict(settings), "config": config.name, "network": network_digest(config)}


def finished(partial: Path, target: Path, record: dict[str, Any], rows: int, dropped: Counter[str]) -> Generated:
    """Write the record of a dataset and give its folder its name."""
    counts = {"rows": rows, "dropped": dict(dropped)}
    replace_file(partial / RECORD, json.dumps(record | counts, indent=2).encode() + b"\n")
    os.replace(partial, target)
    return Generated(target.name, rows, dict(dropped))


def simulation_options(settings: GenerationSettings, config: Path) -> dict[str, Any]:
    """The :class:`engine.tasks.traffic.simulation.sumo.SimulationOptions` of a job, as JSON values."""
    options = {name: getattr(settings, name) for name in SIMULATION_OPTIONS}
    return {**options, "sumocfg": str(config.resolve()), "seed": settings.seed}


def check_failures(name: str, rows: int, dropped: Counter[str], message: Mapping[str, str]) -> None:
    """Stop where most branches fail: the cause is no single decision."""
    failed = dropped[BRANCH_FAILED]
    if message["dropped"] == BRANCH_FAILED and failed > max(_FAILURES_ALLOWED, rows):
        raise SimulationFailedError(f"{failed} branches of {name} failed, {rows} decisions stored", why=message["why"])


def dataset_record(folder: Path) -> dict[str, Any]:
    """How a dataset was made: ``settings``, ``config``, ``rows``, ``dropped``.

    Raises:
        OSError, ValueError: there is no such record.
    """
    found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not {"settings", "config", "rows", "dropped"} <= found.keys():
        raise ValueError(f"{RECORD} is not complete")
    return found


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """Make a new folder that only this process fills, and remove it at the end unless it was renamed.

    The lock is one of the folder itself, so that nothing is left behind and a killed process holds none.

    Raises:
        LockHeldError: another process fills it.
    """
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise LockHeldError(
                f"Another process generates {folder.name[1:].removesuffix('.partial')} into {folder.parent}",
                fix="Wait until it has ended and run this command again, or choose another --output-dir.",
            ) from None
        if folder.exists() and os.path.samestat(os.fstat(lock), folder.stat()):
            break
        os.close(lock)  # it was renamed or removed before the lock was taken
    try:
        _clear(folder)
        yield folder
    finally:
        if folder.exists() and os.path.samestat(os.fstat(lock), folder.stat()):
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _clear(folder: Path) -> None:
    """Remove what a killed process left. Its simulation may write one more file before it notices."""
    for attempt in range(_CLEARING_ATTEMPTS):
        try:
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        except OSError:
            if attempt == _CLEARING_ATTEMPTS - 1:
                raise
            time.sleep(_CLEARING_PAUSE_S)
        else:
            return


def _job(config: Path, name: str, settings: GenerationSettings, states: Path, limit_s: float) -> dict[str, Any]:
    return {
        "kind": "generate",
        "scenario": name,
        **asdict(settings),
        "options": simulation_options(settings, config),
        "states_dir": str(states.resolve()) if settings.keep_states else "",
        "branch_limit_s": limit_s / 2,
    }


def _kept(target: Path, record: dict[str, Any]) -> Generated | None:
    """A dataset that is there; None where there is none."""
    if not target.exists():
        return None
    try:
        found = dataset_record(target)
        differing = [key for key, value in record["settings"].items() if found["settings"].get(key) != value]
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(
            f"{target} exists and is no dataset of this command", why=str(error), fix="Choose another --output-dir."
        ) from None
    if found.get("network", record["network"]) != record["network"]:
        raise InputError(
            f"{target} holds a dataset of other scenario files",
            why=f"The files of the scenario {target.name} have changed since it was generated.",
            fix="Remove that folder, or choose another --output-dir.",
        )
    if differing:
        raise InputError(
            f"{target} holds a dataset with other settings",
            why="; ".join(f"{key}: {found['settings'].get(key)} there" for key in differing),
            fix="Remove that folder, or choose another --output-dir.",
        )
    return Generated(target.name, found["rows"], found["dropped"], was_there=True)
