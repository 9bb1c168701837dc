"""Datasets with state files, as scenarios whose decisions can be simulated again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from engine.errors import InputError
from engine.tasks.traffic.rows import TrafficRow
from engine.tasks.traffic.scenarios import find_config, network_digest
from engine.tasks.traffic.simulation.generation import SIMULATION_OPTIONS, dataset_record
from engine.tasks.traffic.simulation.live import LiveScenario
from engine.tasks.traffic.validation import dataset_files, read_rows


def live_scenarios(dataset: Path, scenarios_dir: Path, names: Collection[str] | None = None) -> dict[str, LiveScenario]:
    """The scenarios of datasets, by name.

    Args:
        dataset: a dataset file, or the folder of several.
        scenarios_dir: where the folders of the scenarios are.
        names: of the scenarios that are wanted; None: all.

    Raises:
        MissingInputError: there is no dataset, or no folder of a scenario.
        InputError: the rows are of other files than those of the scenario, or the settings of their generation cannot
            be read.
    """
    found: dict[str, LiveScenario] = {}
    for path in dataset_files(dataset):
        rows = read_rows(path)
        if rows and (names is None or rows[0].scenario in names):
            found[rows[0].scenario] = _live_scenario(path, scenarios_dir, rows)
    return found


def _live_scenario(path: Path, scenarios_dir: Path, rows: Sequence[TrafficRow]) -> LiveScenario:
    config = find_config(scenarios_dir / rows[0].scenario)
    digest = network_digest(config)
    if any(row.network != digest for row in rows):
        raise InputError(f"{path}: its rows are of other files than those in {config.parent}")
    try:
        settings = dataset_record(path.parent)["settings"]
        options = {name: settings[name] for name in SIMULATION_OPTIONS}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: the settings of its generation cannot be read: {error}") from None
    return LiveScenario(config, options, path.parent, {row.id: row for row in rows})
