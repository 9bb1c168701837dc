"""The verdict on one answer, and how answers are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from engine.records import Outcome  # a worker is started without it

Comparison = Literal["exact", "measured"]
"""How answers are compared: as exact values, or as measured quantities with a unit and a tolerance."""

VERIFIER_VERSION = 15
"""Increased with each change of verdicts: in reading replies, knowns, formulas or answers, or in comparing them.

It is stored with each rollout as ``reward_detail.verifier``. Records without it were scored by version 1.
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision about one answer.

    Args:
        correct: None only where no worker could be started.
        outcome: ``ok``, or ``verifier_timeout`` where the worker was killed (then not correct).
        method: the layer that decided: ``integer``, ``rational``, ``numeric``, ``units``, ``set``, ``interval``,
            ``symbolic`` or ``text``.
        detail: the compared texts, shortened.
    """

    correct: bool | None
    outcome: Outcome
    method: str
    detail: str
