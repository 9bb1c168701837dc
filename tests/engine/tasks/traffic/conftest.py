"""A scenario of four junctions, and a dataset of it; each is made once."""

import pytest

from tests.support.sumo_scenarios import write_scenario


@pytest.fixture(scope="session")
def grid(tmp_path_factory):
    return write_scenario(tmp_path_factory.mktemp("scenarios"), "grid2x2", columns=2, rows=2)


@pytest.fixture(scope="session")
def dataset(grid, tmp_path_factory):
    from engine.tasks.traffic.simulation.generation import GenerationSettings, generate_scenario

    output = tmp_path_factory.mktemp("datasets")
    generate_scenario(grid, output, GenerationSettings(max_decisions=12, keep_states=True, horizon=20))
    return output / grid.name / "grpo_dataset.json"
