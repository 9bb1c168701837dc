"""Validations made by hand, and a validator that gives prepared ones."""

from engine.records import Outcome
from engine.tasks.phaser.validation.observed import Observed, SceneState
from engine.tasks.phaser.validation.verdict import (
    STAGES,
    ApiUsage,
    ApiUse,
    Gate,
    RuntimeOutcome,
    RuntimeReport,
    SourceSignals,
    Validation,
)

ALL_SIGNALS = ("has_new_phaser_game", "has_scene_in_config", "has_preload", "has_create", "has_update")


def uses(*symbols):
    return tuple(ApiUse(symbol_id=symbol, raw=symbol, line=1, column=0) for symbol in symbols)


def seen(**fields):
    """A run with one scene that shows something."""
    state = SceneState(key="main", created=1, updates=60, active=True, objects=1)
    return Observed(**{"frames": 60, "shows": True, "scenes": (state,), **fields})


def validation(
    *,
    signals=ALL_SIGNALS,
    hits=("Phaser.Game",),
    misses=(),
    must_hits=(),
    must_misses=(),
    outcome=RuntimeOutcome.OK,
    observed=None,
    failed=(),
    skipped=(),
    deterministic=True,
):
    """A validation of a right program, with changes.

    ``failed`` and ``skipped`` are stages; ``outcome`` sets the stage ``runtime`` unless it is skipped.
    """
    gates = {stage: Gate(ok=True) for stage in STAGES}
    if misses:
        gates["api"] = Gate(ok=False)
    if must_misses:
        gates["must_use"] = Gate(ok=False)
    if outcome is not RuntimeOutcome.OK:
        gates["runtime"] = Gate(ok=False, reasons=(str(outcome),))
    gates |= {stage: Gate(ok=False) for stage in failed}
    gates |= {stage: Gate(ok=None, reasons=("skipped",)) for stage in skipped}
    if "runtime" in skipped:
        outcome = RuntimeOutcome.SKIPPED
    if observed is None and outcome is RuntimeOutcome.OK:
        observed = seen()
    return Validation(
        gates=gates,
        signals=SourceSignals(**dict.fromkeys(signals, True)),
        api_usage=ApiUsage(
            hits=uses(*hits), misses=uses(*misses), must_use_hits=must_hits, must_use_misses=must_misses
        ),
        runtime=RuntimeReport(outcome=outcome, observed=observed),
        deterministic=deterministic,
        versions={"validator": "scripted"},
    )


def unavailable():
    return Validation(
        outcome=Outcome.INFRA_FAULT,
        fault={"kind": "validator", "message": "no process"},
        gates={stage: Gate() for stage in STAGES},
        deterministic=False,
    )


class ScriptedValidator:
    """Answers by a function of the request; ``requests`` are those that were made."""

    def __init__(self, answer):
        self._answer = answer
        self.requests = []

    @property
    def versions(self):
        return {"validator": "scripted"}

    def validate(self, request):
        self.requests.append(request)
        return self._answer(request)

    def close(self):
        pass


def find(index, symbol):
    """The row of a symbol in an index of the API, inherited members included; None if there is none."""
    owner, separator, name = symbol.partition("#") if "#" in symbol else symbol.rpartition(".")
    members = [f"{ancestor}{sign}{name}" for ancestor in index.lineage(owner) for sign in "#."] if separator else []
    return next((index._rows[key] for key in (symbol, *members) if key in index._rows), None)
