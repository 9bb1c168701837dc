"""The tests of a program and their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from engine.records import Outcome
from engine.tasks.code.testing.comparison import Comparison


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
class CallTest:
    """Call a function of the program and compare what it returns.

    Args:
        fn: its name, or ``Class.method`` (the class is instantiated without arguments).
        args: positional arguments, plain builtins.
        kwargs: keyword arguments.
        expected: the right value; it is never sent to the program's process.
        cmp: ``exact`` (Python's ``==`` on plain values), ``sequence`` (the same, with tuples equal to lists),
            ``float`` (numbers within 1e-6, relative or absolute; where an integer is expected, rounding noise only).
    """

    fn: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    expected: Any = None
    cmp: Comparison = "exact"


@dataclass(frozen=True)
class StdinTest:
    """Run the whole program with an input and compare what it prints.

    Args:
        stdin: its standard input.
        expected: the right output; it is never sent to the program's process.
        cmp: ``exact`` (except line endings and newlines at the end), ``lines`` (whitespace at line ends is ignored),
            ``tokens`` (all whitespace is equal), ``float`` (tokens, numbers as in :class:`CallTest`).
    """

    stdin: str
    expected: str
    cmp: Comparison = "lines"


@dataclass(frozen=True)
class AssertTest:
    """A test that is Python code, for what a :class:`CallTest` cannot express.

    ``assert f(...) == literal`` is split: the program's process evaluates the call, whose arguments may be any
    expressions, and this process compares. Any other code runs in a second process without the program. There the
    program's functions are remote calls: plain values are sent and come back, and lists, dicts and sets that a call
    changes are changed in the test too. A test can expect an exception: it arrives with its message, as the built-in
    class that it is of. In both forms the program cannot reach the comparison.

    Args:
        code: the statements.
        setup: statements that run before them and, in the first form, after the program.
    """

    code: str
    setup: str = ""


ProgramTest = CallTest | StdinTest | AssertTest


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
