"""``python -m grpo_training.doctor``: does everything work here? Offline by default; the exit code counts failures."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from engine.errors import ScaffoldError
from grpo_training.cli.settings import WORKING_DIR, Settings, parse_settings
from grpo_training.doctor_checks.results import Report, failed, failure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from grpo_training.doctor_checks.results import Finding

    Check = Callable[[], Iterable[Finding]]

MOST_FAILURES = 125
"""The highest exit code that shells leave to commands."""


class DoctorSettings(Settings):
    """Settings of ``python -m grpo_training.doctor``."""

    endpoints: bool = Field(False, description="ask each configured role one small question (costs a few tokens)")
    teacher: bool = Field(False, description="ask the teacher one small programming problem and execute its reply")
    model: Path | None = Field(None, description="folder of a model to serve here and ask the same problem")
    prompts: str = Field("full", description="prompt style of what --teacher and --model ask")
    max_tokens: int = Field(2048, gt=0, description="tokens that a reply to --teacher or --model may have")
    api_config: Path = Field(WORKING_DIR / "data/api_keys/api_config.json", description="endpoints and keys")
    data_dir: Path = Field(WORKING_DIR / "data", description="training data, traces and libraries")
    cache_dir: Path = Field(WORKING_DIR / "grpo_training/cache", description="where rollouts and replies are kept")


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the number of failed checks, at most 125."""
    settings = parse_settings(
        DoctorSettings,
        argv,
        prog="python -m grpo_training.doctor",
        description=(
            "Looks at everything that the other commands need, without network, GPU or key: environment, "
            "configuration, prompts, reading of replies, training labels, execution, the sandbox against attacks, "
            "data, disk and the shipped model. The exit code is the number of failures."
        ),
    )
    report = Report(sys.stdout)
    for title, check in checks(settings):
        report.section(title)
        for finding in run_check(check):
            report.add(finding)
    report.totals()
    if report.failures == 0:
        print("Everything that was looked at works.")
    return min(report.failures, MOST_FAILURES)


def checks(settings: DoctorSettings) -> list[tuple[str, Check]]:
    """The checks of this start in their order, by title."""
    from grpo_training.doctor_checks import code as doctor_code
    from grpo_training.doctor_checks import machine as doctor_machine

    chosen: list[tuple[str, Check]] = [
        ("Environment", doctor_machine.environment),
        ("Endpoints and keys", lambda: doctor_machine.api_config(settings.api_config)),
        ("Prompts", doctor_machine.prompts),
        ("Reading of replies", doctor_code.extraction),
        ("Execution", doctor_code.execution),
        ("Sandbox under attack", doctor_code.attacks),
        ("Training labels", doctor_code.labels),
        ("Data", lambda: doctor_machine.data_files(settings.data_dir)),
        ("Disk", lambda: doctor_machine.disk((settings.cache_dir, settings.data_dir))),
        ("Shipped model", doctor_machine.shipped_model),
    ]
    if settings.endpoints:
        chosen.append(("Endpoints, asked", lambda: doctor_machine.asked_endpoints(settings.api_config)))
    if settings.teacher:
        chosen.append(("Teacher, asked", lambda: _ask_teacher(settings)))
    if settings.model is not None:
        folder = settings.model
        chosen.append((f"Model {folder}, asked", lambda: _ask_model(folder, settings)))
    return chosen


def run_check(check: Check) -> Iterable[Finding]:
    """The findings of a check; an error that ends it is one more failure, so that the others are still made."""
    try:
        yield from check()
    except ScaffoldError as error:
        yield failure_of(error)
    except Exception as error:  # noqa: BLE001 - whatever breaks here is the very thing to report
        yield failed(
            f"the check itself broke: {type(error).__name__}: {error}", "Install the versions of constraints.txt anew."
        )


def _ask_teacher(settings: DoctorSettings) -> Iterable[Finding]:
    from agents.teacher import ROLE
    from engine.api_manager import ApiManager
    from grpo_training.teacher.connection import ask_for_code

    manager = ApiManager.load(settings.api_config)
    return asyncio.run(ask_for_code(manager, ROLE, settings.prompts, settings.max_tokens))


def _ask_model(folder: Path, settings: DoctorSettings) -> Iterable[Finding]:
    from engine.api_manager import ApiManager
    from grpo_training.serving.shared_server import shared_server
    from grpo_training.teacher.connection import ask_for_code

    with shared_server(folder) as server:
        manager = ApiManager(folder, {"student": server.endpoint()})
        return asyncio.run(ask_for_code(manager, "student", settings.prompts, settings.max_tokens))
