"""Progress of a training on the terminal: a bar of tqdm, or plain lines where the output is not a terminal."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from tqdm import tqdm

from grpo_training.cli.terminal_text import harmless

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


class TrainingProgress:
    """Shows the progress of a training.

    Args:
        total: optimizer steps of the whole run.
        done: steps that an interrupted run did before.
        stream: receives the output, stdout by default.
        clock: monotonic seconds.
    """

    def __init__(
        self, total: int, *, done: int = 0, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total, self._clock = total, clock
        self._stream = stream or sys.stdout
        self._first, self._began = done, clock()
        self._bar: tqdm[Any] = tqdm(
            total=total, initial=done, file=self._stream, disable=not self._stream.isatty(), leave=False
        )

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()

    def steps_begin(self) -> None:
        """Count the time of the steps from now: what came before them is not repeated."""
        self._began = self._clock()

    def step_done(self, step: int, stage: str, figures: Mapping[str, Any]) -> None:
        """Show a finished step.

        Args:
            step: optimizer steps done.
            stage: the current stage.
            figures: the metrics of the step under their names in metrics.jsonl.
        """
        shown = "  ".join(
            f"{label} {_number(figures[name], form)}"
            for name, label, form in _SHOWN
            if isinstance(figures.get(name), int | float) and math.isfinite(figures[name])
        )
        if self._bar.disable:
            seconds = (self._clock() - self._began) / (step - self._first) * (self._total - step)
            self.note(f"{stage} {step}/{self._total}  {shown}  left {tqdm.format_interval(seconds)}")
            return
        self._bar.set_description(stage, refresh=False)
        self._bar.set_postfix_str(shown, refresh=False)
        self._bar.update(step - self._bar.n)

    def doing(self, text: str) -> None:
        """Say what takes the next seconds; on a terminal until the next step is done."""
        if self._bar.disable:
            self.note(text)
        else:
            self._bar.set_description(text)

    def note(self, text: str) -> None:
        """Print a line: a warning, or what was resumed."""
        if self._bar.disable:
            self._stream.write(harmless(text) + "\n")
            self._stream.flush()
        else:
            self._bar.write(harmless(text), file=self._stream)


def _number(value: float, form: str) -> str:
    """A figure in its format; with three digits where three decimals would show fewer."""
    return f"{value:#.3g}" if form == ".3f" and 1e-9 < abs(value) < 0.1 else f"{value:{form}}"
