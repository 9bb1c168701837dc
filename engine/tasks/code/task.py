"""Python programs: a reply's code is run against the problem's tests in the sandbox; ``docs/code_task.md``."""

from __future__ import annotations

import json
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from engine.records import Candidate, Fault, Outcome
from engine.task import Measurement, TaskMerge
from engine.tasks.code.execution import program_tests, run_program
from engine.tasks.code.problems import CodeFacts, facts_of
from engine.tasks.code.reply import CodeReply, ReplyStatus, extract, normalised
from engine.tasks.code.test_cases import CodeTest, as_statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.records import Problem
    from engine.tasks.code.program_tests import Report

_SHOWN = 6000  # characters of a program or reply that another prompt gets
_REMARK = 300  # characters of the failed test that the analyst is told

_FAULTS = {
    ReplyStatus.NO_CODE: "there is no fenced Python program in it",
    ReplyStatus.UNCLOSED_THINK: "its thinking never ends",
    ReplyStatus.UNCLOSED_FENCE: "its program is cut off",
    ReplyStatus.SYNTAX_ERROR: "its program is not valid Python",
}


class CodeTask:
    """Programs that tests decide on.

    ``r_ans`` is 1 where every test passes; ``r_logic`` is the share of tests that pass, which still differs where
    no program is right; ``r_graph`` is absent, for there is no graph. A candidate's ``answer`` is its program
    without comments and layout, so that equal programs vote together.
    """

    name = "code"
    prompts = "code"
    prompt_variables = frozenset({"entry_point", "io_mode", "public_tests", "setup_code", "starter_code"})
    attempts: Mapping[str, str] = MappingProxyType(
        {
            "generator": "Python programs that a solver wrote",
            "critic": "Python programs that a critic made of several solvers' programs",
        }
    )
    reply_form = "one fenced Python program (```python ... ```)"
    reply_schema: dict[str, Any] | None = None

    def check_problem(self, problem: Problem) -> None:
        """Refuse a problem without tests, or with tests that cannot be read."""
        facts_of(problem)
        program_tests(problem.answer)

    def prompt_values(self, problem: Problem) -> dict[str, Any]:
        """Entry point, I/O mode, the tests that may be seen, and the beginning that is given."""
        facts = facts_of(problem)
        public = [test for test in facts.tests[: facts.public_count] if test["kind"] != "stdin"]
        return {
            "entry_point": facts.entry_point or "",
            "io_mode": facts.io_mode,
            "public_tests": [as_statement(test) for test in public],
            "setup_code": next((test["setup"] for test in public if test.get("setup")), ""),
            "starter_code": facts.starter_code,
        }

    def truth(self, problem: Problem) -> str:
        """The reference program; where there is none, the tests."""
        facts = facts_of(problem)
        if facts.reference:
            return facts.reference[:_SHOWN]
        return "\n".join(_statement(test) for test in facts.tests)[:_SHOWN]

    def parse(self, text: str, problem: Problem, reasoning: str | None = None) -> Candidate:
        """Read a reply's program."""
        return _candidate(extract(text, reasoning, facts_of(problem).required_name), text)

    def re_ask_reason(self, candidate: Candidate) -> str | None:
        """There is no program at all. One that is wrong or cut off is the model's answer."""
        fault = candidate.fault
        return fault.message if fault is not None and fault.kind == ReplyStatus.NO_CODE else None

    def to_record(self, candidate: Candidate) -> str | None:
        """The program as it was written."""
        return candidate.detail.get("code")

    def candidate_from_record(self, scaffold: Any, answer: str | None, problem: Problem) -> Candidate:
        """Read a program back: its text, a whole reply, or an object with ``code``."""
        if isinstance(scaffold, dict):
            scaffold = scaffold.get("code")
        text = scaffold if isinstance(scaffold, str) else answer or ""
        if "```" not in text and normalised(text) is None and text.strip():
            return _candidate(CodeReply(None, text, ReplyStatus.SYNTAX_ERROR), text)
        return self.parse(text, problem)

    def measure(self, candidate: Candidate, problem: Problem) -> Measurement:
        """Run the tests; a program that could not be read fails them all."""
        code, status = candidate.detail.get("code"), candidate.detail.get("status", ReplyStatus.NO_CODE)
        if code is None or candidate.outcome is not Outcome.OK:
            return Measurement({"r_ans": 0.0, "r_logic": 0.0}, False, Outcome.OK, {"status": status})
        report = run_program(code, problem)
        if report.outcome is Outcome.INFRA_FAULT:
            return Measurement({}, None, Outcome.INFRA_FAULT, {"why": report.detail[:_REMARK]})
        is_correct = report.total > 0 and report.passed == report.total == len(report.statuses)
        return Measurement(
            components={"r_ans": 1.0 if is_correct else 0.0, "r_logic": report.passed / max(1, report.total)},
            is_correct=is_correct,
            outcome=report.outcome,
            detail={
                "status": status,
                "passed": report.passed,
                "total": report.total,
                "tests": dict(Counter(str(each) for each in report.statuses)),
                "remarks": _remarks(report, facts_of(problem)),
            },
        )

    def wants_opinion(self, candidate: Candidate) -> bool:
        """Tests decide; an opinion would only blur them."""
        return False

    def show(self, candidate: Candidate) -> str:
        """The program; where there is none, what was said."""
        return str(candidate.detail.get("code") or candidate.detail.get("text") or "(unreadable)")[:_SHOWN]

    def merge(self, candidates: Sequence[Candidate], problem: Problem) -> TaskMerge:
        """Programs that are the same but for comments and layout are one program."""
        programs: dict[str, list[int]] = {}
        for number, candidate in enumerate(candidates, 1):
            if candidate.outcome is Outcome.OK and candidate.answer is not None:
                programs.setdefault(candidate.answer, []).append(number)
        if len(programs) == 1:
            [[first, *_]] = programs.values()
            return TaskMerge(candidates[first - 1], [])
        same = [" and ".join(map(str, numbers)) for numbers in programs.values() if len(numbers) > 1]
        return TaskMerge(None, [f"proposals {numbers} are the same program" for numbers in same])


def _candidate(reply: CodeReply, text: str) -> Candidate:
    detail: dict[str, Any] = {"status": str(reply.status)}
    if reply.code is None:
        detail["text"] = text[-_SHOWN:]
    else:
        detail["code"] = reply.code
    answer = None
    if reply.code is not None and reply.status is not ReplyStatus.SYNTAX_ERROR:
        answer = normalised(reply.code)
    if answer is None:
        fault = Fault(kind=str(reply.status), message=_FAULTS.get(reply.status, ""))
        return Candidate(outcome=Outcome.MODEL_FAULT, fault=fault, detail=detail)
    return Candidate(outcome=Outcome.OK, answer=answer, answer_source="stated", detail=detail)


def _remarks(report: Report, facts: CodeFacts) -> list[str]:
    """What the analyst is told: how many tests pass, and the first that does not."""
    remarks = [f"{report.passed} of {report.total} tests pass"]
    for status, test in zip(report.statuses, facts.tests, strict=False):
        if status != "pass":
            remarks.append(f"first failure: {status} in {_statement(test)[:_REMARK]}")
            break
    return remarks


def _statement(test: CodeTest) -> str:
    if test["kind"] == "stdin":
        return f"input {json.dumps(test['stdin'])[:_REMARK]} -> {json.dumps(test['expected'])[:_REMARK]}"
    return as_statement(test)


TASK = CodeTask()
