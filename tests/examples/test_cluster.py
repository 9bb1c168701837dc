"""The recipes of examples/cluster and the image, as far as they can be checked without a cluster."""

import fnmatch
import importlib.util
import os
import subprocess
import sys
import tomllib

import pytest
import yaml

from tests.conftest import ROOT

SLURM = ROOT / "examples/cluster/slurm.sh"
CLUSTER = ROOT / "examples/cluster/ray_cluster.yaml"
STAND_INS = {
    # Debian's /etc/hosts has 127.0.1.1 for the name of the machine.
    "hostname": '[ "$1" = --ip-address ] && echo 127.0.1.1 || echo "10.1.0.1 172.17.0.1"',
    "scontrol": "echo node1; echo node2",
    "srun": 'echo "srun $*" >> "$LOG"; [ -z "${HEAD_FAILS:-}" ] || exit 1; exec sleep 60',
    "ray": '[ -z "${HEAD_FAILS:-}" ]',  # ray health-check
    "python": f"""[ "$1" = -c ] && exec {sys.executable} "$@"
        until [ "$(grep -c ^srun "$LOG")" = 2 ]; do sleep 0.05; done
        echo "python $*" >> "$LOG"; exit 3""",
}


def run_batch_script(folder, **variables):
    """The script with stand-ins for SLURM's programs: its process and what they were called with."""
    for name, text in STAND_INS.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}", "PYTHON": str(folder / "python"), "LOG": str(folder / "log"),
        "SLURM_JOB_ID": "1234567", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_CPUS_PER_TASK": "4", **variables,
    }  # fmt: skip
    done = subprocess.run(
        ["bash", SLURM, "--dataset", "mine"], env=environment, capture_output=True, text=True, timeout=60
    )
    return done, (folder / "log").read_text().splitlines()


def test_the_slurm_job_starts_a_ray_node_per_machine_at_an_address_that_others_reach(tmp_path):
    done, calls = run_batch_script(tmp_path)
    head, command, worker = sorted(calls, key=lambda call: ("--address" in call, call.startswith("python")))
    assert done.returncode == 3, "the exit code of the command"
    assert "--node-ip-address=10.1.0.1 --port=24567 --num-cpus=4" in head
    assert "--address=10.1.0.1:24567" in worker
    assert command == "python -m grpo_training.generator1 --scoring ray --ray-address 10.1.0.1:24567 --dataset mine"
    for node, call in (("node1", head), ("node2", worker)):
        assert f"--cpus-per-task=4 --overlap -w {node}" in call


def test_the_slurm_job_ends_if_its_ray_does_not_start(tmp_path):
    done, calls = run_batch_script(tmp_path, HEAD_FAILS="yes")
    assert done.returncode == 1
    assert "Ray did not start on node1" in done.stderr
    assert not any(call.startswith("python") for call in calls)


@pytest.mark.ray
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_ray_accepts_the_cluster_file():
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(yaml.safe_load(CLUSTER.read_text()))
    validate_config(config)
    assert config["max_workers"] == 2


@pytest.mark.parametrize(
    "path",
    [".venv-vllm", "data/api_keys/api_config.json", "grpo_training/cache"],
)
def test_keys_environments_and_results_are_not_copied_to_the_nodes(path):
    excluded = yaml.safe_load(CLUSTER.read_text())["rsync_exclude"]
    assert any(fnmatch.fnmatch(path, pattern) for pattern in excluded)
    assert not any(fnmatch.fnmatch("data/api_keys/api_config.json.example", pattern) for pattern in excluded)


def test_the_image_holds_of_the_data_what_the_wheel_holds():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    shipped = set(build["force-include"])
    assert "data" in lines
    assert {name for name in shipped if any(fnmatch.fnmatch(name, pattern) for pattern in kept)} == shipped
    assert len(kept) == 5, "and nothing else"
