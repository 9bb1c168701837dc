"""Scenarios with one light, their datasets and the figures of Max-Pressure, each made once."""

import json

import pytest

from tests.support.sumo_scenarios import write_scenario

SEEDS, SECONDS, DECISIONS = 2, 120, 10
"""Of the evaluations and the datasets in these tests."""


@pytest.fixture(scope="session")
def scenarios(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenarios")
    for number in range(2):
        write_scenario(folder, f"single_{number}", seed=11 + number)
    return folder


@pytest.fixture(scope="session")
def generated(scenarios, tmp_path_factory):
    """The folder of two datasets with states."""
    from grpo_training.traffic.__main__ import main

    output = tmp_path_factory.mktemp("generated")
    words = ["--scenarios-dir", str(scenarios), "--output-dir", str(output), "--horizon", "20"]
    words += ["--max-decisions", str(DECISIONS)]
    assert main(["generate", "--all", "--keep-states", "--parallel", "2", *words]) == 0
    return output


@pytest.fixture(scope="session")
def max_pressure_runs(scenarios, tmp_path_factory):
    """(scenario, seed) -> the run of Max-Pressure, of the first scenario."""
    from grpo_training.traffic.__main__ import main

    output = tmp_path_factory.mktemp("max_pressure") / "out.json"
    words = ["--scenarios-dir", str(scenarios), "--seeds", str(SEEDS), "--seconds", str(SECONDS)]
    words += ["--scenario", min(path.name for path in scenarios.iterdir())]
    assert main(["evaluate", "--policy", "max-pressure", "--output", str(output), *words]) == 0
    runs = json.loads(output.read_text())["runs"]
    return {(run["scenario"], run["seed"]): run for run in runs}
