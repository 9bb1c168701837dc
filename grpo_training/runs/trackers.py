"""Experiment trackers: trackio, wandb, tensorboard, mlflow. None of them needs torch here."""

from __future__ import annotations

import importlib
import json
import os
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from engine.errors import ConfigurationError
from engine.storage.append_log import replace_file
from engine.storage.installation import pip_install

TRACKER = "tracker.json"
"""File of the run directory: the tracker and the id of its run."""
_LONGEST_PARAMETER, _PARAMETERS_AT_ONCE = 6000, 100
"""Limits of MLflow."""


class Tracker(Protocol):
    """A run in an experiment tracker, such as a run of wandb or the module trackio."""

    def log(self, values: dict[str, float], /, *, step: int) -> object:
        """Send the figures of a step."""

    def finish(self) -> object:
        """Send what is left, and end the run."""


class SafeTracker:
    """A tracker until it fails once; the run continues without it then.

    Args:
        tracker: None: nothing is sent.
        warn: called with the failure.
    """

    def __init__(self, tracker: Tracker | None, warn: Callable[[str], None]) -> None:
        self._tracker, self._warn = tracker, warn

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Send the figures of a step."""
        self._call(lambda tracker: tracker.log(dict(values), step=step))

    def finish(self) -> None:
        """Send what is left, and end the run."""
        self._call(lambda tracker: tracker.finish())

    def _call(self, call: Callable[[Tracker], object]) -> None:
        if self._tracker is None:
            return
        try:
            call(self._tracker)
        except Exception as error:  # noqa: BLE001 - no error of a tracker may stop the run
            self._warn(f"The tracker failed ({type(error).__name__}: {error}); the run continues without it")
            self._tracker = None


def check_tracker(name: str) -> None:
    """Check that a tracker can be imported; ``none`` always can.

    Raises:
        ConfigurationError: it is not installed, or its import fails.
    """
    if name == "none":
        return
    try:
        importlib.import_module(name)
    except Exception as error:  # of any type: a broken installation too
        raise ConfigurationError(
            f"--report-to {name}: {name} cannot be imported",
            why=f"{type(error).__name__}: {error}",
            fix=f"{pip_install(name)}   (or omit --report-to)",
        ) from error


def open_tracker(
    name: str, run_dir: Path, *, project: str, run_name: str, config: Mapping[str, Any], resumes: bool = False
) -> Tracker | None:
    """Start a tracker and store the configuration in it; None for ``none``. Called before the training starts.

    Args:
        name: none, trackio, wandb, tensorboard or mlflow.
        run_dir: the run directory; tensorboard writes into its folder ``tensorboard``.
        project, run_name: the names of project and run in the tracker.
        config: the resolved settings, as JSON values.
        resumes: continue the tracker's run of this directory, whose id is in ``tracker.json``.

    Raises:
        ConfigurationError: it is not installed, or does not start.
    """
    if name == "none":
        return None
    try:
        return _start(name, run_dir, project, run_name, dict(config), _stored_id(name, run_dir) if resumes else None)
    except ImportError as error:
        raise ConfigurationError(
            f"--report-to {name}: {name} is not installed",
            why=str(error),
            fix=f"{pip_install(name)}   (or omit --report-to)",
        ) from error
    except Exception as error:  # of any type: the user asked for the tracker and must know before the training
        raise ConfigurationError(
            f"--report-to {name}: {name} does not start",
            why=f"{type(error).__name__}: {error}",
            fix="Correct its settings, or omit --report-to.",
        ) from error


def _start(
    name: str, run_dir: Path, project: str, run_name: str, config: dict[str, Any], stored_id: str | None
) -> Tracker:
    """Start a tracker and store the id of its run; ``stored_id`` is that of the run to continue."""
    tracker: Tracker
    if name == "trackio":  # it knows a run by its name
        import trackio  # the trackers are optional

        trackio.init(project=project, name=stored_id or run_name, config=config, resume="allow")
        _store_id(name, run_dir, stored_id or run_name)
        tracker = trackio
        return tracker
    if name == "wandb":
        import wandb

        run_id = stored_id or uuid.uuid4().hex[:8]
        tracker = wandb.init(project=project, name=run_name, config=config, id=run_id, resume="allow")
        _store_id(name, run_dir, run_id)
        return tracker
    if name == "tensorboard":
        return _TensorBoard(run_dir / "tensorboard", config if stored_id is None else None)
    if name == "mlflow":
        return _MLflow(project, run_name, config, stored_id, lambda run_id: _store_id(name, run_dir, run_id))
    raise ValueError(f"unknown tracker {name!r}")


class _TensorBoard:
    """Writes event files with the package ``tensorboard`` alone, which needs no torch."""

    def __init__(self, folder: Path, config: dict[str, Any] | None) -> None:
        import yaml
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder.mkdir(parents=True, exist_ok=True)
        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(folder))
        if config is not None:
            scalars = {key: _scalar(value) for key, value in config.items()}
            replace_file(folder / "hparams.yml", yaml.safe_dump(scalars).encode())

    def log(self, values: dict[str, float], /, *, step: int) -> None:
        scalars = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._writer.add_event(self._event(step=step, wall_time=time.time(), summary=self._summary(value=scalars)))
        self._writer.flush()

    def finish(self) -> None:
        self._writer.close()


class _MLflow:
    def __init__(
        self,
        project: str,
        name: str,
        config: dict[str, Any],
        stored_id: str | None,
        started: Callable[[str], None],
    ) -> None:
        # MLflow 3 refuses a folder as its store, also one that MLFLOW_TRACKING_URI names, unless this is set.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        import mlflow

        self._module = mlflow
        mlflow.set_experiment(project)
        run = mlflow.start_run(run_id=stored_id) if stored_id else mlflow.start_run(run_name=name)
        started(run.info.run_id)
        if stored_id is None:  # MLflow refuses parameters that change, such as output_dir of a moved directory
            values = [(key, str(_scalar(value))[:_LONGEST_PARAMETER]) for key, value in config.items()]
            for start in range(0, len(values), _PARAMETERS_AT_ONCE):
                mlflow.log_params(dict(values[start : start + _PARAMETERS_AT_ONCE]))

    def log(self, values: dict[str, float], /, *, step: int) -> None:
        self._module.log_metrics(values, step=step)

    def finish(self) -> None:
        self._module.end_run()


def _store_id(name: str, run_dir: Path, run_id: str) -> None:
    run_dir.mkdir(parents=True, exist_ok=True)
    replace_file(run_dir / TRACKER, json.dumps({"tracker": name, "run": run_id}).encode() + b"\n")


def _stored_id(name: str, run_dir: Path) -> str | None:
    try:
        stored = json.loads((run_dir / TRACKER).read_text(encoding="utf-8"))
        return str(stored["run"]) if stored["tracker"] == name else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _scalar(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
