"""The step that validates one program and prints what was found."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from engine.contract.checks import CheckLevel, CheckResult, failed, passed, skipped, warned
from engine.errors import ConfigurationError, MissingInputError
from engine.records import Outcome
from engine.tasks.phaser.hints import is_condition
from engine.tasks.phaser.options import GameOptions
from engine.tasks.phaser.problems import GameFacts
from engine.tasks.phaser.rewards.v1 import hint_results
from engine.tasks.phaser.validation.screenshot import write_screenshot
from engine.tasks.phaser.validation.shared_validator import shared_validator
from engine.tasks.phaser.validation.verdict import Validation
from grpo_training.cli.check_report import CheckReport
from grpo_training.phaser.settings import ValidateSettings


def validate(settings: ValidateSettings) -> int:
    """Validate a file. Returns 1 if a stage fails or a condition does not hold.

    Raises:
        MissingInputError: there is no such file.
        ConfigurationError: the validator is not available.
    """
    if not settings.code.is_file():
        raise MissingInputError(f"File not found: {settings.code}")
    code = settings.code.read_text(encoding="utf-8", errors="replace")
    facts = GameFacts(must_use_apis=_parts(settings.must_use), eval_hints=_parts(settings.hints))
    runtime = settings.runtime or ("headless" if settings.screenshot is None else "chromium")
    options = GameOptions(skip_runtime=settings.skip_runtime, skip_eslint=settings.skip_eslint, frames=settings.frames)
    request = options.request(code, facts).model_copy(update={"screenshot": settings.screenshot is not None})
    found = shared_validator(settings.api_index, runtime).validate(request)
    if found.outcome is Outcome.INFRA_FAULT:
        raise ConfigurationError("The program could not be validated", why=found.fault.message if found.fault else "")
    if settings.screenshot is not None and found.screenshot is not None:
        write_screenshot(settings.screenshot, found.screenshot)
    if settings.as_json:
        print(json.dumps(found.rows(), indent=2))
        return int(any(result.level is CheckLevel.FAIL for result in _results(found, facts)))
    report = CheckReport(sys.stdout)
    for result in _results(found, facts):
        report.add(result)
    if settings.screenshot is not None:
        made = found.screenshot is not None
        report.add(passed(f"screenshot -> {settings.screenshot}") if made else skipped("screenshot: there was no run"))
    return 1 if report.failures else 0


def _results(found: Validation, facts: GameFacts) -> Iterator[CheckResult]:
    for stage, gate in found.gates.items():
        text = f"{stage}: {'; '.join(gate.reasons)}" if gate.reasons else stage
        yield passed(text) if gate.ok else skipped(text) if gate.ok is None else failed(text, "")
    for finding in found.findings:
        place = "" if finding.line is None else f"line {finding.line}: "
        if finding.severity == "warning":
            yield warned(f"{place}{finding.message} ({finding.code})", "")
    for hint, holds in hint_results(found, facts).items():
        yield passed(hint) if holds else failed(f"{hint} does not hold", "")
    for hint in facts.eval_hints:
        if not is_condition(hint):
            yield skipped(f"{hint!r} is not a condition")


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
