"""Which problem keeps a run waiting, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Callable

from grpo_training.cli.terminal_text import shortened

NAME = 28
"""Columns of the name of a problem."""

_SHOWN_FROM_S = 2.0
_TOLD_FROM_S = 10.0


class Stragglers:
    """Names the first step that is not complete, while groups of later steps wait for it.

    Args:
        clock: monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._guard = threading.RLock()  # a footer reads in a thread of its own
        self._open: dict[int, tuple[str, float]] = {}  # in the order of the steps: name and start
        self._scored: set[int] = set()
        self._told = 0.0  # seconds of the wait that was told last

    def begin(self, step: int, name: str) -> None:
        """A step is worked on. Steps begin in their order."""
        with self._guard:
            self._open[step] = (name, self._clock())
            if step == next(iter(self._open)):
                self._told = 0.0

    def score(self, step: int) -> None:
        """The group of a step is scored and stored; its analyst may still be asked."""
        with self._guard:
            if step in self._open:
                self._scored.add(step)
                self.begin(step, self._open[step][0])  # another wait: for its analyst

    def end(self, step: int) -> None:
        """A step is complete."""
        with self._guard:
            if step == next(iter(self._open), None):
                self._told = 0.0
            self._open.pop(step, None)
            self._scored.discard(step)

    def text(self) -> str:
        """What later groups wait for, such as ``waiting for aime2024_001, 10 s``; empty if nothing."""
        with self._guard:
            found = self._first()
            return "" if found is None or found[1] < _SHOWN_FROM_S else self._text(*found)

    def news(self) -> str:
        """As :meth:`text`, once after 10 s and then each time the wait has doubled; else empty."""
        found = self._first()
        if found is None:
            return ""
        step, seconds = found
        if seconds < max(_TOLD_FROM_S, 2 * self._told):
            return ""
        self._told = seconds
        return self._text(step, seconds)

    def _first(self) -> tuple[int, float] | None:
        """The first open step and since when it is waited for; None if no later group is scored."""
        step = next(iter(self._open), None)
        if step is None or not self._scored - {step}:
            return None
        return step, self._clock() - self._open[step][1]

    def _text(self, step: int, seconds: float) -> str:
        what = "the analyst about " if step in self._scored else ""
        return f"waiting for {what}{shortened(self._open[step][0], NAME)}, {seconds:.0f} s"
