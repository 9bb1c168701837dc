"""Which problems a task tries before a run, so that nothing is paid for what cannot be scored."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from engine.records import Problem

_SECONDS = 2.0


def tried_before_run(problems: Iterable[Problem]) -> Iterator[Problem]:
    """The first problem, and those after it until two seconds have passed."""
    end = time.monotonic() + _SECONDS
    for problem in problems:
        yield problem
        if time.monotonic() > end:
            return
