"""Stored outcomes against SUMO: the branches of some rows are simulated again from their stored states."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from engine.errors import InputError, ScaffoldError
from engine.tasks.traffic.rewards import OutcomeSettings
from engine.tasks.traffic.rows import BranchResult, TrafficRow
from engine.tasks.traffic.simulation.live import LiveOutcomes
from engine.tasks.traffic.simulation.live_scenarios import live_scenario
from engine.tasks.traffic.simulation.process import SimulationThreads
from engine.tasks.traffic.validation import fault_text, read_rows


def differences_to_sumo(
    path: Path, scenarios_dir: Path, *, rows: int = 10, workers: int = 2, limit_s: float = 60.0
) -> Iterator[str]:
    """What is wrong with the stored outcomes of a dataset file.

    Args:
        path: the dataset file, with ``generation.json`` and the states beside it.
        scenarios_dir: where the folder of its scenario is.
        rows: how many rows are simulated again, spread over the file.
        workers: simulations at the same time.
        limit_s: longest silence of a simulation.

    Raises:
        ScaffoldError: the scenario is missing, a row is invalid, or no branch can be simulated.
    """
    stored = read_rows(path)
    chosen = {round(place * (len(stored) - 1) / max(1, rows - 1)) for place in range(rows)} if stored else set()
    sample = [(number + 1, stored[number]) for number in sorted(chosen)]
    without = [number for number, row in sample if not row.state_file]
    if without:
        yield fault_text(path, without[0], "it has no state file to simulate again; generate with --keep-states")
        return
    if not sample:
        return
    drawn = [row for _, row in sample]
    try:
        scenario = live_scenario(path, scenarios_dir, drawn)
    except InputError as error:
        yield fault_text(path, 0, error.what.removeprefix(f"{path}: "))
        return
    settings = OutcomeSettings(live_workers=workers, live_time_limit_s=limit_s, live_max_failures=len(drawn))
    with (
        closing(LiveOutcomes({drawn[0].scenario: scenario}, settings)) as live,
        SimulationThreads(workers) as threads,
    ):
        found = [(number, threads.submit(_differences, live, row)) for number, row in sample]
        for number, future in found:
            for what in future.result():
                yield fault_text(path, number, what)


def _differences(live: LiveOutcomes, row: TrafficRow) -> list[str]:
    """What SUMO says of the branches of one row, where it differs from the row."""
    found: list[str] = []
    for name, extend, stored in (("extend", True, row.branches.extend), ("switch", False, row.branches.switch)):
        try:
            outcome = live.outcome(row, extend)
        except ScaffoldError as error:
            return [*found, f"branch {name} cannot be simulated: {error.why or error.what}"]
        if outcome is None:
            found.append(f"branch {name} cannot be simulated: {live.last_failure}")
        elif outcome != stored:
            found.append(f"branch {name}: {_difference(outcome, stored)}")
    return found


def _difference(outcome: BranchResult, stored: BranchResult) -> str:
    now, before = outcome.model_dump(), stored.model_dump()
    name = next(name for name in now if now[name] != before[name])
    return f"{name} is {before[name]}, SUMO gives {now[name]}"
