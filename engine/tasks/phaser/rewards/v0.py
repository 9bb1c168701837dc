"""Reward v0: the formulas of seed 000, for comparison with files of that format. Version 1 closes their holes."""

from __future__ import annotations

from engine.tasks.phaser.problems import GameFacts
from engine.tasks.phaser.reply import GameReply, Plan
from engine.tasks.phaser.rewards.parts import GameReward, Part, gates_of, mean, named_methods, structure
from engine.tasks.phaser.validation.verdict import RuntimeOutcome, Validation

VERSION = "v0"
PLAN_WEIGHT = 0.15

_PLAN = {"structure": 0.30, "req_api": 0.20, "consistency": 0.50}
_CODE = {"functional": 0.30, "api_accuracy": 0.25, "runtime": 0.20, "quality": 0.15, "format": 0.10}
_RUNTIME_CAP = 0.20
_FULL_LINES = 20
_SHORTEST_NAME = 3


def reward_v0(validation: Validation, reply: GameReply, facts: GameFacts) -> GameReward:
    """The reward of a validated reply.

    Args:
        validation: of its code. Stages that were skipped count as passed.
        reply: its plan and code.
        facts: of the prompt.
    """
    plan = _plan_part(validation, reply, facts)
    code = _code_part(validation, reply, facts)
    is_gated = not validation.parse_ok or validation.unsafe
    return GameReward(
        version=VERSION,
        plan=plan,
        code=code,
        plan_weight=PLAN_WEIGHT,
        plan_paid=0.0 if is_gated else plan.score,
        code_paid=0.0 if is_gated else code.score,
        gates=gates_of(validation),
    )


def _plan_part(validation: Validation, reply: GameReply, facts: GameFacts) -> Part:
    plan = reply.plan
    if plan is None:
        return Part(dict.fromkeys(_PLAN, 0.0), _PLAN, is_present=False)
    has_requirement, has_apis = bool(plan.requirements), bool(plan.apis)
    named = named_methods(plan, validation.signals)
    enough = len(plan.steps) >= (2 if facts.difficulty == "easy" else 3)
    components = {
        "structure": mean([has_requirement, has_apis, enough]),
        "req_api": float(has_requirement and has_apis),
        "consistency": 0.7 * _found_share(plan, reply.code) + 0.3 * (mean(named) if named else 1.0),
    }
    return Part(components, _PLAN, is_present=True)


def _found_share(plan: Plan, code: str) -> float:
    text = code.lower()
    return mean([any(form in text for form in _forms(api)) for api in plan.apis]) if plan.apis else 0.0


def _forms(api: str) -> list[str]:
    whole = api.lower()
    forms = [whole, whole.rpartition("#")[2], whole.rpartition(".")[2], whole.removeprefix("phaser.")]
    return [form for form in forms if len(form) >= _SHORTEST_NAME]


def _code_part(validation: Validation, reply: GameReply, facts: GameFacts) -> Part:
    signals, usage, gates = validation.signals, validation.api_usage, validation.gates
    checks = len(usage.must_use_hits) + len(usage.must_use_misses)
    used = 1 - len(usage.must_use_misses) / max(1, checks)
    calls = len(usage.hits) + len(usage.misses)
    is_api_ok = not usage.misses and not usage.must_use_misses
    lines = sum(bool(line.strip()) for line in reply.code.split("\n"))
    components = {
        "functional": 0.5 * min(1.0, structure(signals) + 0.2 * signals.has_update) + 0.5 * used,
        "api_accuracy": len(usage.hits) / calls if calls else float(is_api_ok),
        "runtime": float(gates["runtime"].ok is not False),
        "quality": float(gates["eslint"].ok is not False),
        "format": min(1.0, lines / _FULL_LINES) if signals.has_new_phaser_game else 0.0,
    }
    failed_run = validation.runtime.outcome not in (RuntimeOutcome.OK, RuntimeOutcome.SKIPPED)
    is_safe = validation.parse_ok and not validation.unsafe
    return Part(components, _CODE, is_present=is_safe, cap=_RUNTIME_CAP if failed_run else 1.0)
