"""The reward of a game, by the formulas of the document: a plan and a program, each with its components.

Both parts earn nothing if the code does not parse or is unsafe. A program whose run failed earns at most 0.2 for its
code. A stage that was skipped counts as passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.statistics.groups import combine_rewards
from engine.tasks.phaser.problems import GameFacts
from engine.tasks.phaser.reply import GameReply, Plan
from engine.tasks.phaser.validation.verdict import RuntimeOutcome, Validation

VERSION = "v0"
PLAN_WEIGHT = 0.15

_PLAN = {"structure": 0.30, "req_api": 0.20, "consistency": 0.50}
_CODE = {"functional": 0.30, "api_accuracy": 0.25, "runtime": 0.20, "quality": 0.15, "format": 0.10}
_RUNTIME_CAP = 0.20
_FULL_LINES = 20
_SHORTEST_NAME = 3


@dataclass(frozen=True)
class Part:
    """The plan or the code of a reply.

    Args:
        components: name -> value in [0, 1].
        weights: of the components.
        is_present: whether the reply has this part. Without it the score is 0.
        cap: the most that the part may score.
    """

    components: Mapping[str, float]
    weights: Mapping[str, float]
    is_present: bool = True
    cap: float = 1.0

    @property
    def score(self) -> float:
        """The weighted mean of the components, up to the cap."""
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
        plan, code: the parts.
        is_gated: whether the code does not parse or is unsafe; then nothing is paid.
        gates: ``parse_ok``, ``unsafe``, ``lint_ok``, ``runtime_ok``; None where a stage did not run.
    """

    plan: Part
    code: Part
    is_gated: bool
    gates: Mapping[str, bool | None]

    @property
    def paid(self) -> Mapping[str, float]:
        """What of the scores of ``plan`` and ``code`` counts."""
        return {name: 0.0 if self.is_gated else part.score for name, part in (("plan", self.plan), ("code", self.code))}

    @property
    def total(self) -> float:
        """The total in [0, 1]."""
        return PLAN_WEIGHT * self.paid["plan"] + (1 - PLAN_WEIGHT) * self.paid["code"]

    def as_row(self) -> dict[str, Any]:
        """The reward as a scored row has it, with the keys of seed 000."""
        return {
            "version": VERSION,
            "total": self.total,
            "plan": self.plan.as_row(),
            "code": {key: value for key, value in self.code.as_row().items() if key != "present"},
            "gates": dict(self.gates),
        }


def game_reward(validation: Validation, reply: GameReply, facts: GameFacts) -> GameReward:
    """The reward of a validated reply.

    Args:
        validation: of its code. Stages that were skipped count as passed.
        reply: its plan and code.
        facts: of the prompt.
    """
    return GameReward(
        plan=_plan_part(validation, reply, facts),
        code=_code_part(validation, reply, facts),
        is_gated=not validation.parse_ok or validation.unsafe,
        gates={
            "parse_ok": validation.parse_ok,
            "unsafe": validation.unsafe,
            "lint_ok": validation.gates["eslint"].ok,
            "runtime_ok": validation.gates["runtime"].ok,
        },
    )


def unmeasured(row: Mapping[str, Any]) -> dict[str, Any]:
    """A reward as a row with null in place of every figure and gate; names and weights stay."""
    kept = {key: row[key] for key in ("version", "weights", "present") if key in row}
    return {key: unmeasured(value) if isinstance(value, Mapping) else None for key, value in row.items()} | kept


def _plan_part(validation: Validation, reply: GameReply, facts: GameFacts) -> Part:
    plan = reply.plan
    if plan is None:
        return Part(dict.fromkeys(_PLAN, 0.0), _PLAN, is_present=False)
    has_requirement, has_apis = bool(plan.requirements), bool(plan.apis)
    text, signals = " ".join(plan.steps).lower(), validation.signals
    has = {"preload": signals.has_preload, "create": signals.has_create, "update": signals.has_update}
    named = [is_there for name, is_there in has.items() if name in text]
    enough = len(plan.steps) >= (2 if facts.difficulty == "easy" else 3)
    components = {
        "structure": _mean([has_requirement, has_apis, enough]),
        "req_api": float(has_requirement and has_apis),
        "consistency": 0.7 * _found_share(plan, reply.code) + 0.3 * (_mean(named) if named else 1.0),
    }
    return Part(components, _PLAN)


def _found_share(plan: Plan, code: str) -> float:
    text = code.lower()
    return _mean([any(form in text for form in _forms(api)) for api in plan.apis]) if plan.apis else 0.0


def _forms(api: str) -> list[str]:
    name = api.lower()
    forms = [name, name.rpartition("#")[2], name.rpartition(".")[2], name.removeprefix("phaser.")]
    return [form for form in forms if len(form) >= _SHORTEST_NAME]


def _code_part(validation: Validation, reply: GameReply, facts: GameFacts) -> Part:
    signals, usage, gates = validation.signals, validation.api_usage, validation.gates
    checks = len(usage.must_use_hits) + len(usage.must_use_misses)
    used = 1 - len(usage.must_use_misses) / max(1, checks)
    calls = len(usage.hits) + len(usage.misses)
    is_api_ok = not usage.misses and not usage.must_use_misses
    structure = [signals.has_new_phaser_game, signals.has_scene_in_config, signals.has_preload, signals.has_create]
    lines = sum(bool(line.strip()) for line in reply.code.split("\n"))
    components = {
        "functional": 0.5 * min(1.0, _mean(structure) + 0.2 * signals.has_update) + 0.5 * used,
        "api_accuracy": len(usage.hits) / calls if calls else float(is_api_ok),
        "runtime": float(gates["runtime"].ok is not False),
        "quality": float(gates["eslint"].ok is not False),
        "format": min(1.0, lines / _FULL_LINES) if signals.has_new_phaser_game else 0.0,
    }
    failed_run = validation.runtime.outcome not in (RuntimeOutcome.OK, RuntimeOutcome.SKIPPED)
    is_safe = validation.parse_ok and not validation.unsafe
    return Part(components, _CODE, is_present=is_safe, cap=_RUNTIME_CAP if failed_run else 1.0)


def _mean(values: Sequence[bool | float]) -> float:
    """The mean of values, of which there is at least one."""
    return sum(map(float, values)) / len(values)
