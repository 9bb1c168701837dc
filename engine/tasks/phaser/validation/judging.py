"""From what the Node.js processes report to a :class:`Validation`. Reports of a run are untrusted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from engine.tasks.phaser.validation.api_index import ApiIndex
from engine.tasks.phaser.validation.observed import Observed
from engine.tasks.phaser.validation.verdict import (
    STAGES,
    ApiUsage,
    ApiUse,
    Finding,
    Gate,
    RuntimeOutcome,
    RuntimeReport,
    SourceSignals,
    ValidationRequest,
)

_GENERATED_TEXTURE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_INPUT_EVENT = re.compile(r"pointer|drag|drop|gameobject|gameout|gameover|key(down|up)|down$|up$|wheel")
_POINTER_EVENT = re.compile(r"pointer|drag|drop|wheel|gameout|gameover")
_MAX_REASONS = 5
_NOT_PARSED = Gate(ok=None, reasons=("not run: the code does not parse",))


@dataclass(frozen=True)
class StaticResult:
    """The stages that only read the program.

    Args:
        gates: their results; ``must_use`` by reachable uses in the source.
        code: the program in the form in which it is run; None if it does not parse.
        must_use: what a run has to show for each known symbol, for the runtime.
        unknown: symbols that do not exist.
        used: symbols that reachable code uses.
    """

    gates: dict[str, Gate]
    findings: tuple[Finding, ...] = ()
    signals: SourceSignals = field(default_factory=SourceSignals)
    hits: tuple[ApiUse, ...] = ()
    misses: tuple[ApiUse, ...] = ()
    code: str | None = None
    must_use: tuple[Mapping[str, Any], ...] = ()
    unknown: tuple[str, ...] = ()
    used: frozenset[str] = frozenset()
    webgl_only: tuple[str, ...] = ()


def unparsed(message: str, line: int = 1, column: int = 0, *, code: str = "parse_error") -> StaticResult:
    """The result for code that does not parse."""
    gates = dict.fromkeys(STAGES, _NOT_PARSED)
    gates["parse"] = Gate(ok=False, reasons=(message,))
    return StaticResult(gates, (Finding(code=code, message=message, line=line, column=column),))


def static_result(answer: Mapping[str, Any], request: ValidationRequest, index: ApiIndex) -> StaticResult:
    """The result of the static process's answer.

    Args:
        answer: a message of ``src/static.js``.
        request: the request.
        index: for the nearest symbols of a miss.
    """
    if "parse_error" in answer:
        error = answer["parse_error"]
        return unparsed(error["message"], error["line"], error["column"])
    safety = [Finding(severity="error", **found) for found in answer["safety"]]
    lint = [Finding(**found) for found in answer["eslint"] or ()]
    lint_errors = [finding for finding in lint if finding.severity == "error"]
    misses = tuple(ApiUse(**found, near=index.near(found["symbol_id"])) for found in answer["misses"])
    signals = SourceSignals(**answer["signals"])
    missing = [text for name, text in _NEEDED_SIGNALS.items() if not getattr(signals, name)]
    gates = {
        "parse": Gate(ok=True),
        "safety": _gate(f"{finding.code}: {finding.message}" for finding in safety),
        "signals": _gate(missing),
        "eslint": Gate(ok=None, reasons=("skipped",))
        if request.skip_eslint
        else _gate(f"{finding.code}: {finding.message} (line {finding.line})" for finding in lint_errors),
        "api": _gate(_miss_text(miss) for miss in misses),
    }
    findings = [*safety, *lint]
    findings += [
        Finding(code="api_miss", message=_miss_text(miss), line=miss.line, column=miss.column) for miss in misses
    ]
    return StaticResult(
        gates,
        tuple(findings),
        signals,
        tuple(ApiUse(**found) for found in answer["hits"]),
        misses,
        answer["code"],
        tuple(answer["must_use"]),
        tuple(answer["must_use_unknown"]),
        frozenset(answer["must_use_static"]),
        tuple(answer["webgl_only"]),
    )


_NEEDED_SIGNALS = {
    "has_new_phaser_game": "no reachable code makes a game with new Phaser.Game",
    "has_scene_in_config": "the game is given no scene",
}


def must_use(
    request: ValidationRequest, static: StaticResult, report: RuntimeReport, used: Iterable[str]
) -> tuple[Gate, ApiUsage]:
    """Which must-use symbols were used: by execution if the program ran, by reachable source otherwise.

    Args:
        request: the request.
        static: the static stages.
        report: the run.
        used: symbols whose use the run observed.
    """
    if report.observed is None:
        found = set(static.used)
    else:
        found = set(used) | _implied(static.must_use, report.observed)
    hits = tuple(symbol for symbol in request.must_use if symbol in found)
    misses = tuple(symbol for symbol in request.must_use if symbol not in found)
    usage = ApiUsage(hits=static.hits, misses=static.misses, must_use_hits=hits, must_use_misses=misses)
    reasons = [
        f"{symbol} does not exist in this version of Phaser" if symbol in static.unknown else f"{symbol} was not used"
        for symbol in misses
    ]
    return _gate(reasons), usage


def _implied(specifications: Sequence[Mapping[str, Any]], observed: Observed) -> set[str]:
    """Symbols whose use shows in the state of the game instead of in a call."""
    found = set()
    for spec in specifications:
        name = ".".join(spec["path"])
        if spec["kind"] == "event" and spec["value"] in observed.input_events + observed.other_events:
            found.add(spec["id"])
        if spec["kind"] != "class":
            continue
        created = any(scene.created for scene in observed.scenes)
        shown = {
            "Phaser.Scene": created,
            "Phaser.Game": created,
            "Phaser.Input.Pointer": any(_POINTER_EVENT.search(event) for event in observed.input_events),
            "Phaser.Physics.Arcade.Body": any(scene.bodies for scene in observed.scenes),
            "Phaser.Physics.Arcade.StaticBody": any(scene.static_bodies for scene in observed.scenes),
        }
        if shown.get(name):
            found.add(spec["id"])
    return found


def runtime_report(
    outcome_text: object, report_text: object, webgl_only: tuple[str, ...]
) -> tuple[RuntimeReport, set[str]]:
    """The report of a run, with the must-use symbols that it observed.

    Args:
        outcome_text: the outcome as JSON text.
        report_text: the state as JSON text.
        webgl_only: uses of WebGL in the source.

    Raises:
        ValueError: they are not what the driver writes.
    """
    if not isinstance(outcome_text, str) or not isinstance(report_text, str):
        raise ValueError("the report is no text")
    try:
        outcome = json.loads(outcome_text)
        name, message, frame = RuntimeOutcome(outcome["outcome"]), outcome["message"], outcome["frame"]
        state = json.loads(report_text)
        observed = None if state is None else _observed(state)
        used = set(state["must_use"]) if state else set()
    except (ValidationError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"the report is malformed: {error}") from None
    if name is RuntimeOutcome.OK and observed is None:
        raise ValueError("a run that ended well has no state")
    if name is RuntimeOutcome.OK and observed is not None and not observed.constructed and not observed.display_list:
        name, message = RuntimeOutcome.NOTHING_SHOWN, "the game made no game object"
    if name is RuntimeOutcome.OK and observed is not None and observed.display_list and not observed.objects_seen:
        name, message = RuntimeOutcome.NOTHING_SHOWN, "no game object was ever visible in the picture"
    report = RuntimeReport(
        outcome=name,
        message=str(message)[:300],
        frame=frame if isinstance(frame, int) and frame >= 0 else None,
        webgl_only=webgl_only,
        observed=observed,
    )
    return report, {symbol for symbol in used if isinstance(symbol, str)}


_READ = {"textures", "input_events", "other_events", "signals", "signals_at_start"}
_AS_REPORTED = Observed.model_fields.keys() - _READ - {"reacted_to_keys", "reacted_to_pointer"}


def _observed(state: Mapping[str, Any]) -> Observed:
    listeners = [str(name) for name in state["listeners"]]
    return Observed(
        **{key: state[key] for key in _AS_REPORTED},
        textures=tuple(key for key in state["textures"] if not _GENERATED_TEXTURE.fullmatch(key)),
        input_events=tuple(name for name in listeners if _INPUT_EVENT.search(name)),
        other_events=tuple(name for name in listeners if not _INPUT_EVENT.search(name)),
        signals=_signals(state["signals_text"]),
        signals_at_start=_signals(state["signals_at_start_text"]),
    )


def _signals(text: object) -> Any:
    try:
        return None if text is None else json.loads(str(text))
    except (ValueError, RecursionError):
        return None


def _miss_text(miss: ApiUse) -> str:
    near = f"; did you mean {miss.near[0]}?" if miss.near else ""
    return f"{miss.symbol_id} does not exist (line {miss.line}){near}"


def _gate(reasons: Iterable[str]) -> Gate:
    found = tuple(reasons)
    return Gate(ok=not found, reasons=found[:_MAX_REASONS])


def runtime_gate(request: ValidationRequest, report: RuntimeReport) -> Gate:
    """The gate of a run."""
    if report.outcome is RuntimeOutcome.SKIPPED:
        return Gate(ok=None, reasons=("skipped" if request.skip_runtime else report.message,))
    if report.outcome is RuntimeOutcome.OK:
        return Gate(ok=True)
    at = f" in frame {report.frame}" if report.frame is not None else ""
    return Gate(ok=False, reasons=(f"{report.outcome.value}{at}: {report.message}",))
