"""A Ray cluster of two nodes on this machine, and what the tasks of the tests need."""

import contextlib

import pytest

from tests.conftest import ROOT
from tests.engine.tasks.phaser.conftest import api_index, node
from tests.grpo_training.traffic.conftest import generated, scenarios

__all__ = ["api_index", "generated", "node", "scenarios"]

ONE_CPU = {"num_cpus": 1, "object_store_memory": 100 * 2**20}


@pytest.fixture(scope="package")
def cluster(tmp_path_factory):
    """Two nodes with one CPU each, started in another folder; this process is connected to the first."""
    ray = pytest.importorskip("ray", reason="Ray is not installed (make ray)")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(ROOT))
        try:
            with contextlib.chdir(tmp_path_factory.mktemp("nodes")):
                nodes = Cluster(initialize_head=True, head_node_args={**ONE_CPU, "include_dashboard": False})
                nodes.add_node(**ONE_CPU)
            ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
        except Exception as error:  # noqa: BLE001 - Ray raises plain ones: too few ports, memory or processors
            pytest.skip(f"Ray does not start on this machine: {error}")
        yield nodes
        ray.shutdown()
        nodes.shutdown()
