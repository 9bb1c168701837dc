"""What the tests of a problem say of a reply: the fields of its trace that generation and verification share."""

from __future__ import annotations

from typing import Any

from engine.records import Candidate, Fault, Outcome, Problem
from engine.reward_evaluator import unverified
from engine.task import Measurement, Task
from engine.task_protocols import PreparesData
from grpo_training.teacher.traces import TestVerdict


def scored_fields(task: Task, problem: Problem, candidate: Candidate) -> dict[str, Any] | Fault:
    """Run the tests of a candidate: ``code``, ``test_list``, ``status`` and ``verdict`` of its trace.

    Args:
        task: of the problem, with tests.
        problem: the problem.
        candidate: what the task read from the reply.

    Returns:
        a fault if the tests could not be run.
    """
    assert isinstance(task, PreparesData)
    measured = task.evaluate(candidate, problem)
    if measured.outcome is Outcome.INFRA_FAULT:
        return unverified(measured)
    tests = list(task.tests(problem))
    status = candidate.fault.kind if candidate.fault else "no_reply"  # how the reply was read
    if candidate.content is not None:
        status = str(measured.detail.get("status", candidate.outcome))
    return {
        "code": task.to_record(candidate) or "",
        "test_list": tests,
        "status": status,
        "verdict": _verdict(measured, len(tests)),
    }


def _verdict(measured: Measurement, total: int) -> TestVerdict:
    """The result of the tests. ``tests`` counts statuses in the order of their first occurrence."""
    tests = measured.detail.get("tests", {})
    if not tests:
        return TestVerdict(total=total)
    first = next((status for status in tests if status != "pass"), "pass")
    return TestVerdict(passed=measured.detail["passed"], total=measured.detail["total"], status=first)
