"""What a program is asked to do, within which limits, and how that ended. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from engine.records import Outcome

Comparison = Literal["exact", "sequence", "tokens", "lines", "float", "set"]


class Status(StrEnum):
    """How one test ended. Only ``PASS`` is a success; ``INFRA_ERROR`` says nothing about the program."""

    PASS = "pass"  # noqa: S105 - a status, no password
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
        fn: its name, or ``Class.method`` (the class is then made without arguments).
        args: positional arguments, plain builtins.
        kwargs: keyword arguments.
        expected: the right value; it never leaves this process.
        cmp: ``exact`` (Python's ``==`` on plain values), ``sequence`` (the same, a tuple being as good as a list),
            ``float`` (numbers within 1e-6, relative or absolute), ``set`` (the elements, in any order and number).
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
        expected: the right output; it never leaves this process.
        cmp: ``exact`` (but for line ends and newlines at the end), ``lines`` (blanks at line ends do not count),
            ``tokens`` (no blanks count), ``float`` (tokens, numbers within 1e-6), ``set`` (lines in any order).
    """

    stdin: str
    expected: str
    cmp: Comparison = "lines"


@dataclass(frozen=True)
class AssertTest:
    """A test that is Python itself, for what is no call with a plain expected value.

    ``assert f(...) == literal`` is split: the program's process works out the call, whose arguments may be any
    expressions, and this one compares. Any other code runs in a process without the program, where the functions it
    names are calls into the program's process; plain values go there and back, and lists, dicts and sets that a
    call changes are changed in the test too. So in both forms the program cannot reach what decides.

    Args:
        code: the statements.
        setup: statements to run before them and, in the first form, after the program.
    """

    code: str
    setup: str = ""


Test = CallTest | StdinTest | AssertTest


@dataclass(frozen=True)
class Limits:
    """Bounds of one program.

    Args:
        time_s: wall-clock seconds for each test, and for loading the program.
        memory_mb: address space in MiB.
        output_bytes: printed text, and each returned value as it is written down.
        total_s: wall-clock seconds for all its tests together.
    """

    time_s: float = 5.0
    memory_mb: int = 1024
    output_bytes: int = 1 << 20
    total_s: float = 30.0


@dataclass(frozen=True)
class Report:
    """What came of a program: one status a test, in the tests' order.

    ``outcome`` is ``ok`` (it was judged), ``verifier_timeout`` (a test was stopped on time) or ``infra_fault`` (the
    sandbox failed: the report must not become a reward).
    """

    outcome: Outcome
    statuses: tuple[Status, ...]
    passed: int
    total: int
    detail: str = ""

    @property
    def all_passed(self) -> bool:
        """Whether there was a test and each one passed."""
        return self.outcome is Outcome.OK and self.total > 0 and self.passed == self.total == len(self.statuses)
