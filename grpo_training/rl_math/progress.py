"""Progress of a training on the terminal: a live bar, or plain lines where the output is not a terminal."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from grpo_training.cli.terminal_text import LastingStream, harmless

_SHOWN = (
    ("loss", "loss", ".4f"),
    ("reward", "reward", ".3f"),
    ("data/reward", "data reward", ".3f"),
    ("validation/reward", "held-out reward", ".3f"),
    ("rce/temperature", "tau", ".2f"),
    ("grpo/temperature", "tau", ".2f"),
    ("kl", "kl", ".4f"),
    ("beta", "beta", ".3g"),
    ("entropy", "entropy", ".3f"),
    ("clip_ratio/region_mean", "clipped", ".1%"),
    ("tokens_per_s", "tokens/s", ",.0f"),
    ("scoring_time", "scoring s", ".1f"),
)
"""Metric, label, format."""
_RATE_STEPS = 20


class TrainingProgress:
    """Shows the progress of a training. Use as a context manager.

    Args:
        total: optimizer steps of the whole run.
        done: steps that an interrupted run did before.
        stream: receives the output, stdout by default.
        live: show a live bar; by default if ``stream`` is a terminal.
        clock: monotonic seconds.
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

    def steps_begin(self) -> None:
        """Count the time of the steps from now: what came before them is not repeated."""
        self._times = deque([(self._done, self._clock())], maxlen=_RATE_STEPS)

    def step_done(self, step: int, stage: str, figures: Mapping[str, Any]) -> None:
        """Show a finished step.

        Args:
            step: optimizer steps done.
            stage: the current stage.
            figures: the metrics of the step under their names in metrics.jsonl.
        """
        self._times.append((step, self._clock()))
        shown = "  ".join(
            f"{label} {_number(figures[name], form)}"
            for name, label, form in _SHOWN
            if isinstance(figures.get(name), int | float) and math.isfinite(figures[name])
        )
        if self._bar is not None and self._task is not None and self._figures is not None:
            self._bar.update(self._task, completed=step, description=stage)
            self._figures.plain = shown
        else:
            self._print(f"{stage} {step}/{self._total}  {shown}  left {_duration(self._seconds_left(step))}")

    def doing(self, text: str) -> None:
        """Say what takes the next seconds; on a terminal until the next step is done."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=text)
        else:
            self._print(text)

    def note(self, text: str) -> None:
        """Print a line: a warning, or what was resumed."""
        if self._bar is not None:
            self._bar.console.print(harmless(text), markup=False, highlight=False)
        else:
            self._print(text)

    def _print(self, text: str) -> None:
        self._stream.write(harmless(text) + "\n")
        self._stream.flush()

    def _seconds_left(self, step: int) -> float | None:
        (first, then), now = self._times[0], self._clock()
        return (now - then) / (step - first) * (self._total - step) if step > first else None


def _number(value: float, form: str) -> str:
    """A figure in its format; with three digits where three decimals would show fewer."""
    return f"{value:#.3g}" if form == ".3f" and 1e-9 < abs(value) < 0.1 else f"{value:{form}}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
