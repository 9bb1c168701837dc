"""What both versions of the reward consist of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.statistics.groups import combine_rewards
from engine.tasks.phaser.reply import Plan
from engine.tasks.phaser.validation.verdict import SourceSignals, Validation


@dataclass(frozen=True)
class Part:
    """The plan or the code of a reply.

    Args:
        components: name -> value in [0, 1]; None if it was not measured.
        weights: of the components.
        is_present: whether the reply has this part. Without it the score is 0.
        cap: the most that the part may score.
    """

    components: Mapping[str, float | None]
    weights: Mapping[str, float]
    is_present: bool = True
    cap: float = 1.0

    @property
    def score(self) -> float:
        """The weighted mean of the measured components, up to the cap."""
        combined = combine_rewards(self.components, self.weights) if self.is_present else None
        return min(combined or 0.0, self.cap)

    def as_row(self) -> dict[str, Any]:
        """The part as a scored row has it."""
        return {
            "present": self.is_present,
            "score": self.score,
            "components": dict(self.components),
            "weights": dict(self.weights),
        }


@dataclass(frozen=True)
class GameReward:
    """The reward of a reply.

    Args:
        version: of the formulas.
        plan, code: the parts.
        plan_weight: weight of the plan; the code has the rest.
        plan_paid, code_paid: what of the parts' scores counts, after all gates and caps.
        gates: ``parse_ok``, ``unsafe``, ``lint_ok``, ``runtime_ok``; None where a stage did not run.
        cap: the most that the total may be, and ``cap_reason``: why.
        evaluated: the stages that were evaluated.
    """

    version: str
    plan: Part
    code: Part
    plan_weight: float
    plan_paid: float
    code_paid: float
    gates: Mapping[str, bool | None]
    cap: float = 1.0
    cap_reason: str = ""
    evaluated: Sequence[str] = ()

    @property
    def total(self) -> float:
        """The total in [0, 1]."""
        return self.plan_weight * self.plan_paid + (1 - self.plan_weight) * self.code_paid

    def as_row(self) -> dict[str, Any]:
        """The reward as a scored row has it, with the keys of seed 000."""
        return {
            "version": self.version,
            "total": self.total,
            "plan": self.plan.as_row(),
            "code": {key: value for key, value in self.code.as_row().items() if key != "present"},
            "gates": dict(self.gates),
            "cap": self.cap,
            "cap_reason": self.cap_reason,
            "evaluated": list(self.evaluated),
        }


def named_methods(plan: Plan, signals: SourceSignals) -> list[bool]:
    """Whether the program has each of the scene's methods that the steps of a plan name."""
    text = " ".join(plan.steps).lower()
    has = {"preload": signals.has_preload, "create": signals.has_create, "update": signals.has_update}
    return [is_there for name, is_there in has.items() if name in text]


def structure(signals: SourceSignals) -> float:
    """The share of what a game is made of: the game, its scene, and the two methods that make it."""
    return mean([signals.has_new_phaser_game, signals.has_scene_in_config, signals.has_preload, signals.has_create])


def unmeasured(row: Mapping[str, Any]) -> dict[str, Any]:
    """A reward as a row with null in place of every figure and gate; names and weights stay."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if key in ("version", "weights", "evaluated", "present"):
            found[key] = value
        else:
            found[key] = unmeasured(value) if isinstance(value, Mapping) else None
    return found


def gates_of(validation: Validation) -> dict[str, bool | None]:
    """The gates as a scored row has them."""
    return {
        "parse_ok": validation.parse_ok,
        "unsafe": validation.unsafe,
        "lint_ok": validation.gates["eslint"].ok,
        "runtime_ok": validation.gates["runtime"].ok,
    }


def mean(values: Sequence[bool | float]) -> float:
    """The mean of values, of which there is at least one."""
    return sum(map(float, values)) / len(values)
