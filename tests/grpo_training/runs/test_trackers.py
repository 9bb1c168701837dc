import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import types

import pytest

from engine.errors import ConfigurationError
from grpo_training.runs.trackers import open_tracker
from grpo_training.train.config import GRPOTrainingConfig
from tests.conftest import ROOT


@pytest.mark.parametrize("name", ["trackio", "wandb", "mlflow", "tensorboard"])
def test_a_tracker_that_is_not_installed_is_refused_before_the_training(tmp_path, monkeypatch, name):
    for module in (name, "tensorboard.compat.proto.event_pb2"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=f"{name} is not installed") as raised:
        open_tracker(name, tmp_path, project="p", run_name="r", config={})
    assert f"pip install {name}" in raised.value.fix


def test_a_tracker_that_does_not_start_is_refused_too(tmp_path):
    pytest.importorskip("tensorboard")
    (tmp_path / "tensorboard").write_text("a file where tensorboard needs a folder")
    with pytest.raises(ConfigurationError, match="tensorboard does not start") as raised:
        open_tracker("tensorboard", tmp_path, project="p", run_name="r", config={})
    assert "FileExistsError" in raised.value.why


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_resumed_training_continues_the_run_of_its_tracker(tmp_path, monkeypatch, name):
    started = []
    stand_in = types.SimpleNamespace(init=lambda **arguments: started.append(arguments))
    monkeypatch.setitem(sys.modules, name, stand_in)

    def start(run_name, resumes):
        open_tracker(name, tmp_path, project="p", run_name=run_name, config={"beta": 0.1}, resumes=resumes)
        return started[-1].get("id", started[-1]["name"])

    first = start("a", False)
    assert start("b", True) == first  # also under another name
    assert started[-1]["resume"] == "allow"
    assert start("c", False) != first  # a new training of that directory


def test_mlflow_logs_to_a_file_store_and_continues_its_run(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    config = GRPOTrainingConfig(model_name_or_path="m", dataset_path="d").to_dict()
    for resumes, changes in ((False, {}), (True, {"output_dir": "moved"})):
        tracker = open_tracker("mlflow", tmp_path, project="p", run_name="r", config=config | changes, resumes=resumes)
        tracker.log({"rewards/r_ans/mean": 0.5}, step=2 if resumes else 1)
        tracker.finish()
    [run] = mlflow.search_runs(experiment_names=["p"], output_format="list")
    assert run.data.params["beta"] == "0.05"
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "rewards/r_ans/mean")
    assert [one.step for one in history] == [1, 2]


_TWO_STARTS = """
import sys
from pathlib import Path
from grpo_training.runs.trackers import open_tracker
for resumes in (False, True):
    tracker = open_tracker(sys.argv[1], Path(), project="p", run_name="r", config={"beta": 0.1}, resumes=resumes)
    tracker.log({"reward": 0.25 + resumes}, step=1 + resumes)
    tracker.finish()
"""


def start_twice(folder, name):
    """A run and its continuation in a process of its own, in which the tracker finds no account and no network."""
    pytest.importorskip(name)
    settings = {"WANDB_MODE": "offline", "TRACKIO_DIR": str(folder / "trackio"), "HOME": str(folder)}
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", _TWO_STARTS, name]
    subprocess.run(command, cwd=folder, env={**os.environ, **settings, "PYTHONPATH": path}, check=True, timeout=100)


def test_wandb_keeps_both_starts_offline_under_one_id(tmp_path):
    start_twice(tmp_path, "wandb")
    stored = json.loads((tmp_path / "tracker.json").read_text())["run"]
    ids = [path.name.rpartition("-")[2] for path in sorted((tmp_path / "wandb").glob("offline-run-*"))]
    assert ids
    assert set(ids) == {stored}


def test_trackio_keeps_both_starts_as_one_run(tmp_path):
    start_twice(tmp_path, "trackio")
    [database] = (tmp_path / "trackio").glob("*.db")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("select run_name, step, metrics from metrics order by step").fetchall()
    assert [(name, step, json.loads(values)["reward"]) for name, step, values in rows] == [
        ("r", 1, 0.25),
        ("r", 2, 1.25),
    ]


def test_no_tracker(tmp_path):
    assert open_tracker("none", tmp_path, project="p", run_name="r", config={}) is None


def test_tensorboard_shows_every_metric_and_the_settings(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = GRPOTrainingConfig(model_name_or_path="m", dataset_path="d")
    tracker = open_tracker("tensorboard", tmp_path, project="p", run_name="r", config=config.to_dict())
    tracker.log({"loss": 1.5, "rewards/r_ans/mean": 0.25}, step=4)
    tracker.log({"loss": 0.5}, step=5)
    tracker.finish()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(4, 1.5), (5, 0.5)]
    assert [(event.step, event.value) for event in events.Scalars("rewards/r_ans/mean")] == [(4, 0.25)]
    (settings,) = tmp_path.rglob("hparams.yml")
    assert "beta: 0.05" in settings.read_text()
