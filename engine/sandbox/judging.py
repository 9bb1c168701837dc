"""From a program and its tests to one status a test. Every comparison is made here, with what came out of a box."""

from __future__ import annotations

import ast
import builtins
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.errors import InputError
from engine.reading.python_syntax import parse
from engine.sandbox.comparison import same_text, same_value
from engine.sandbox.host import Zygote
from engine.sandbox.inside import wire
from engine.sandbox.pool import ZygotePool
from engine.sandbox.program_process import ProgramProcess, ProgramStopped
from engine.sandbox.test_cases import (
    AssertTest,
    CallTest,
    Comparison,
    Limits,
    Status,
    StdinTest,
    Test,
)

_SAID_BY_PROGRAM = {Status.RUNTIME_ERROR, Status.MEMORY, Status.FORBIDDEN, Status.NO_ENTRY_POINT}
_T = TypeVar("_T")


@dataclass(frozen=True)
class Question:
    """What the program's process is asked for, and what must come back."""

    request: dict[str, Any]
    expected: Any
    cmp: Comparison


def question(test: Test, setup: str = "", entry_point: str | None = None) -> Question | None:
    """The question that a test comes down to; None for a test that is none.

    Args:
        test: of any kind.
        setup: what runs before all tests.
        entry_point: a name that the program must define.

    Raises:
        InputError: for arguments that are no plain values.
    """
    if isinstance(test, CallTest):
        try:
            request = {"fn": test.fn, "args": wire.to_form(list(test.args)), "kwargs": wire.to_form(test.kwargs)}
        except wire.NotPlainError as error:
            raise InputError(f"A test of {test.fn} has arguments that cannot be sent", why=str(error)) from None
        return Question(request, test.expected, test.cmp)
    if isinstance(test, AssertTest):
        return _split(test, setup, entry_point)
    return None


def _split(test: AssertTest, setup: str, entry_point: str | None) -> Question | None:
    """``assert f(...) == literal`` as a question: the program's process never learns the literal.

    Only for a plain call of a function of the program's. Of ``f(x) - 5 == 0`` or ``isclose(f(x), 5) == True`` a
    forger knows what should come, and an object of his own could give it; so a setup's own functions stay outside.
    """
    try:
        body = parse(test.code.strip()).body
    except ValueError:
        return None
    if len(body) != 1 or not isinstance(body[0], ast.Assert) or not isinstance(body[0].test, ast.Compare):
        return None
    compared = body[0].test
    if len(compared.ops) != 1 or not isinstance(compared.ops[0], ast.Eq):
        return None
    for expression, answer in (
        (compared.left, compared.comparators[0]),
        (compared.comparators[0], compared.left),
    ):
        try:
            expected = ast.literal_eval(answer)
        except (ValueError, TypeError, SyntaxError, RecursionError):
            continue
        if not _is_call_of_program(expression, f"{setup}\n{test.setup}", entry_point):
            return None
        request = {"expression": ast.unparse(expression), "setup": test.setup}
        return Question(request, expected, "exact")
    return None


def _is_call_of_program(expression: ast.expr, setup: str, entry_point: str | None) -> bool:
    return (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Name)
        and not hasattr(builtins, expression.func.id)
        and not _may_bind(setup, expression.func.id, entry_point)
    )


def _may_bind(setup: str, name: str, entry_point: str | None) -> bool:
    """Whether a setup may give the name its meaning; ``import *`` gives none to the entry point."""
    try:
        nodes = list(ast.walk(parse(setup)))
    except ValueError:
        return True
    bound = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    bound |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    return name in bound or ("*" in bound and name != entry_point)


class Judge:
    """Judges one program.

    Args:
        programs: zygotes for programs.
        testers: zygotes for tests that are code themselves; another pool, so that nobody waits for himself.
        program, setup, entry_point, limits, stop_early: as for ``run_tests``.
    """

    def __init__(
        self,
        programs: ZygotePool,
        testers: ZygotePool,
        program: str,
        *,
        setup: str,
        entry_point: str | None,
        limits: Limits,
        stop_early: bool,
    ) -> None:
        self._programs, self._testers = programs, testers
        self._program, self._setup, self._entry_point = program, setup, entry_point
        self._limits, self._stop_early = limits, stop_early
        self._until = time.monotonic() + limits.total_s
        self._reruns = 1
        self.detail = ""

    def statuses(self, tests: Sequence[Test]) -> tuple[Status, ...]:
        """One status a test. Raises ``SandboxError`` where the sandbox failed."""
        statuses = [Status.NOT_RUN] * len(tests)
        questions = [question(test, self._setup, self._entry_point) for test in tests]
        asked = [index for index, each in enumerate(questions) if each is not None]
        while asked and not self._stop(statuses):
            found = self._answers([each for index in asked if (each := questions[index]) is not None])
            for index, status in zip(asked, found, strict=False):
                statuses[index] = status
            asked = asked[len(found) :]
        for index, test in enumerate(tests):
            if questions[index] is not None:
                continue
            if self._stop(statuses):
                break
            if isinstance(test, StdinTest):
                statuses[index] = self._with_rerun(self._run_main, test)
            elif isinstance(test, AssertTest):
                statuses[index] = self._with_rerun(self._run_code, test)
        return tuple(statuses)

    def _stop(self, statuses: list[Status]) -> bool:
        return self._stop_early and any(status not in (Status.PASS, Status.NOT_RUN) for status in statuses)

    def _seconds(self) -> float:
        """How long the next thing may take."""
        return min(self._limits.time_s, self._until - time.monotonic())

    def _answers(self, questions: list[Question]) -> list[Status]:
        """Statuses of the first questions, asked of one process of the program; after a crash the rest are missing.

        Empty where the process got so little of the machine that it is asked again.
        """
        if self._seconds() <= 0:
            return [Status.TIMEOUT] * len(questions)
        statuses: list[Status] = []
        loaded = False
        try:
            with self._programs.zygote() as zygote, self._process(zygote) as process:
                for each in questions:
                    process.send(each.request)
                failure = self._failure(process)
                loaded = failure is None
                if failure is not None:
                    return [failure] * len(questions)
                for each in questions:
                    statuses.append(self._answer(process, each))
                    if self._stop(statuses):
                        return statuses
                return [Status.TAMPERED] * len(questions) if process.unread else statuses
        except ProgramStopped as stopped:
            self._note(stopped.text)
            if self._may_rerun(stopped):
                return statuses
            return [*statuses, stopped.status] if loaded else [stopped.status] * len(questions)
        except wire.MalformedError as error:
            self._note(str(error))
            return [Status.TAMPERED] * len(questions)

    def _process(self, zygote: Zygote) -> ProgramProcess:
        return ProgramProcess(
            zygote, "calls", self._program, setup=self._setup, limits=self._limits, entry_point=self._entry_point
        )

    def _failure(self, process: ProgramProcess) -> Status | None:
        """Why the program could not be loaded; None when it was."""
        return self._said(self._message(process, self._seconds()))

    def _answer(self, process: ProgramProcess, asked: Question) -> Status:
        message = self._message(process, self._seconds())
        failure = self._said(message)
        if failure is not None:
            return failure
        right = same_value(wire.from_form(message["value"]), asked.expected, asked.cmp)
        return Status.PASS if right else Status.WRONG_ANSWER

    def _message(self, process: ProgramProcess, time_s: float) -> dict[str, Any]:
        return self._object(process.receive(time_s))

    def _object(self, frame: bytes) -> dict[str, Any]:
        message = wire.loads(frame)
        if not isinstance(message, dict):
            raise wire.MalformedError("no object")
        return message

    def _said(self, message: dict[str, Any]) -> Status | None:
        """The failure in a message; None where it has a value instead."""
        if "value" in message:
            return None
        kind, text = message.get("error"), message.get("text", "")
        if not isinstance(kind, str) or not isinstance(text, str) or kind not in _SAID_BY_PROGRAM:
            raise wire.MalformedError("neither a value nor an error")
        self._note(text[:300])
        return Status(kind)

    def _run_main(self, test: StdinTest) -> Status:
        stdin = test.stdin.encode("utf-8", "surrogateescape")
        with (
            self._programs.zygote() as zygote,
            ProgramProcess(
                zygote, "main", self._program, setup=self._setup, limits=self._limits, stdin=stdin
            ) as process,
        ):
            process.wait_for_end(self._seconds())
            ending = process.end()
            if process.unread:  # it came to its end and said how; if it left by os._exit, the exit code is all
                failure = self._said(self._message(process, 0.0))
                if failure is not None:
                    return failure
            if ending.code != 0:
                self._note(f"exit code {ending.code}")
                return Status.RUNTIME_ERROR
            printed = bytes(process.printed).decode("utf-8", "replace")
        return Status.PASS if same_text(printed, test.expected, test.cmp) else Status.WRONG_ANSWER

    def _run_code(self, test: AssertTest) -> Status:
        """Run the test's code in a process of its own and pass its calls on to the program's."""
        until = time.monotonic() + self._seconds()
        setup = "\n".join(part for part in (self._setup, test.setup) if part)
        with self._programs.zygote() as zygote, self._process(zygote) as program:
            failure = self._failure(program)
            if failure is not None:
                return failure
            with (
                self._testers.zygote() as other,
                ProgramProcess(
                    other, "asserts", test.code, setup=setup, limits=self._limits, entry_point=self._entry_point
                ) as tester,
            ):
                while "verdict" not in (message := self._message(tester, until - time.monotonic())):
                    program.send(message["call"])
                    reply = program.receive(until - time.monotonic())
                    self._said(self._object(reply))  # whoever tests reports a failure's kind: "pass" must not be one
                    tester.send_raw(reply)
        self._note(str(message.get("text", "")))
        return Status(message["verdict"])

    def _with_rerun(self, run: Callable[[_T], Status], test: _T) -> Status:
        while self._seconds() > 0:
            try:
                return run(test)
            except ProgramStopped as stopped:
                self._note(stopped.text)
                if not self._may_rerun(stopped):
                    return stopped.status
            except wire.MalformedError as error:
                self._note(str(error))
                return Status.TAMPERED
        return Status.TIMEOUT

    def _may_rerun(self, stopped: ProgramStopped) -> bool:
        """Once a program: a time limit passed while the process hardly had the processor proves little."""
        rerun = stopped.starved and self._reruns > 0
        self._reruns -= rerun
        return rerun

    def _note(self, text: str) -> None:
        self.detail = self.detail or text
