"""Runs the tests of a program in the sandbox. All values are compared in this process."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from engine.reading.python_syntax import parse
from engine.sandbox.inside import wire
from engine.sandbox.pool import ProcessPool
from engine.sandbox.program_process import (
    WALL_FACTOR,
    ProgramLimits,
    ProgramProcess,
    ProgramStopped,
    read_message,
    reported_failure,
)
from engine.sandbox.zygote_process import Zygote
from engine.tasks.code.literals import from_literal
from engine.tasks.code.test_cases import CodeTest, compared_with_literals
from engine.tasks.code.testing.comparison import Comparison, same_text, same_value
from engine.tasks.code.testing.report import Status

_AFTER_TIMEOUT = 0.2
"""The time that all further tests of a program have together after a time-out, as a part of that of one test."""


@dataclass(frozen=True)
class ValueRequest:
    """A request to the program's process for one value.

    Args:
        message: the request as it is sent.
        expected: the right value; it is not sent.
        cmp: how the returned value is compared with ``expected``.
    """

    message: dict[str, Any]
    expected: Any
    cmp: Comparison


def value_request(test: CodeTest, entry_point: str | None = None) -> ValueRequest | None:
    """A test as a request for one value; None if it needs the output or runs other code.

    Args:
        test: a test of any kind.
        entry_point: a name that the program must define.
    """
    if test["kind"] == "call":
        args, kwargs = list(from_literal(test["args"])), from_literal(test.get("kwargs", "{}"))
        message = {"fn": test["fn"], "args": wire.to_form(args), "kwargs": wire.to_form(kwargs)}
        return ValueRequest(message, from_literal(test["expected"]), test.get("cmp", "exact"))
    return _split_assert(test["code"], test.get("setup", ""), entry_point) if test["kind"] == "assert" else None


def _split_assert(code: str, setup: str, entry_point: str | None) -> ValueRequest | None:
    """``assert f(...) == literal`` as a request for the call's value, so that the program never sees the literal.

    Applies only to a plain call of a function that the program defines. In ``f(x) - 5 == 0`` or
    ``isclose(f(x), 5) == True`` the result of the outer expression is predictable, and the program could return an
    object whose methods produce it. For the same reason, calls of functions that the setup defines are not split.
    """
    for expression, expected in compared_with_literals(code):
        if not _is_call_of_program(expression, setup, entry_point, expected):
            return None
        return ValueRequest({"expression": ast.unparse(expression), "setup": setup}, expected, "exact")
    return None


def _is_call_of_program(expression: ast.expr, setup: str, entry_point: str | None, expected: Any) -> bool:
    """Whether it calls a function of the program. With an entry point that is the only one.

    In ``near(f(1), 5) == True`` a program that defines ``near`` would get the expected value and decide the test.
    Without an entry point such a call within a call is accepted only if the program cannot guess the result.
    """
    if not isinstance(expression, ast.Call) or not isinstance(expression.func, ast.Name):
        return False
    name = expression.func.id
    if hasattr(builtins, name) or _may_bind(setup, name, entry_point):
        return False
    if entry_point is not None:
        return name == entry_point
    if expected is not None and expected not in (0, 1):
        return True
    calls = (node.func for node in ast.walk(expression) if isinstance(node, ast.Call) and node is not expression)
    return all(isinstance(function, ast.Name) and hasattr(builtins, function.id) for function in calls)


def _may_bind(setup: str, name: str, entry_point: str | None) -> bool:
    """Whether the setup may bind the name. ``import *`` counts, except for the entry point."""
    try:
        nodes = list(ast.walk(parse(setup)))
    except ValueError:
        return True
    bound = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    bound |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    return name in bound or ("*" in bound and name != entry_point)


@dataclass
class TestRunner:
    """Runs the tests of one program.

    Args:
        programs: zygotes for programs.
        test_code: zygotes for tests that are code. A separate pool: a test of this kind holds one zygote of each,
            and with one pool two such tests could wait for each other.
        program, entry_point, limits, stop_early: as for :meth:`.tester.ProgramTester.run`.
        detail: the text of the first failure.
    """

    programs: ProcessPool[Zygote]
    test_code: ProcessPool[Zygote]
    program: str
    entry_point: str | None
    limits: ProgramLimits
    stop_early: bool
    detail: str = ""

    def __post_init__(self) -> None:
        self._cpu_left = self._sleep_left = self.limits.total_s

    def statuses(self, tests: Sequence[CodeTest]) -> tuple[Status, ...]:
        """The status of each test.

        Raises:
            SandboxError: the sandbox failed.
        """
        statuses = [Status.NOT_RUN] * len(tests)
        requests = [value_request(test, self.entry_point) for test in tests]
        open_tests = [index for index, request in enumerate(requests) if request is not None]
        while open_tests and not self._should_stop(statuses):
            values = self._values([request for index in open_tests if (request := requests[index]) is not None])
            for index, status in zip(open_tests, values, strict=False):
                statuses[index] = status
            open_tests = open_tests[len(values) :]
        for index, test in enumerate(tests):
            if requests[index] is not None:
                continue
            if self._should_stop(statuses):
                break
            statuses[index] = self._stopped_or(self._run_main if test["kind"] == "stdin" else self._run_code, test)
        return tuple(statuses)

    def _should_stop(self, statuses: list[Status]) -> bool:
        return self.stop_early and any(status not in (Status.PASS, Status.NOT_RUN) for status in statuses)

    def _seconds(self, process: ProgramProcess | None = None) -> float:
        """Processor seconds that the next step may take, with the sleep that ``ProgramProcess`` adds."""
        cpu_left = self._cpu_left - (process.cpu_s() if process else 0.0)
        sleep_left = self._sleep_left - (process.waited_s / WALL_FACTOR if process else 0.0)
        return min(self.limits.time_s, cpu_left, sleep_left)

    def _values(self, requests: list[ValueRequest]) -> list[Status]:
        """Statuses of the first requests, all sent to one process. After a crash the rest are missing."""
        if self._seconds() <= 0:
            return [Status.TIMEOUT] * len(requests)
        statuses: list[Status] = []
        loaded = False
        try:
            with self._calls() as process:
                for request in requests:
                    process.send(request.message)
                failure = self._load_failure(process)
                loaded = failure is None
                if failure is not None:
                    return [failure] * len(requests)
                for request in requests:
                    statuses.append(self._value(process, request))
                    if self._should_stop(statuses):
                        return statuses
                return [Status.TAMPERED] * len(requests) if process.unread else statuses
        except ProgramStopped as stopped:
            status = self._status_of(stopped)
            return [*statuses, status] if loaded else [status] * len(requests)
        except wire.MalformedError as error:
            self._note(str(error))
            return [Status.TAMPERED] * len(requests)

    def _calls(self) -> AbstractContextManager[ProgramProcess]:
        """A process of the program that answers calls."""
        return self._running(self.programs, "calls", self.program, entry_point=self.entry_point)

    @contextmanager
    def _running(
        self, pool: ProcessPool[Zygote], kind: Literal["calls", "main", "remote"], source: str, **options: Any
    ) -> Iterator[ProgramProcess]:
        """Run a process, and subtract its processor time and its sleep from what is left."""
        with pool.member() as zygote:
            program = ProgramProcess(zygote, kind, source, limits=self.limits, **options)
            try:
                with program as process:
                    yield process
            finally:
                self._cpu_left -= program.cpu_s()
                self._sleep_left -= program.waited_s / WALL_FACTOR

    def _load_failure(self, process: ProgramProcess) -> Status | None:
        """Why the program could not be loaded; None if it was."""
        return self._failure(read_message(process.receive(self._seconds(process))))

    def _value(self, process: ProgramProcess, request: ValueRequest) -> Status:
        message = read_message(process.receive(self._seconds(process)))
        failure = self._failure(message)
        if failure is not None:
            return failure
        is_right = same_value(wire.from_form(message["value"]), request.expected, request.cmp)
        return Status.PASS if is_right else Status.WRONG_ANSWER

    def _failure(self, message: dict[str, Any]) -> Status | None:
        """The failure that a program reports; None if its message has a value."""
        reported = reported_failure(message)
        if reported is None:
            return None
        failure, text = reported
        self._note(text)
        return Status(failure)

    def _run_main(self, test: CodeTest) -> Status:
        stdin = test["stdin"].encode("utf-8", "surrogateescape")
        with self._running(self.programs, "main", self.program, stdin=stdin) as process:
            process.wait_for_end(self._seconds())
            ending = process.end()
            if process.unread:  # a program that leaves by os._exit sends no message and has only its exit code
                failure = self._failure(read_message(process.receive(0.0)))
                if failure is not None:
                    return failure
            if ending.code != 0:
                self._note(f"exit code {ending.code}")
                return Status.RUNTIME_ERROR
            printed = bytes(process.printed).decode("utf-8", "replace")
        is_right = same_text(printed, test["expected"], test.get("cmp", "lines"))
        return Status.PASS if is_right else Status.WRONG_ANSWER

    def _run_code(self, test: CodeTest) -> Status:
        """Run the test's code in a second process and relay its calls to the program's process."""
        seconds = self._seconds()
        with self._calls() as program:
            failure = self._load_failure(program)
            if failure is not None:
                return failure
            options = {"setup": test.get("setup", ""), "entry_point": self.entry_point}
            with self._running(self.test_code, "remote", test["code"], **options) as caller:

                def seconds_left() -> float:
                    slept_s = (program.waited_s + caller.waited_s) / WALL_FACTOR
                    return seconds - max(slept_s, program.cpu_s() + caller.cpu_s())

                while "call" in (message := read_message(caller.receive(seconds_left()))):
                    program.send(message["call"])
                    reply = program.receive(seconds_left())
                    self._failure(read_message(reply))  # refuses an "assertion": only the test may report it
                    caller.send_raw(reply)
        if message.get("error") == "assertion":
            self._note(str(message["text"]))
            return Status.WRONG_ANSWER
        return self._failure(message) or Status.PASS

    def _stopped_or(self, run: Callable[[CodeTest], Status], test: CodeTest) -> Status:
        if self._seconds() <= 0:
            return Status.TIMEOUT
        try:
            return run(test)
        except ProgramStopped as stopped:
            return self._status_of(stopped)
        except wire.MalformedError as error:
            self._note(str(error))
            return Status.TAMPERED

    def _status_of(self, stopped: ProgramStopped) -> Status:
        """The status of a stopped program. After a time-out the further tests have ``_AFTER_TIMEOUT``, all together.

        The program has failed by then, and a loop without end takes whatever time it is given, while others wait.
        """
        self._note(stopped.text)
        status = Status(stopped.failure)
        if status is Status.TIMEOUT:
            seconds = _AFTER_TIMEOUT * self.limits.time_s
            self._cpu_left, self._sleep_left = min(self._cpu_left, seconds), min(self._sleep_left, seconds)
        return status

    def _note(self, text: str) -> None:
        self.detail = self.detail or text
