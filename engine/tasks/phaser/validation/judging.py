"""From what the Node.js processes report to the parts of a :class:`Validation`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

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

_MAX_REASONS = 5
_NOT_PARSED = Gate(ok=None, reasons=("not run: the code does not parse",))


@dataclass(frozen=True)
class StaticResult:
    """The stages that only read the program.

    Args:
        gates: results of all stages but ``runtime``. ``must_use``: reachable code uses each symbol.
        findings: errors and warnings.
        signals: what of a game the program has.
        api_usage: uses of Phaser's API.
        run_options: how the program has to be run: ``is_module``, ``reads_input``, ``webgl``.
    """

    gates: dict[str, Gate]
    findings: tuple[Finding, ...] = ()
    signals: SourceSignals = field(default_factory=SourceSignals)
    api_usage: ApiUsage = field(default_factory=ApiUsage)
    run_options: Mapping[str, bool] = field(default_factory=dict)


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
    safety = [Finding(severity="error", **finding) for finding in answer["safety"]]
    lint = [Finding(**finding) for finding in answer["eslint"] or ()]
    lint_errors = [finding for finding in lint if finding.severity == "error"]
    misses = tuple(ApiUse(**use, near=index.near(use["symbol_id"])) for use in answer["misses"])
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
    used = set(answer["must_use"])
    usage = ApiUsage(
        hits=tuple(ApiUse(**use) for use in answer["hits"]),
        misses=misses,
        must_use_hits=tuple(symbol for symbol in request.must_use if symbol in used),
        must_use_misses=tuple(symbol for symbol in request.must_use if symbol not in used),
    )
    unknown = set(answer["must_use_unknown"])
    gates["must_use"] = _gate(
        f"{symbol} does not exist in this version of Phaser" if symbol in unknown else f"{symbol} was not used"
        for symbol in usage.must_use_misses
    )
    options = {"is_module": answer["is_module"], "reads_input": answer["reads_input"], "webgl": answer["needs_webgl"]}
    return StaticResult(gates, tuple(findings), signals, usage, options)


_NEEDED_SIGNALS = {
    "has_new_phaser_game": "no reachable code makes a game with new Phaser.Game",
    "has_scene_in_config": "the game is given no scene",
}


def runtime_report(answer: Mapping[str, Any]) -> RuntimeReport:
    """The report of a run from a message of ``src/browser.js``. A part of it comes from the page and is untrusted."""
    frame, observed = answer["frame"], answer["observed"]
    try:
        return RuntimeReport(
            outcome=RuntimeOutcome(answer["outcome"]),
            message=answer["message"],
            frame=frame if isinstance(frame, int) and frame >= 0 else None,
            observed=None if observed is None else Observed.model_validate(observed),
            screenshot=answer["screenshot"],
        )
    except ValueError as error:
        return RuntimeReport(outcome=RuntimeOutcome.TAMPERED, message=f"the run could not be followed: {error}"[:300])


def _miss_text(miss: ApiUse) -> str:
    near = f"; did you mean {miss.near[0]}?" if miss.near else ""
    return f"{miss.symbol_id} does not exist (line {miss.line}){near}"


def _gate(reasons: Iterable[str]) -> Gate:
    texts = tuple(reasons)
    return Gate(ok=not texts, reasons=texts[:_MAX_REASONS])


def runtime_gate(request: ValidationRequest, report: RuntimeReport) -> Gate:
    """The gate of a run."""
    if report.outcome is RuntimeOutcome.SKIPPED:
        return Gate(ok=None, reasons=("skipped" if request.skip_runtime else report.message,))
    if report.outcome is RuntimeOutcome.OK:
        return Gate(ok=True)
    at = f" in frame {report.frame}" if report.frame is not None else ""
    return Gate(ok=False, reasons=(f"{report.outcome.value}{at}: {report.message}",))
