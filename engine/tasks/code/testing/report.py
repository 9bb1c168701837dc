"""The results of the tests of a program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.records import Outcome


class Status(StrEnum):
    """The result of one test. Only ``PASS`` is a success; ``INFRA_ERROR`` is a failure of the sandbox."""

    PASS = "pass"  # noqa: S105 - a status, not a password
    WRONG_ANSWER = "wrong_answer"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT_LIMIT = "output_limit"
    FORBIDDEN = "forbidden"
    NO_ENTRY_POINT = "no_entry_point"
    TAMPERED = "tampered"
    INFRA_ERROR = "infra_error"
    NOT_RUN = "not_run"


@dataclass(frozen=True)
class Report:
    """The result of a program: one status per test, in the order of the tests.

    ``outcome`` is ``ok`` (all tests ended), ``verifier_timeout`` (a test reached its time limit) or ``infra_fault``
    (the sandbox failed: the report must not become a reward). ``detail`` is the text of the first failure.
    """

    outcome: Outcome
    statuses: tuple[Status, ...]
    detail: str = ""

    @property
    def passed(self) -> int:
        """How many tests passed."""
        return self.statuses.count(Status.PASS)

    @property
    def total(self) -> int:
        """How many tests there are."""
        return len(self.statuses)

    @property
    def all_passed(self) -> bool:
        """Whether there is a test and every test passed."""
        return self.outcome is Outcome.OK and 0 < self.passed == self.total
