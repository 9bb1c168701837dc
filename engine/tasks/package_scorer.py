"""Scores with the code of an optional package, in worker processes that can be killed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from engine.sandbox.worker import KillablePool, WorkResult

_WALL_PER_CPU = 5
_LOAD_LIMIT_S = 120.0


class PackageScorer:
    """Runs the function ``score`` of a module in worker processes, each of which first calls its ``load`` once.

    Args:
        module: name of the module, in ``engine``.
    """

    def __init__(self, module: str) -> None:
        self._score, self._load = f"{module}:score", f"{module}:load"

    def score(self, payload: Mapping[str, Any], limit_s: float, load_argument: Any = None) -> WorkResult:
        """Score one answer.

        Args:
            payload: JSON values for ``score``.
            limit_s: seconds of processor time for ``score``. Its limit of wall-clock time is five times as long, as a
                scorer may wait for something; ``load`` has a longer time limit of its own.
            load_argument: a JSON value for ``load``.

        Returns:
            the result of ``score``. ``INFRA_FAULT`` also if the package could not be loaded.
        """
        return _pool().run(self._score, payload, limit_s, (self._load, load_argument), wall_s=_WALL_PER_CPU * limit_s)


@cache
def _pool() -> KillablePool:
    return KillablePool(memory_mb=8192, start_timeout_s=_LOAD_LIMIT_S)


def json_or_text(text: str) -> Any:
    """The JSON value of a text, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
