"""The result of one check of an installation. Tasks and the ``doctor`` command make them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.errors import ScaffoldError


class CheckLevel(StrEnum):
    """How a check ended. ``SKIP``: it could not be made on this machine, which is not an error."""

    PASS = "✓ PASS"  # noqa: S105 - not a password
    FAIL = "✗ FAIL"
    WARN = "⚠ WARN"
    SKIP = "- SKIP"


@dataclass(frozen=True)
class CheckResult:
    """One line of a report.

    Args:
        level: how the check ended.
        text: what was checked, and the result.
        fix: how to fix it, for a failure or a warning.
    """

    level: CheckLevel
    text: str
    fix: str = ""


def passed(text: str) -> CheckResult:
    """Something works."""
    return CheckResult(CheckLevel.PASS, text)


def failed(text: str, fix: str) -> CheckResult:
    """Something that is required does not work."""
    return CheckResult(CheckLevel.FAIL, text, fix)


def warned(text: str, fix: str) -> CheckResult:
    """Something optional is missing or limited."""
    return CheckResult(CheckLevel.WARN, text, fix)


def skipped(text: str) -> CheckResult:
    """A check that could not be made on this machine; the text says why."""
    return CheckResult(CheckLevel.SKIP, text)


def passed_if(condition: bool, text: str, fix: str) -> CheckResult:
    """Passed if the condition holds, else failed."""
    return passed(text) if condition else failed(text, fix)


def failure_of(error: ScaffoldError, subject: str = "") -> CheckResult:
    """An error as a failed check.

    Args:
        error: what was raised.
        subject: what was being checked, such as a role.
    """
    text = f"{subject}: {error.what}" if subject else error.what
    why = " ".join(error.why.split())  # a server's last lines are several
    return failed(f"{text} ({why})" if why else text, error.fix)
