"""Runs the checks of the ``doctor`` command and prints their results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from engine.errors import ScaffoldError
from engine.installation_checks import CheckResult, failed, failure_of
from engine.storage.installation import install_command
from engine.task_protocols import ChecksItself
from engine.tasks.registry import known_tasks
from grpo_training.cli.check_report import CheckReport
from grpo_training.doctor import endpoints, environment, files, models
from grpo_training.doctor.settings import DoctorSettings

Check = Callable[[], Iterable[CheckResult]]

MOST_FAILURES = 125
"""The highest exit code that shells leave to commands."""


def run_checks(settings: DoctorSettings) -> int:
    """Run all checks. Returns the number of failures, at most 125."""
    report = CheckReport(sys.stdout)
    for title, check in checks(settings):
        report.section(title)
        for result in results_of(check):
            report.add(result)
    report.totals()
    if report.failures == 0:
        print("All checks passed.")
    return min(report.failures, MOST_FAILURES)


def checks(settings: DoctorSettings) -> list[tuple[str, Check]]:
    """The checks in order, with their titles."""
    selected: list[tuple[str, Check]] = [
        ("Environment", environment.environment),
        ("Endpoints and keys", lambda: endpoints.api_config(settings)),
        ("Prompts", files.prompts),
        ("Examples of the tasks", files.examples),
        *(check for task in known_tasks() if isinstance(task, ChecksItself) for check in task.checks()),
        ("Training labels", models.labels),
        ("Libraries", lambda: files.libraries(settings.data_dir)),
        ("Disk", lambda: environment.disk((settings.cache_dir, settings.data_dir))),
    ]
    if settings.endpoints:
        selected.append(("Endpoints, asked", lambda: endpoints.ask_endpoints(settings)))
    return selected


def results_of(check: Check) -> Iterable[CheckResult]:
    """The results of a check. An exception is one more failure, so that the other checks still run."""
    try:
        yield from check()
    except ScaffoldError as error:
        yield failure_of(error)
    except Exception as error:  # noqa: BLE001 - an unexpected error is what this command is there to report
        yield failed(
            f"the check itself failed: {type(error).__name__}: {error}",
            f"Install the dependencies again: {install_command()}",
        )
