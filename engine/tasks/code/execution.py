"""Runs a program against the tests of a problem."""

from __future__ import annotations

from engine.records import Problem
from engine.sandbox.program_process import ProgramLimits
from engine.tasks.code.facts import facts_of
from engine.tasks.code.starter_code import with_starter_names
from engine.tasks.code.testing.report import Report
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
    facts = facts_of(problem)
    return shared_tester().run(
        with_starter_names(code, problem),
        facts.tests,
        entry_point=facts.required_name,
        limits=limits or limits_of(problem),
        stop_early=stop_early,
    )


def limits_of(problem: Problem) -> ProgramLimits:
    """The default limits, with the problem's own time limit for a test if it has one."""
    time_s = facts_of(problem).time_limit_s
    return ProgramLimits() if time_s is None else ProgramLimits(time_s=time_s)
