"""An own scenario of four junctions, and a dataset of it; each is made once."""

import pytest


@pytest.fixture(scope="session")
def grid(tmp_path_factory):
    from engine.tasks.traffic.scenarios import specs_of, write_scenario

    return write_scenario(specs_of("grid2x2", 1, 3407)[0], tmp_path_factory.mktemp("scenarios")).parent


@pytest.fixture(scope="session")
def dataset(grid, tmp_path_factory):
    from engine.tasks.traffic.simulation.generation import GenerationSettings, generate_scenario

    output = tmp_path_factory.mktemp("datasets")
    generate_scenario(grid, output, GenerationSettings(max_decisions=12, keep_states=True, horizon=20))
    return output / grid.name / "grpo_dataset.json"
