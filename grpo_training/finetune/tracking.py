"""What a training leaves to look at: metrics.jsonl always, a tracker where asked for, and lines on the screen."""

from __future__ import annotations

import importlib
import json
import math
import sys
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from engine.errors import ConfigurationError, InputError
from engine.storage.append_log import replace_file
from grpo_training.cli.terminal_text import LastingStream, harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import TextIO

    from rich.progress import Progress, TaskID
    from rich.text import Text

_SHOWN = (
    ("loss", "loss", ".4f"),
    ("reward", "reward", ".3f"),
    ("kl", "kl", ".4f"),
    ("beta", "beta", ".3g"),
    ("entropy", "entropy", ".3f"),
    ("clip_ratio/region_mean", "clipped", ".1%"),
    ("tokens_per_s", "tokens/s", ",.0f"),
)
_RATE_STEPS = 20


@dataclass(frozen=True)
class TrainingResult:
    """What a training came to.

    Args:
        steps: optimiser steps, those before an interruption included.
        adapter: the LoRA's folder; None where the whole model was trained.
        merged: the folder of a whole model that can be served.
        best: which checkpoint was best by which measure, and which one was exported.
        seconds: of this start.
    """

    steps: int
    adapter: Path | None
    merged: Path
    best: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class Tracker(Protocol):
    """An experiment tracker, reduced to what a run needs of it."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Take the figures of one step; all are finite."""

    def finish(self) -> None:
        """The run is over."""


class RunLog:
    """Writes ``metrics.jsonl`` and hands the same figures to a tracker. Use as a context manager.

    One line is one JSON object with ``step`` first; a figure that is not finite becomes null. A resumed run first
    removes the lines of steps that it will do again, and a last line that was cut off.

    Args:
        path: the file.
        resume_step: the step that the run goes on from; 0 begins the file anew.
        tracker: gets the figures too; the first failure is told once, and the training goes on without it.
        warn: takes that sentence.
    """

    def __init__(
        self,
        path: Path,
        *,
        resume_step: int = 0,
        tracker: Tracker | None = None,
        warn: Callable[[str], None] = lambda text: print(text, file=sys.stderr),
    ) -> None:
        self._tracker, self._warn = tracker, warn
        kept = _lines_up_to(path, resume_step)
        replace_file(path, b"".join(line + b"\n" for line in kept))
        self._file: TextIO = path.open("a", encoding="utf-8", buffering=1)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._tell(lambda tracker: tracker.finish())

    def write(self, step: int, figures: Mapping[str, Any]) -> None:
        """Add one line.

        Args:
            step: optimiser steps done.
            figures: numbers and short texts by name.
        """
        line = {"step": step} | {name: _json_value(value) for name, value in figures.items()}
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        numbers = {name: float(value) for name, value in line.items() if _is_number(value) and name != "step"}
        self._tell(lambda tracker: tracker.log(numbers, step))

    def _tell(self, message: Callable[[Tracker], None]) -> None:
        if self._tracker is None:
            return
        try:
            message(self._tracker)
        except Exception as error:  # noqa: BLE001 - whatever a tracker dies of, the training must not
            self._warn(f"The tracker failed ({type(error).__name__}: {error}); the training goes on without it")
            self._tracker = None


def _lines_up_to(path: Path, step: int) -> list[bytes]:
    if step == 0 or not path.exists():
        return []
    kept = []
    for line in path.read_bytes().split(b"\n"):
        try:
            if int(json.loads(line)["step"]) <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue  # cut off by a crash
    return kept


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ------------------------------------------------------------------ trackers


def open_tracker(name: str, run_dir: Path, *, project: str, run_name: str, config: Mapping[str, Any]) -> Tracker | None:
    """The tracker called ``name``, started; None for ``none``. Call it before the training begins.

    Args:
        name: none, trackio, wandb, tensorboard or mlflow.
        run_dir: where a tracker that writes files puts them.
        project, run_name: what the run is called there.
        config: the resolved settings, shown beside the curves.

    Raises:
        ConfigurationError: it is not installed, or it does not start.
        InputError: an unknown name.
    """
    if name == "none":
        return None
    if name not in _TRACKERS:
        raise InputError(f"Unknown tracker {name!r}", fix=f"Choose one of none, {', '.join(_TRACKERS)}.")
    try:
        return _TRACKERS[name](run_dir, project, run_name, dict(config))
    except ImportError as error:
        raise ConfigurationError(
            f"--report-to {name}: {name} is not installed",
            why=str(error),
            fix=f"Install it (pip install {name}), or leave --report-to out: metrics.jsonl is always written.",
        ) from error
    except Exception as error:  # whatever it raises, the person asked for it and should know before training
        raise ConfigurationError(
            f"--report-to {name}: {name} does not start",
            why=f"{type(error).__name__}: {error}",
            fix="Mend its settings, or leave --report-to out: metrics.jsonl is always written.",
        ) from error


class _RunModule:
    """trackio and wandb: modules with ``init``, ``log`` and ``finish``."""

    def __init__(self, module: Any, project: str, run_name: str, config: dict[str, Any]) -> None:
        self._module = module
        module.init(project=project, name=run_name, config=config)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._module.log(dict(metrics), step=step)

    def finish(self) -> None:
        self._module.finish()


class _TensorBoard:
    def __init__(self, run_dir: Path, config: dict[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run_dir / "tensorboard"))
        self._writer.add_text("config", json.dumps(config, indent=2, default=str))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def finish(self) -> None:
        self._writer.close()


class _MLflow:
    def __init__(self, project: str, run_name: str, config: dict[str, Any]) -> None:
        self._mlflow: Any = importlib.import_module("mlflow")
        self._mlflow.set_experiment(project)
        self._mlflow.start_run(run_name=run_name)
        self._mlflow.log_params({name: str(value)[:500] for name, value in config.items()})

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._mlflow.log_metrics(dict(metrics), step=step)

    def finish(self) -> None:
        self._mlflow.end_run()


def _trackio(run_dir: Path, project: str, run_name: str, config: dict[str, Any]) -> Tracker:
    return _RunModule(importlib.import_module("trackio"), project, run_name, config)


def _wandb(run_dir: Path, project: str, run_name: str, config: dict[str, Any]) -> Tracker:
    return _RunModule(importlib.import_module("wandb"), project, run_name, config)


_TRACKERS: dict[str, Callable[[Path, str, str, dict[str, Any]], Tracker]] = {
    "trackio": _trackio,
    "wandb": _wandb,
    "tensorboard": lambda run_dir, project, run_name, config: _TensorBoard(run_dir, config),
    "mlflow": lambda run_dir, project, run_name, config: _MLflow(project, run_name, config),
}


# ------------------------------------------------------------------ the screen


class TrainingProgress:
    """Shows a training: a live bar on a terminal, plain lines elsewhere. Use as a context manager.

    Args:
        total: optimiser steps of the whole run.
        done: steps that an earlier start did.
        stream: where it goes, stdout by default.
        live: a live bar; by default where ``stream`` is a terminal.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        total: int,
        *,
        done: int = 0,
        stream: TextIO | None = None,
        live: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._done, self._clock = total, done, clock
        self._stream: Any = LastingStream(stream or sys.stdout)
        self._is_live = self._stream.isatty() if live is None else live
        self._times: deque[tuple[int, float]] = deque([(done, clock())], maxlen=_RATE_STEPS)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._figures: Text | None = None
        self._stack = ExitStack()

    def __enter__(self) -> TrainingProgress:
        if self._is_live:
            from rich.console import Console, Group
            from rich.live import Live
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
            from rich.text import Text

            columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
            console = Console(file=self._stream)
            self._bar, self._figures = Progress(*columns, console=console), Text()
            self._task = self._bar.add_task("training", total=self._total, completed=self._done)
            self._stack.enter_context(Live(Group(self._bar, self._figures), console=console, refresh_per_second=4))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def step_done(self, step: int, stage: str, figures: Mapping[str, Any]) -> None:
        """A step was done.

        Args:
            step: optimiser steps done.
            stage: what the training is at.
            figures: the step's metrics under their names in metrics.jsonl.
        """
        self._times.append((step, self._clock()))
        shown = "  ".join(
            f"{label} {figures[name]:{form}}"
            for name, label, form in _SHOWN
            if _is_number(figures.get(name)) and math.isfinite(figures[name])
        )
        if self._bar is not None and self._task is not None and self._figures is not None:
            self._bar.update(self._task, completed=step, description=stage)
            self._figures.plain = shown
        else:
            self._say(f"{stage} {step}/{self._total}  {shown}  left {_duration(self._seconds_left(step))}")

    def note(self, text: str) -> None:
        """A line of its own: a warning, a checkpoint, what was resumed."""
        if self._bar is not None:
            self._bar.console.print(harmless(text), markup=False, highlight=False)
        else:
            self._say(text)

    def _say(self, text: str) -> None:
        self._stream.write(harmless(text) + "\n")
        self._stream.flush()

    def _seconds_left(self, step: int) -> float | None:
        (first, then), now = self._times[0], self._clock()
        return (now - then) / (step - first) * (self._total - step) if step > first else None


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
