"""Experiment trackers: wandb, mlflow and trackio get the figures of a run, if ``--report-to`` names them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from importlib import import_module
from typing import Any, Literal

from pydantic import BaseModel

from engine.errors import ConfigurationError
from engine.storage.installation import pip_install

Tracker = Literal["wandb", "mlflow", "trackio"]
PROJECT = "scaffold-grpo"
REPORT_TO_HELP = "experiment trackers that get the figures: wandb, mlflow, trackio (each reads its own variables)"

_Log = Callable[..., None]
_End = Callable[[], None]
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
        self._open: dict[str, tuple[_Log, _End]] = {}
        for name in names:
            try:
                self._open[name] = _begin(name, import_module(name), run, dict(settings))
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
        self._each(lambda log, _: log(numbers, step=step))

    def close(self) -> None:
        """End the runs there."""
        self._each(lambda _, end: end())

    def _each(self, act: Callable[[_Log, _End], None]) -> None:
        for name, functions in list(self._open.items()):
            try:
                act(*functions)
            except Exception as error:  # noqa: BLE001 - another program's network
                del self._open[name]
                _log.warning("⚠ %s gets no more figures: %s: %s", name, type(error).__name__, error)


def open_trackers(names: Sequence[Tracker], run: str, settings: BaseModel) -> AbstractContextManager[Trackers]:
    """Trackers of a run with these settings; they end with the block."""
    return closing(Trackers(names, run, settings.model_dump(mode="json") if names else {}))


def _begin(name: Tracker, module: Any, run: str, settings: dict[str, Any]) -> tuple[_Log, _End]:
    """Begin a run; the functions that send its figures and that end it."""
    if name == "mlflow":
        module.set_experiment(PROJECT)
        module.start_run(run_name=run)
        module.log_params({key: str(value)[:500] for key, value in settings.items()})
        return module.log_metrics, module.end_run
    begun = module.init(project=PROJECT, name=run, config=settings)
    owner = begun if name == "wandb" else module
    return owner.log, owner.finish
