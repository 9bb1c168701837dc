"""Runs a program against the tests of a problem."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from engine.records import Problem
from engine.sandbox.program_process import ProgramLimits
from engine.tasks.code.facts import facts_of, read_facts
from engine.tasks.code.literals import from_literal
from engine.tasks.code.starter_code import with_starter_names
from engine.tasks.code.test_cases import CodeTest
from engine.tasks.code.testing.program_tests import AssertTest, CallTest, ProgramTest, Report, StdinTest
from engine.tasks.code.testing.tester import shared_tester


def run_program(
    code: str, problem: Problem, *, stop_early: bool = False, limits: ProgramLimits | None = None
) -> Report:
    """Run a program against a problem's tests. Blocks; works from any thread.

    Args:
        code: the program; untrusted. It may use the names of :func:`engine.tasks.code.starter_code.with_starter_names`.
        problem: a problem of the task ``code``.
        stop_early: stop at the first test that fails.
        limits: replace the limits of the problem.
    """
    return shared_tester().run(
        with_starter_names(code, problem),
        program_tests(problem.answer),
        entry_point=facts_of(problem).required_name,
        limits=limits or limits_of(problem),
        stop_early=stop_early,
    )


def limits_of(problem: Problem) -> ProgramLimits:
    """The default limits, with the problem's own time limit for a test if it has one."""
    time_s = facts_of(problem).time_limit_s
    return ProgramLimits() if time_s is None else ProgramLimits(time_s=time_s)


@lru_cache(maxsize=256)
def program_tests(answer: str) -> tuple[ProgramTest, ...]:
    """The tests in the text of a problem's ``answer``.

    Raises:
        InputError: there are none, or one cannot be read.
    """
    return tuple(map(_program_test, read_facts(answer).tests))


def _program_test(row: CodeTest) -> ProgramTest:
    cmp: Any = row.get("cmp", "exact")
    if row["kind"] == "call":
        kwargs = from_literal(row.get("kwargs", "{}"))
        return CallTest(row["fn"], tuple(from_literal(row["args"])), kwargs, from_literal(row["expected"]), cmp)
    if row["kind"] == "stdin":
        return StdinTest(row["stdin"], row["expected"], row.get("cmp", "lines"))  # type: ignore[arg-type]
    return AssertTest(row["code"], row.get("setup", ""))
