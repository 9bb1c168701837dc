"""Experiment trackers: wandb, mlflow and trackio get the figures of a run, if ``--report-to`` names them."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from importlib import import_module
from typing import Any, Literal

from pydantic import BaseModel

from engine.errors import ConfigurationError
from engine.storage.installation import pip_install

Tracker = Literal["wandb", "mlflow", "trackio"]
PROJECT = "scaffold-grpo"
REPORT_TO_HELP = "experiment trackers that get the figures: wandb, mlflow, trackio (each reads its own variables)"

_log = logging.getLogger(__name__)


class Trackers:
    """Sends figures to trackers. One that fails is left out from then on: no run ends because of it.

    Args:
        names: of the trackers.
        run: name of the run there.
        settings: of the run, as JSON values.

    Raises:
        ConfigurationError: one is not installed, or cannot begin.
    """

    def __init__(self, names: Sequence[Tracker], run: str, settings: Mapping[str, Any]) -> None:
        self._open: dict[str, Any] = {}
        for name in names:
            try:
                self._open[name] = _BEGIN[name](import_module(name), run, dict(settings))
            except ImportError as error:
                raise ConfigurationError(f"{name} is not installed", why=str(error), fix=pip_install(name)) from None
            except Exception as error:  # noqa: BLE001 - an account, a server
                raise ConfigurationError(f"{name} cannot begin a run", why=f"{type(error).__name__}: {error}") from None

    def log(self, figures: Mapping[str, Any], step: int | None = None) -> None:
        """Send the finite numbers among the figures."""
        numbers = {
            name: value
            for name, value in figures.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        }
        self._each(lambda name, tracker: _LOG[name](tracker, numbers, step))

    def close(self) -> None:
        """End the runs there."""
        self._each(lambda name, tracker: _END[name](tracker))

    def _each(self, act: Any) -> None:
        for name, tracker in list(self._open.items()):
            try:
                act(name, tracker)
            except Exception as error:  # noqa: BLE001 - another program's network
                del self._open[name]
                _log.warning("⚠ %s gets no more figures: %s: %s", name, type(error).__name__, error)


def open_trackers(names: Sequence[Tracker], run: str, settings: BaseModel) -> AbstractContextManager[Trackers]:
    """Trackers of a run with these settings; they end with the block."""
    return closing(Trackers(names, run, settings.model_dump(mode="json") if names else {}))


def _begin_mlflow(mlflow: Any, run: str, settings: dict[str, Any]) -> Any:
    mlflow.set_experiment(PROJECT)
    mlflow.start_run(run_name=run)
    mlflow.log_params({name: str(value)[:500] for name, value in settings.items()})
    return mlflow


def _begin_trackio(trackio: Any, run: str, settings: dict[str, Any]) -> Any:
    trackio.init(project=PROJECT, name=run, config=settings)
    return trackio


_BEGIN: dict[str, Any] = {
    "wandb": lambda wandb, run, settings: wandb.init(project=PROJECT, name=run, config=settings),
    "mlflow": _begin_mlflow,
    "trackio": _begin_trackio,
}
_LOG: dict[str, Any] = {
    "wandb": lambda run, numbers, step: run.log(numbers, step=step),
    "mlflow": lambda mlflow, numbers, step: mlflow.log_metrics(numbers, step=step),
    "trackio": lambda trackio, numbers, step: trackio.log(numbers, step=step),
}
_END: dict[str, Any] = {
    "wandb": lambda run: run.finish(),
    "mlflow": lambda mlflow: mlflow.end_run(),
    "trackio": lambda trackio: trackio.finish(),
}
