"""The step that validates one program and prints what was found."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from engine.errors import ConfigurationError, MissingInputError
from engine.installation_checks import CheckLevel, CheckResult, failed, passed, skipped, warned
from engine.records import Outcome
from engine.tasks.phaser.options import GameOptions
from engine.tasks.phaser.problems import GameFacts
from engine.tasks.phaser.validation.shared_validator import shared_validator
from engine.tasks.phaser.validation.verdict import Validation
from grpo_training.cli.check_report import CheckReport
from grpo_training.cli.settings import between_commas
from grpo_training.phaser.settings import ValidateSettings


def validate(settings: ValidateSettings) -> int:
    """Validate a file. Returns 1 if a stage fails.

    Raises:
        MissingInputError: there is no such file.
        ConfigurationError: the validator is not available.
    """
    if not settings.code.is_file():
        raise MissingInputError(f"File not found: {settings.code}")
    code = settings.code.read_text(encoding="utf-8", errors="replace")
    symbols = between_commas(settings.must_use)
    options = GameOptions(skip_runtime=settings.skip_runtime, skip_eslint=settings.skip_eslint, frames=settings.frames)
    request = options.request(code, GameFacts(must_use_apis=symbols))
    validation = shared_validator(settings.api_index, runs=not settings.skip_runtime).validate(request)
    if validation.outcome is Outcome.INFRA_FAULT:
        fault = validation.fault
        raise ConfigurationError("The program could not be validated", why=fault.message if fault else "")
    if settings.as_json:
        print(json.dumps(validation.rows(), indent=2))
        return int(any(result.level is CheckLevel.FAIL for result in _results(validation)))
    report = CheckReport(sys.stdout)
    for result in _results(validation):
        report.add(result)
    if settings.screenshot is not None:
        is_there = validation.runtime.write_screenshot(settings.screenshot)
        report.add(
            passed(f"screenshot -> {settings.screenshot}") if is_there else skipped("screenshot: none was taken")
        )
    return 1 if report.failures else 0


def _results(validation: Validation) -> Iterator[CheckResult]:
    for stage, gate in validation.gates.items():
        text = f"{stage}: {'; '.join(gate.reasons)}" if gate.reasons else stage
        yield passed(text) if gate.ok else skipped(text) if gate.ok is None else failed(text, "")
    for finding in validation.findings:
        prefix = "" if finding.line is None else f"line {finding.line}: "
        if finding.severity == "warning":
            yield warned(f"{prefix}{finding.message} ({finding.code})", "")
    observed = validation.runtime.observed
    if observed is not None and observed.shows:
        yield passed(f"seen: {'moves' if observed.moves else 'stands still'}; colours {', '.join(observed.colors)}")
        if observed.reacts is not None:
            yield passed(
                "seen: " + ("reacts to keys or clicks" if observed.reacts else "no key or click changes the picture")
            )
