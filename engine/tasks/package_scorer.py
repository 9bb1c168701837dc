"""Scores with the code of an optional package, in worker processes that can be killed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from engine.records import Outcome
from engine.sandbox.worker import WorkerPool, WorkResult

_LOAD_LIMIT_S = 120.0


class PackageScorer:
    """Runs the functions ``score`` and ``load`` of a module in a worker process.

    ``score(payload)`` returns ``{"needs_import": True}`` in a process that has not imported the package yet. Then
    ``load(argument)`` imports it there, with a longer time limit.

    Args:
        module: name of the module, in ``engine``.
    """

    def __init__(self, module: str) -> None:
        self._score, self._load = f"{module}:score", f"{module}:load"

    def score(self, payload: Mapping[str, Any], limit_s: float, load_argument: Any = None) -> WorkResult:
        """Score one answer.

        Args:
            payload: JSON values for ``score``.
            limit_s: seconds for it.
            load_argument: a JSON value for ``load``.

        Returns:
            the result of ``score``. ``INFRA_FAULT`` also if the package could not be loaded.
        """
        result = _pool().run(self._score, payload, limit_s)
        while result.outcome is Outcome.OK and result.value.get("needs_import"):
            loaded = _pool().run(self._load, load_argument, _LOAD_LIMIT_S)
            if loaded.outcome is not Outcome.OK:
                return WorkResult(Outcome.INFRA_FAULT, error=f"the scorer did not start: {loaded.error[:200]}")
            result = _pool().run(self._score, payload, limit_s)
        return result


@cache
def _pool() -> WorkerPool:
    return WorkerPool(memory_mb=8192)


def json_or_text(text: str) -> Any:
    """The JSON value of a text, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
