"""Experiment trackers, by accelerate: trackio, wandb, tensorboard, mlflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accelerate.tracking import GeneralTracker, MLflowTracker, TensorBoardTracker, TrackioTracker, WandBTracker

from engine.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def open_tracker(
    name: str, run_dir: Path, *, project: str, run_name: str, config: Mapping[str, Any]
) -> GeneralTracker | None:
    """Start a tracker and store the configuration in it; None for ``none``. Called before the training starts.

    Args:
        name: none, trackio, wandb, tensorboard or mlflow.
        run_dir: the run directory; tensorboard writes into its folder ``tensorboard``.
        project, run_name: the names of project and run in the tracker.
        config: the resolved settings, as JSON values.

    Raises:
        ConfigurationError: it is not installed, or does not start.
    """
    if name == "none":
        return None
    try:
        return _start(name, run_dir, project, run_name, dict(config))
    except ImportError as error:
        raise ConfigurationError(
            f"--report-to {name}: {name} is not installed",
            why=str(error),
            fix=f"Install it (pip install {name}), or omit --report-to: metrics.jsonl is always written.",
        ) from error
    except Exception as error:  # of any type: the user asked for the tracker and must know before the training
        raise ConfigurationError(
            f"--report-to {name}: {name} does not start",
            why=f"{type(error).__name__}: {error}",
            fix="Correct its settings, or omit --report-to: metrics.jsonl is always written.",
        ) from error


def _start(name: str, run_dir: Path, project: str, run_name: str, config: dict[str, Any]) -> GeneralTracker:
    if name in ("trackio", "wandb"):  # both take the configuration when they start
        kind = TrackioTracker if name == "trackio" else WandBTracker
        tracker = kind(project, name=run_name, config=config)
        tracker.start()
        return tracker
    if name == "tensorboard":
        tracker = TensorBoardTracker("tensorboard", run_dir)
    elif name == "mlflow":
        tracker = MLflowTracker(project, run_name=run_name)
    else:
        raise ValueError(f"unknown tracker {name!r}")
    tracker.start()
    tracker.store_init_configuration({key: _scalar(value) for key, value in config.items()})
    return tracker


def _scalar(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
