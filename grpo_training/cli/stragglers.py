"""Which problem keeps a run waiting, and for how long."""

from __future__ import annotations

from collections.abc import Callable

from grpo_training.cli.terminal_text import shortened

NAME = 28
"""Columns of the name of a problem."""

_TOLD_FROM_S = 10.0


class Stragglers:
    """Names the first step that is not complete, while groups of later steps wait for it.

    Args:
        clock: monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[int, tuple[str, float]] = {}  # in the order of the steps: name and start
        self._scored: set[int] = set()
        self._told = 0.0  # seconds of the wait that was told last

    def begin(self, step: int, name: str) -> None:
        """A step is worked on. Steps begin in their order."""
        self._open[step] = (name, self._clock())
        if step == next(iter(self._open)):
            self._told = 0.0

    def score(self, step: int) -> None:
        """The group of a step is scored and stored; its analyst may still be asked."""
        if step in self._open:
            self._scored.add(step)
            self.begin(step, self._open[step][0])  # another wait: for its analyst

    def end(self, step: int) -> None:
        """A step is complete."""
        if step == next(iter(self._open), None):
            self._told = 0.0
        self._open.pop(step, None)
        self._scored.discard(step)

    def news(self) -> str:
        """What later groups wait for, such as ``waiting for aime2024_001, 10 s``.

        It is told after 10 s and then each time the wait has doubled; else the text is empty.
        """
        first = self._first()
        if first is None or first[1] < max(_TOLD_FROM_S, 2 * self._told):
            return ""
        step, self._told = first
        what = "the analyst about " if step in self._scored else ""
        return f"waiting for {what}{shortened(self._open[step][0], NAME)}, {self._told:.0f} s"

    def _first(self) -> tuple[int, float] | None:
        """The first open step and since when it is waited for; None if no later group is scored."""
        step = next(iter(self._open), None)
        if step is None or not self._scored - {step}:
            return None
        return step, self._clock() - self._open[step][1]
