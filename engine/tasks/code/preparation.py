"""Selects the programming problems for ``prepare_data``: the reference must pass and an empty program must fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from engine.errors import ConfigurationError
from engine.records import Outcome, Problem
from engine.sandbox.program_process import ProgramLimits
from engine.task_datasets import DataPreparation
from engine.tasks.code.execution import limits_of, run_program
from engine.tasks.code.facts import facts_of
from engine.tasks.code.problems import row_of
from engine.tasks.code.testing.report import Report


class CodePreparation(DataPreparation):
    """Keeps a problem if its reference passes every test in half the time, and a program that does nothing fails."""

    apps_difficulty: Literal["all", "introductory", "interview", "competition"] = Field(
        default="all", description="which problems of APPS"
    )
    skip_apps: bool = Field(default=False, description="MBPP only")
    public_tests: int = Field(default=1, ge=0, description="tests of an MBPP problem that its prompt shows")

    def datasets(self) -> Mapping[str, str]:
        """The training splits of MBPP and APPS. The official test splits are left for evaluation."""
        names = {f"mbpp?public_tests={self.public_tests}": ""}
        if not self.skip_apps:
            difficulty = "" if self.apps_difficulty == "all" else f":{self.apps_difficulty}"
            names[f"apps{difficulty}"] = "--skip_apps"
        return names

    def fault(self, problem: Problem) -> tuple[str, str] | None:
        """Why a problem cannot be used; None if it can.

        Raises:
            ConfigurationError: this machine cannot run programs.
        """
        reference, limits = facts_of(problem).reference, limits_of(problem)
        if reference:
            report = _run(reference, problem, replace(limits, time_s=limits.time_s / 2, total_s=limits.total_s / 2))
            if not report.all_passed:
                status = next((str(failed) for failed in report.statuses if failed != "pass"), str(report.outcome))
                passed = f"its reference passes {report.passed} of {report.total} tests"
                return f"reference_{status}", f"{passed}: {report.detail or status}"
        if _run(empty_program(problem), problem, limits).all_passed:
            return "stub_passes", "a program that does nothing passes its tests"
        return None if reference else ("no_reference", "there is no reference program")

    def row(self, problem: Problem) -> dict[str, Any]:
        """The problem as a row that :func:`engine.tasks.code.problems.code_problem` reads."""
        return row_of(problem)


def empty_program(problem: Problem) -> str:
    """A program that defines the required function and does nothing."""
    name, _, method = (facts_of(problem).entry_point or "").partition(".")
    if method:
        return f"class {name}:\n    def {method}(self, *args, **kwargs):\n        pass\n"
    return f"def {name}(*args, **kwargs):\n    pass\n" if name else "pass\n"


def _run(program: str, problem: Problem, limits: ProgramLimits) -> Report:
    for _ in range(2):
        report = run_program(program, problem, stop_early=True, limits=limits)
        if report.outcome is not Outcome.INFRA_FAULT:
            return report
    raise ConfigurationError("Programs cannot be run on this machine", why=report.detail[:300])
