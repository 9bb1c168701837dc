"""Experiment trackers, by accelerate: trackio, wandb, tensorboard, mlflow."""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING, Any

from accelerate.tracking import GeneralTracker, MLflowTracker, TensorBoardTracker, TrackioTracker, WandBTracker

from engine.errors import ConfigurationError
from engine.storage.append_log import replace_file
from engine.storage.installation import pip_install

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TRACKER = "tracker.json"
"""File of the run directory: the tracker and the id of its run."""


def open_tracker(
    name: str, run_dir: Path, *, project: str, run_name: str, config: Mapping[str, Any], resumes: bool = False
) -> GeneralTracker | None:
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
            fix=f"{pip_install(name)}   (or omit --report-to: metrics.jsonl is always written)",
        ) from error
    except Exception as error:  # of any type: the user asked for the tracker and must know before the training
        raise ConfigurationError(
            f"--report-to {name}: {name} does not start",
            why=f"{type(error).__name__}: {error}",
            fix="Correct its settings, or omit --report-to: metrics.jsonl is always written.",
        ) from error


def _start(
    name: str, run_dir: Path, project: str, run_name: str, config: dict[str, Any], stored_id: str | None
) -> GeneralTracker:
    """Start a tracker and store the id of its run; ``stored_id`` is that of the run to continue."""
    if name == "trackio":  # it knows a run by its name
        tracker = TrackioTracker(project, name=stored_id or run_name, config=config, resume="allow")
        tracker.start()
        _store_id(name, run_dir, stored_id or run_name)
        return tracker
    if name == "wandb":
        run_id = stored_id or uuid.uuid4().hex[:8]
        tracker = WandBTracker(project, name=run_name, config=config, id=run_id, resume="allow")
        tracker.start()
        _store_id(name, run_dir, run_id)
        return tracker
    if name == "tensorboard":
        tracker = TensorBoardTracker("tensorboard", run_dir)
    elif name == "mlflow":
        # MLflow 3 refuses a folder as its store, also one that MLFLOW_TRACKING_URI names, unless this is set.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        tracker = MLflowTracker(project, run_name=run_name, run_id=stored_id)
    else:
        raise ValueError(f"unknown tracker {name!r}")
    tracker.start()
    if name == "mlflow":
        _store_id(name, run_dir, tracker.tracker.info.run_id)
    if stored_id is None:  # MLflow refuses parameters that change, such as output_dir of a directory that was moved
        tracker.store_init_configuration({key: _scalar(value) for key, value in config.items()})
    return tracker


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
