"""Progress of an evaluation: a bar with tokens and cost on a terminal, about ten lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any, Self

from tqdm import tqdm

from grpo_training.traffic.evaluation.decisions import ModelDecisions

_LINES = 10


class EvaluationProgress:
    """Shows how many simulations and stored decisions are done, and what they cost. Use as a context manager.

    Args:
        total: simulations and decisions of all policies.
    """

    def __init__(self, total: int) -> None:
        self._total, self._done, self._label = total, 0, ""
        self._model: ModelDecisions | None = None
        self._is_terminal = sys.stderr.isatty()
        self._began = time.monotonic()
        self._bar: tqdm[Any] = tqdm(total=total, file=sys.stderr, leave=False, disable=not self._is_terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def begin(self, policy: str, model: ModelDecisions | None) -> None:
        """Go on with another policy; its model is None for a baseline."""
        self._label, self._model = policy, model
        self._bar.set_description_str(policy, refresh=False)

    def advance(self, count: int) -> None:
        """Count what is done; 0 shows tokens and cost anew."""
        before, self._done = self._done, self._done + count
        self._bar.set_postfix_str(self._spent(), refresh=False)
        self._bar.update(count)
        if count == 0:
            self._bar.refresh()
        total = max(1, self._total)
        if not self._is_terminal and self._done * _LINES // total != before * _LINES // total:
            spent = self._spent()
            seconds = time.monotonic() - self._began
            print(
                f"  {self._label}: {self._done}/{self._total} done, {seconds:.0f} s{', ' + spent if spent else ''}",
                flush=True,
            )

    def _spent(self) -> str:
        if self._model is None:
            return ""
        counters = self._model.counters
        cost = "" if counters.cost_usd is None else f", ${counters.cost_usd:.4f}"
        return (
            f"{counters.requests_sent:,} requests, {counters.in_flight} in flight, "
            f"{counters.prompt_tokens + counters.completion_tokens:,} tokens{cost}"
        )
