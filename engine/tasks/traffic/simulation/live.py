"""Outcomes simulated on demand from stored states, instead of read from the rows."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.tasks.traffic.rewards import OutcomeSettings
from engine.tasks.traffic.rows import Branches, BranchResult, TrafficRow, dataset_files, read_rows
from engine.tasks.traffic.scenarios import SimulationOptions, find_config, network_digest
from engine.tasks.traffic.simulation.process import SimulationFailedError, require_sumo, simulate

_NAMED = 5


class TooManyFailuresError(SimulationFailedError):
    """More simulated decisions failed than are allowed."""

    exit_code = 3


@dataclass(frozen=True)
class LiveScenario:
    """What is needed to simulate decisions of one scenario again.

    Args:
        config: its ``.sumocfg``.
        folder: that of the dataset; state files are relative to it.
        rows: the rows of the dataset, by id.
    """

    config: Path
    folder: Path
    rows: Mapping[str, TrafficRow]

    def has(self, row: TrafficRow) -> bool:
        """Whether the dataset has this row; its outcomes and texts may differ."""
        stored = self.rows.get(row.id)
        return stored is not None and _state_of_light(row) == _state_of_light(stored)

    def state_of(self, row: TrafficRow) -> Path | None:
        """SUMO's state at a decision, with the state of the lights beside it; None where it was not kept."""
        name = self.rows[row.id].state_file
        path = (self.folder / name).resolve()
        return path if name and path.is_file() and path.with_suffix(".json").is_file() else None


def _state_of_light(row: TrafficRow) -> dict[str, Any]:
    return row.model_dump(exclude={"prompt", "state_file", "expert_decision", "branches"})


def live_scenarios(dataset: Path, scenarios_dir: Path, names: Collection[str] | None = None) -> dict[str, LiveScenario]:
    """The scenarios of datasets with state files, by name.

    Args:
        dataset: a dataset file, or the folder of several.
        scenarios_dir: where the folders of the scenarios are.
        names: of the scenarios that are wanted; None: all.

    Raises:
        MissingInputError: there is no dataset, or no folder of a scenario.
        InputError: the rows are of other files than those of the scenario.
    """
    scenarios: dict[str, LiveScenario] = {}
    for path in dataset_files(dataset):
        rows = read_rows(path)
        if not rows or (names is not None and rows[0].scenario not in names):
            continue
        config = find_config(scenarios_dir / rows[0].scenario)
        digest = network_digest(config)
        if any(row.network != digest for row in rows):
            raise InputError(f"{path}: its rows are of other files than those in {config.parent}")
        scenarios[rows[0].scenario] = LiveScenario(config, path.parent, {row.id: row for row in rows})
    return scenarios


class LiveOutcomes:
    """Simulates decisions, several at a time and each one once. Close it after use.

    Args:
        scenarios: by name.
        settings: the numbers of simulations and of failures, and the longest silence of a simulation: one that is
            silent for longer is killed.
    """

    def __init__(self, scenarios: Mapping[str, LiveScenario], settings: OutcomeSettings) -> None:
        require_sumo()
        self._scenarios, self._settings = scenarios, settings
        self._threads = ThreadPoolExecutor(settings.live_workers)
        self._known: dict[tuple[str, bool], Future[BranchResult]] = {}
        self._guard = threading.Lock()
        self.failures = 0
        self.last_failure = ""

    def branches(self, row: TrafficRow) -> Branches | None:
        """Both outcomes of a decision; None where one could not be simulated this time. Blocking, from any thread.

        Threads that ask for the same decision share one simulation. A failure is not kept: whoever asks later has it
        simulated again.

        Raises:
            InputError: the datasets do not have the row, or not its state file.
            TooManyFailuresError: more simulations failed than are allowed.
        """
        check_states(self._scenarios, [row])
        futures = [self._outcome(row, extend) for extend in (True, False)]
        try:
            extend, switch = (future.result() for future in futures)
        except TooManyFailuresError:
            raise
        except SimulationFailedError:
            return None
        return Branches(extend=extend, switch=switch)

    def _outcome(self, row: TrafficRow, extend: bool) -> Future[BranchResult]:
        key = row.id, extend and row.can_extend
        with self._guard:
            if key not in self._known:
                self._known[key] = self._threads.submit(self._simulated, row, key)
            return self._known[key]

    def _simulated(self, row: TrafficRow, key: tuple[str, bool]) -> BranchResult:
        scenario = self._scenarios[row.scenario]
        options = SimulationOptions(str(scenario.config.resolve()), row.seed, row.extend_seconds)
        decision = scenario.state_of(row), row.junction_id, key[1], row.horizon
        try:
            outcome: BranchResult = simulate("branch", options, *decision, limit_s=self._settings.live_time_limit_s)
        except SimulationFailedError as error:
            with self._guard:
                del self._known[key]
                self.failures += 1
                self.last_failure = f"{error.what} {error.why}".strip()
                if self.failures > self._settings.live_max_failures:
                    raise TooManyFailuresError(
                        f"{self.failures} simulated decisions failed",
                        why=f"The last one was of row {row.id}: {self.last_failure}",
                        fix="Generate the dataset again with --keep-states, or use its stored outcomes.",
                    ) from error
            raise
        return outcome

    def close(self) -> None:
        """End the threads; waits for the simulations in use."""
        self._threads.shutdown(cancel_futures=True)


def check_states(scenarios: Mapping[str, LiveScenario], rows: Iterable[TrafficRow]) -> None:
    """Check that rows can be simulated again.

    Raises:
        InputError: names the rows that the datasets do not have, or that have no state file.
    """
    unknown, without = [], []
    for row in rows:
        scenario = scenarios.get(row.scenario)
        if scenario is None or not scenario.has(row):
            unknown.append(row.id)
        elif scenario.state_of(row) is None:
            without.append(row.id)
    if unknown:
        raise InputError(
            f"The datasets with state files do not have these rows, or have other ones: {_names(unknown)}",
            fix="Name the dataset that the rows are of with live_dataset.",
        )
    if without:
        raise InputError(
            f"The state file is missing of {_names(without)}",
            fix="Generate the dataset again with --keep-states, or use its stored outcomes.",
        )


def _names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
