"""Own scenarios with one light, made once."""

import pytest


@pytest.fixture(scope="session")
def scenarios(tmp_path_factory):
    from engine.tasks.traffic.scenarios import specs_of, write_scenario

    folder = tmp_path_factory.mktemp("scenarios")
    for spec in specs_of("single", 2, 11):
        write_scenario(spec, folder)
    return folder
