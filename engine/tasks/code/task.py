"""Python programs: the code of a reply is run against the tests of the problem in the sandbox."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.errors import InputError, OmittedRowError
from engine.experience.text_checks import holds_answer
from engine.installation_checks import CheckResult
from engine.records import Candidate, Completion, DisplayBlock, Fault, Outcome, Problem
from engine.task import MAX_SHOWN_CHARS, Example, Measurement, Task, TaskMerge, Teaching
from engine.task_datasets import Dataset
from engine.tasks.code import DATASET_NAMES, ROW_FIELDS, checks
from engine.tasks.code.datasets import code_dataset
from engine.tasks.code.execution import run_program
from engine.tasks.code.facts import CodeFacts, facts_of
from engine.tasks.code.preparation import CodePreparation
from engine.tasks.code.problems import code_problem
from engine.tasks.code.reply import CodeReply, ReplyStatus, extract, normalised
from engine.tasks.code.starter_code import starter_code
from engine.tasks.code.test_cases import CodeTest, as_statement
from engine.tasks.code.testing.report import Report
from engine.tasks.code.testing.tester import shared_tester
from engine.tasks.rows import UnusableRowError
from engine.tasks.trying import tried_before_run

_MAX_REMARK_CHARS = 300  # of a failed test in a remark, and of the text of a sandbox failure

_MAX_STATUSES = 50  # of single tests, on a rollout; a few problems have thousands of tests

_MOST_NAMED = 5
"""Problems that are named before a run."""

_FAULTS = {
    ReplyStatus.NO_CODE: "there is no fenced Python program in it",
    ReplyStatus.UNCLOSED_THINK: "its thinking never ends",
    ReplyStatus.UNCLOSED_FENCE: "its program is cut off",
    ReplyStatus.SYNTAX_ERROR: "its program is not valid Python",
}


class CodeTask(Task[CodeReply]):
    """Python programs that are scored by tests.

    ``r_ans`` is 1 if every test passes. ``r_logic`` separates the rollouts of a group in which no program is right: the
    share of the tests that pass, and at most that of the tests that the prompt does not show. There is no ``r_graph``,
    because a program has no graph. The answer of a candidate is its program without comments and layout, so that equal
    programs count as equal answers.
    """

    name = "code"
    dataset_names = DATASET_NAMES
    row_fields = ROW_FIELDS
    reward_weights: Mapping[str, float] = MappingProxyType({"r_ans": 0.5, "r_logic": 0.25})
    answer_components = frozenset({"r_ans", "r_logic"})
    prompt_variables = frozenset({"entry_point", "io_mode", "public_tests", "setup_code", "starter_code"})
    reply_description = "one fenced Python program (```python ... ```)"
    preparation = CodePreparation()

    def problem_from_row(self, row: Mapping[str, Any], where: str) -> Problem:
        """The problem of a row of MBPP, APPS or ``data/train.jsonl``, with tests that can be run."""
        try:
            problem = code_problem(row, "")
            if problem is None:
                raise UnusableRowError("malformed", "it has no field with tests, such as test_list")
        except UnusableRowError as error:
            raise UnusableRowError(error.reason, f"{where}: {error.what}") from None
        except OmittedRowError as error:
            raise OmittedRowError(f"{where}: {error.what}") from None
        return problem

    def question_row(self, example: Problem) -> tuple[Mapping[str, Any], Sequence[str]]:
        """A question has no tests; ``entry_point`` and the others of its fields may be given."""
        return {"tests": "pass", "io_mode": facts_of(example).io_mode}, ("prompt",)

    def remarks(self, problems: Sequence[Problem]) -> list[str]:
        """Which problems have tests that their own reference fails, or that a program which does nothing passes.

        They are tried as long as :func:`engine.tasks.trying.tried_before_run` allows.
        """
        tried, faults = 0, []
        for problem in tried_before_run(problems):
            fault = self.preparation.fault(problem)
            if fault is not None and fault[0] == "no_reference":
                continue
            tried += 1
            if fault is not None:
                faults.append(f"{problem.id}: {fault[1][:_MAX_REMARK_CHARS]}")
        if not faults:
            return []
        return [
            f"⚠ code: {len(faults)} of {tried} problems that were tried cannot tell a right program from a wrong one. "
            "Correct their tests or references, or leave them out.",
            *(f"  {fault}" for fault in faults[:_MOST_NAMED]),
        ]

    def dataset(self, name: str) -> Dataset:
        """MBPP or APPS."""
        return code_dataset(name)

    def prompt_values(self, problem: Problem) -> Mapping[str, Any]:
        """The entry point, the I/O mode, the public tests with their setup, and the starter code."""
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
        """The reference program; without one, the tests."""
        facts = facts_of(problem)
        if facts.reference:
            return facts.reference[:MAX_SHOWN_CHARS]
        return "\n".join(_statement(test) for test in facts.tests)[:MAX_SHOWN_CHARS]

    def parse(self, completion: Completion, problem: Problem) -> Candidate[CodeReply]:
        """Read the program of a reply."""
        text, name = completion.text, facts_of(problem).required_name
        return _candidate(extract(text, completion.reasoning, name, starter_code(problem)), text)

    def thinking(self, completion: Completion) -> str | None:
        """The reasoning, as :func:`engine.tasks.code.reply.extract` finds it."""
        return extract(completion.text, completion.reasoning).thinking

    def re_ask_reason(self, candidate: Candidate[CodeReply]) -> str | None:
        """The fault, if the reply has no program; else None, because a wrong or truncated program is scored."""
        fault = candidate.fault
        return fault.message if fault is not None and fault.kind == ReplyStatus.NO_CODE else None

    def answer(self, candidate: Candidate[CodeReply]) -> str | None:
        """The program as written; None if it is not valid Python."""
        return candidate.content.code if candidate.content is not None and candidate.outcome is Outcome.OK else None

    def to_record(self, candidate: Candidate[CodeReply]) -> str | None:
        """The program as written."""
        return None if candidate.content is None else candidate.content.code

    def candidate_from_record(self, scaffold: Any, answer: str | None, problem: Problem) -> Candidate[CodeReply]:
        """Read a program back: its text, a whole reply, or an object with ``code``."""
        if isinstance(scaffold, dict):
            scaffold = scaffold.get("code")
        text = (scaffold if isinstance(scaffold, str) else answer or "").replace("\r\n", "\n")
        if text.strip() and normalised(text) is not None:  # its strings may have fences and tags of thinking
            return _candidate(CodeReply(None, text, ReplyStatus.OK), text)
        if "```" not in text and text.strip():
            return _candidate(CodeReply(None, text, ReplyStatus.SYNTAX_ERROR), text)
        return self.parse(Completion(text=text), problem)

    def evaluate(self, candidate: Candidate[CodeReply], problem: Problem) -> Measurement:
        """Run the tests. A candidate without a valid program fails all of them."""
        program = candidate.content or CodeReply(None, None, ReplyStatus.NO_CODE)
        status, answer = str(program.status), program.normalised
        if program.code is None or answer is None:
            return Measurement({"r_ans": 0.0, "r_logic": 0.0}, False, detail={"status": status})
        report = run_program(program.code, problem)
        if report.outcome is Outcome.INFRA_FAULT:
            why = {"why": report.detail[:_MAX_REMARK_CHARS]}
            return Measurement({}, None, answer, "stated", Outcome.INFRA_FAULT, detail=why)
        return Measurement(
            components={"r_ans": float(report.all_passed), "r_logic": _share(report, facts_of(problem))},
            is_correct=report.all_passed,
            answer=answer,
            answer_source="stated",
            outcome=report.outcome,
            remarks=_remarks(report, facts_of(problem)),
            detail={
                "status": status,
                "passed": report.passed,
                "total": report.total,
                "tests": dict(Counter(map(str, report.statuses))),
                "statuses": [str(status) for status in report.statuses[:_MAX_STATUSES]],
            },
        )

    def verifier(self) -> Mapping[str, Any]:
        """The interpreter and the level of isolation.

        Raises:
            ConfigurationError: programs cannot be run on this machine.
        """
        return {**super().verifier(), "python": platform.python_version(), "level": shared_tester().level}

    def leaks_answer(self, content: str, problem: Problem) -> bool:
        """Whether an experience contains a value that a test expects."""
        return any(holds_answer(content, test["expected"]) for test in facts_of(problem).tests if "expected" in test)

    def show(self, candidate: Candidate[CodeReply]) -> str:
        """The program; without one, the reply."""
        return ((candidate.content and candidate.content.code) or candidate.text or "(unreadable)")[:MAX_SHOWN_CHARS]

    def display(
        self, candidate: Candidate[CodeReply], problem: Problem, detail: Mapping[str, Any], folder: Path
    ) -> Sequence[DisplayBlock]:
        """The program, and the tests with their results."""
        program = candidate.content and candidate.content.code
        blocks = [DisplayBlock("program", "code", program)] if program else []
        try:
            tests = facts_of(problem).tests[:_MAX_STATUSES]
        except InputError:  # the record of another program, or a damaged one
            return blocks
        stored = detail.get("statuses")
        statuses = [str(status) for status in stored] if isinstance(stored, list) else []
        statuses += [""] * (len(tests) - len(statuses))
        shown = zip(tests, statuses, strict=False)
        rows = [("test", "result"), *((_statement(test)[:_MAX_REMARK_CHARS], status) for test, status in shown)]
        passed = f"{detail['passed']} / {detail.get('total')}" if "passed" in detail else ""
        return [*blocks, DisplayBlock("tests", "table", passed, rows)]

    def merge(self, candidates: Sequence[Candidate[CodeReply]], problem: Problem) -> TaskMerge[CodeReply]:
        """Merge programs that differ only in comments and layout."""
        programs: dict[str, list[int]] = {}
        for number, candidate in enumerate(candidates, 1):
            if candidate.content is not None and candidate.content.normalised is not None:
                programs.setdefault(candidate.content.normalised, []).append(number)
        if len(programs) == 1:
            [[first, *_]] = programs.values()
            return TaskMerge(candidates[first - 1])
        same = [" and ".join(map(str, numbers)) for numbers in programs.values() if len(numbers) > 1]
        return TaskMerge(None, [f"proposals {numbers} are the same program" for numbers in same])

    def tests(self, problem: Problem) -> Sequence[Any]:
        """The tests in the form of the dataset if it is known, else in the form of the problem's ``answer``."""
        return problem.meta.get("test_list") or [dict(test) for test in facts_of(problem).tests]

    def reward_row(self, problem: Problem) -> Mapping[str, Any]:
        """The problem with the fields of :class:`CodeFacts`."""
        return {**super().reward_row(problem), **vars(facts_of(problem))}

    def gold_reply(self, problem: Problem) -> str | None:
        """The reference program, if there is one."""
        reference = facts_of(problem).reference
        return f"```python\n{reference}\n```" if reference else None

    def teaching(self, problem: Problem, wrong: Sequence[str] = ()) -> Teaching:
        """A rule about such programs; the answer is a whole one."""
        return Teaching(
            "says what to check or do in such a program, so that this mistake is not made again; it has none of this "
            "problem's names, and no program",
            None,
        )

    def canonical(self, record: str) -> str:
        """The program without comments, docstrings and layout."""
        return normalised(record) or record

    @property
    def example(self) -> Example:
        """The sum of the even numbers of a list."""
        return checks.example()

    def checks(self) -> Sequence[tuple[str, Callable[[], Iterable[CheckResult]]]]:
        """Checks of the sandbox."""
        return checks.checks()


def _candidate(reply: CodeReply, text: str) -> Candidate[CodeReply]:
    shown = text[-MAX_SHOWN_CHARS:] if reply.code is None else ""
    if reply.normalised is None:
        fault = Fault(kind=str(reply.status), message=_FAULTS.get(reply.status, ""))
        return Candidate(Outcome.MODEL_FAULT, content=reply, text=shown, fault=fault)
    return Candidate(Outcome.OK, content=reply, text=shown)


def _share(report: Report, facts: CodeFacts) -> float:
    """The share of the tests that pass; of those that the prompt does not show, if that is less.

    A program that returns what a shown test expects, whatever it is given, would be paid for that test.
    """
    share = report.passed / max(1, report.total)
    hidden = report.total - facts.public_count
    if hidden <= 0:
        return share
    return min(share, sum(status == "pass" for status in report.statuses[facts.public_count :]) / hidden)


def _remarks(report: Report, facts: CodeFacts) -> list[str]:
    """Remarks for the analyst: how many tests pass, and the first test that fails."""
    remarks = [f"{report.passed} of {report.total} tests pass"]
    for status, test in zip(report.statuses, facts.tests, strict=False):
        if status != "pass":
            remarks.append(f"first failure: {status} in {_statement(test)[:_MAX_REMARK_CHARS]}")
            break
    return remarks


def _statement(test: CodeTest) -> str:
    if test["kind"] == "stdin":
        given, expected = (json.dumps(text)[:_MAX_REMARK_CHARS] for text in (test["stdin"], test["expected"]))
        return f"input {given} -> {expected}"
    return as_statement(test)


TASK = CodeTask()
