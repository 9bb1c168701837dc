"""Reward v1, the default: what a program does is paid, not what it says. ``docs/how-to/phaser-games.md`` has the table.

* A reply without code, code that does not parse, unsafe code and a run that was tampered with get 0.
* What a run shows is read from the run: symbols count where they were used, hints where they were observed. Comments,
  strings, padding and code that is never reached earn nothing.
* A stage that was skipped is not measured: its weight is shared by the others. It is never counted as passed. Without a
  run a plan is paid like the code: a program that crashes by its values cannot be told from one that works.
* Caps keep a program that fails early, or ignores its prompt, below one that does what was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from engine.tasks.phaser.drawn_conditions import kinds
from engine.tasks.phaser.hints import drawn_by, holds, is_condition
from engine.tasks.phaser.problems import AskedFeature, GameFacts
from engine.tasks.phaser.reply import GameReply, Plan
from engine.tasks.phaser.rewards.parts import GameReward, Part, gates_of, mean, named_methods, structure
from engine.tasks.phaser.validation.observed import Observed
from engine.tasks.phaser.validation.verdict import STAGES, RuntimeOutcome, Validation

VERSION = "v1"
PLAN_WEIGHT = 0.1

CODE_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"runs": 0.30, "must_use": 0.25, "hints": 0.20, "api": 0.15, "structure": 0.05, "lint": 0.05}
)
PLAN_WEIGHTS: Mapping[str, float] = MappingProxyType({"structure": 0.4, "consistency": 0.6})

NOTHING_CAP = 0.05
"""A program without a running scene, or whose scene shows nothing, or that ends in an error with nothing of what was
asked for."""

_UNCAPPED = {RuntimeOutcome.OK, RuntimeOutcome.SKIPPED, RuntimeOutcome.INFRA_ERROR}
RUN_CAPS: Mapping[RuntimeOutcome, float] = MappingProxyType(
    {
        **dict.fromkeys(set(RuntimeOutcome) - _UNCAPPED, NOTHING_CAP),
        RuntimeOutcome.TAMPERED: 0.0,
        RuntimeOutcome.PRELOAD_ERROR: 0.2,
        RuntimeOutcome.CREATE_ERROR: 0.2,
        RuntimeOutcome.UPDATE_ERROR: 0.3,
    }
)
"""The most that a program may earn whose run ended in this way. After an error in ``preload``, ``create`` or ``update``
it is the cap of a program that has all of what was asked for; it falls with that share to ``NOTHING_CAP``."""

UNASKED_CAP = 0.25
"""The most that a program may earn that runs and has nothing of what was asked for; it rises with the share it has."""

PARTS_CAP = 0.04
"""The same for a prompt whose features are known: it rises with the share of the features that the run shows whole.
Parts of features, which one program has for most prompts, do not raise it above this."""

UNRUN_FAULT_CAP = 0.5
"""The most that a program may earn that was not run, and in which a stage that only reads programs found a fault. It is
less than what any program without a fault earns, also without a plan."""

MOST_OTHER_KINDS, MOST_OTHER_OBJECTS = 8, 60
"""Kinds of objects, and objects, that a game may show besides those that its features ask for. Above it the cap falls
with the square of the ratio: a game that shows everything shows what was asked for, too."""

_READ_ONLY = ("eslint", "api")
_UPDATE_ERROR_RUNS = 0.3


def reward_v1(validation: Validation, reply: GameReply, facts: GameFacts) -> GameReward:
    """The reward of a validated reply.

    Args:
        validation: of its code.
        reply: its plan and code.
        facts: of the prompt.
    """
    code = Part(_code_components(validation, facts), CODE_WEIGHTS, is_present=bool(reply.code.strip()))
    plan = _plan_part(validation, reply.plan, facts)
    cap, reason = _cap(validation, reply, code, facts)
    code_paid, plan_paid = min(code.score, cap), min(plan.score, cap)
    if validation.gates["runtime"].ok is None and plan.is_present:
        plan_paid = code_paid  # a good plan must not lift a program that may crash above one that works
    return GameReward(
        version=VERSION,
        plan=plan,
        code=code,
        plan_weight=PLAN_WEIGHT,
        plan_paid=plan_paid,
        code_paid=code_paid,
        gates=gates_of(validation),
        cap=cap,
        cap_reason=reason,
        evaluated=[stage for stage in STAGES if validation.gates[stage].ok is not None],
    )


def hint_results(validation: Validation, facts: GameFacts) -> dict[str, bool]:
    """The conditions among the hints, and whether the run shows them; empty if the program was not run."""
    if validation.gates["runtime"].ok is None:
        return {}
    seen = validation.runtime.observed
    results = {}
    for hint in facts.eval_hints:
        if is_condition(hint):
            rivals = [one for feature in facts.features if hint not in feature.conditions for one in feature.conditions]
            results[hint] = seen is not None and bool(holds(hint, seen, rivals))
    return results


def feature_results(validation: Validation, facts: GameFacts) -> dict[str, bool]:
    """The features of the prompt, and whether the run shows them whole; empty if they are not known."""
    seen = validation.runtime.observed
    if validation.gates["runtime"].ok is None:
        return {}
    return {one.name: seen is not None and _is_whole(one, facts, seen) for one in facts.features}


def _is_whole(feature: AskedFeature, facts: GameFacts, seen: Observed) -> bool:
    rivals = [hint for other in facts.features if other is not feature for hint in other.conditions]
    return all(holds(hint, seen, rivals) is not False for hint in feature.conditions)


def _code_components(validation: Validation, facts: GameFacts) -> dict[str, float | None]:
    usage, gates = validation.api_usage, validation.gates
    checked = len(usage.must_use_hits) + len(usage.must_use_misses)
    calls = len(usage.hits) + len(usage.misses)
    hints = hint_results(validation, facts)
    return {
        "runs": _runs(validation),
        "must_use": len(usage.must_use_hits) / checked if checked else None,
        "hints": mean(list(hints.values())) if hints else None,
        "api": len(usage.hits) / calls if calls else 0.0,
        "structure": structure(validation.signals),
        "lint": None if gates["eslint"].ok is None else float(gates["eslint"].ok),
    }


def _runs(validation: Validation) -> float | None:
    if validation.gates["runtime"].ok is None:
        return None
    if validation.runtime.outcome is RuntimeOutcome.UPDATE_ERROR:
        return _UPDATE_ERROR_RUNS
    return float(validation.gates["runtime"].ok)


def _cap(validation: Validation, reply: GameReply, code: Part, facts: GameFacts) -> tuple[float, str]:
    """The most that the reply may earn, and the reason: the lowest of all caps that apply."""
    if not reply.code.strip():
        return 0.0, "no_code"
    if not validation.parse_ok:
        return 0.0, "parse_failed"
    if validation.unsafe:
        return 0.0, "unsafe"
    caps = [(1.0, "")]
    signals = validation.signals
    asked = [share for name in ("must_use", "hints") if (share := code.components[name]) is not None]
    if validation.gates["runtime"].ok is None:
        if not signals.has_new_phaser_game or not signals.has_scene_in_config:
            caps.append((NOTHING_CAP, "no_game" if not signals.has_new_phaser_game else "no_scene"))
        faults = [stage for stage in _READ_ONLY if validation.gates[stage].ok is False]
        if faults:
            caps.append((UNRUN_FAULT_CAP, f"{faults[0]}_failed"))
    else:
        outcome = validation.runtime.outcome
        most = RUN_CAPS.get(outcome, 1.0)
        if NOTHING_CAP < most < 1:
            most = NOTHING_CAP + (most - NOTHING_CAP) * (mean(asked) if asked else 0.0)
        caps.append((most, str(outcome)))
        if outcome is RuntimeOutcome.OK and _shows_nothing(validation, code):
            caps.append((NOTHING_CAP, "shows_nothing"))
    if asked:
        caps.append((UNASKED_CAP + (1 - UNASKED_CAP) * mean(asked), "not_what_was_asked"))
    if features := feature_results(validation, facts):
        must_use = code.components["must_use"]
        whole = mean(list(features.values())) * (1.0 if must_use is None else must_use)
        most = PARTS_CAP * mean(asked) + (1 - PARTS_CAP) * whole
        caps.append((most * focus(validation, facts), "not_what_was_asked"))
    cap, reason = min(caps, key=lambda one: one[0])
    return cap, reason if cap < 1 else ""


def focus(validation: Validation, facts: GameFacts) -> float:
    """1 unless the features of the prompt are known and the game shows far more than what they ask for."""
    if not facts.features:
        return 1.0
    seen = validation.runtime.observed
    if seen is None:
        return 0.0
    asked = {id(one) for one in drawn_by((hint for one in facts.features for hint in one.conditions), seen)}
    others = [one for one in seen.drawn if id(one) not in asked]
    ratio = min(1.0, MOST_OTHER_KINDS / max(1, len(kinds(others))), MOST_OTHER_OBJECTS / max(1, len(others)))
    return ratio * ratio


def _shows_nothing(validation: Validation, code: Part) -> bool:
    """Whether the run has nothing on the screen and nothing of what was asked for."""
    seen = validation.runtime.observed
    is_empty = seen is None or seen.display_list == 0
    return is_empty and not code.components["must_use"] and not code.components["hints"]


def _plan_part(validation: Validation, plan: Plan | None, facts: GameFacts) -> Part:
    if plan is None:
        return Part(dict.fromkeys(PLAN_WEIGHTS, 0.0), PLAN_WEIGHTS, is_present=False)
    enough = len(set(plan.steps)) >= (2 if facts.difficulty == "easy" else 3)
    has_requirement = any(len(text) > 1 for text in plan.requirements)
    shares = [share for share in _consistency(validation, plan, facts) if share is not None]
    components = {
        "structure": mean([has_requirement, bool(plan.apis), enough]),
        "consistency": mean(shares) if shares else 0.0,
    }
    return Part(components, PLAN_WEIGHTS)


def _consistency(validation: Validation, plan: Plan, facts: GameFacts) -> list[float | None]:
    """Share of the planned symbols that were used, of the asked symbols that were planned, and of the named methods
    that exist; None where there is nothing to compare.
    """
    used = _used_names(validation)
    apis = list(dict.fromkeys(plan.apis))
    planned = {_name(api) for api in apis if _is_symbol(api)}
    asked = [_name(symbol) for symbol in facts.must_use_apis]
    named = named_methods(plan, validation.signals)
    return [
        mean([_is_symbol(api) and _name(api) in used for api in apis]) if apis else 0.0,
        mean([name in planned for name in asked]) if asked else None,
        mean(named) if named else None,
    ]


def _used_names(validation: Validation) -> set[str]:
    """Last parts of the names of all symbols that the program used: in code that is reached, or in the run."""
    symbols: Sequence[str] = [use.symbol_id for use in validation.api_usage.hits]
    symbols = [*symbols, *validation.api_usage.must_use_hits]
    seen = validation.runtime.observed
    if seen is not None:
        symbols = [*symbols, *seen.calls, *seen.constructed]
    return {_name(symbol) for symbol in symbols}


def _is_symbol(text: str) -> bool:
    """Whether a text names a symbol with its owner; a single word such as "add" would match anything."""
    return " " not in text.strip() and ("." in text or "#" in text)


def _name(symbol: str) -> str:
    return symbol.replace("#", ".").rpartition(".")[2]
