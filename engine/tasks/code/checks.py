"""Checks of the task ``code`` for the ``doctor`` command: the isolation of the sandbox."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator

from engine.errors import InputError
from engine.installation_checks import CheckResult, failed, passed, passed_if, warned
from engine.sandbox.program_process import ProgramLimits
from engine.sandbox.zygote_process import strongest_level
from engine.task import Example
from engine.tasks.code.problems import code_problem
from engine.tasks.code.test_cases import CodeTest
from engine.tasks.code.testing.tester import shared_tester

_STRONGER = "apt-get install bubblewrap; in a container, permit user namespaces."

_ROW = {
    "task_id": "doctor_sum_of_even",
    "dataset": "doctor",
    "prompt": "Write a function sum_of_even(numbers) that returns the sum of the even numbers of a list.",
    "canonical_solution": "def sum_of_even(numbers):\n    return sum(n for n in numbers if n % 2 == 0)\n",
    "test_list": [
        "assert sum_of_even([1, 2, 3, 4]) == 6",
        "assert sum_of_even([]) == 0",
        "assert sum_of_even([7]) == 0",
        "assert sum_of_even([-2, 5]) == -2",
        "assert sum_of_even([10, 20]) == 30",
    ],
}
_RIGHT = str(_ROW["canonical_solution"])
_TEST: CodeTest = {"kind": "call", "fn": "f", "args": "(2,)", "expected": "4"}
_WRONG = "def sum_of_even(numbers):\n    return sum(numbers)\n"


def example() -> Example:
    """An easy problem with five tests, a correct reply and a wrong one."""
    problem = code_problem(_ROW, "")
    if problem is None:
        raise InputError("The example of the task code is not read as a programming problem")
    right, wrong = (
        f"<think>\nKeep the numbers that 2 divides.\n</think>\n\n```python\n{program}```\n"
        for program in (_RIGHT, _WRONG)
    )
    return Example(problem, right, wrong)


def checks() -> list[tuple[str, Callable[[], Iterable[CheckResult]]]]:
    """The checks with their titles."""
    return [("Sandbox under attack", attacks)]


def attacks() -> Iterator[CheckResult]:
    """Run a correct program, and programs that try to reach something outside the sandbox. The tests have many more."""
    control = _run("def f(x): return x * 2\n")
    yield passed_if(
        control == "pass", f"a correct program: {control}", "See docs/how-to/python-code.md for what the sandbox needs."
    )
    level = strongest_level()
    with socket.create_server(("127.0.0.1", 0)) as server:
        connecting = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 0.5)"
        for name, reach in {
            "a connection to this machine": connecting,
            "a file of this installation": f"open({__file__!r}).read()",
            "the environment of this process": _ENVIRONMENT,
        }.items():
            start = time.monotonic()
            status = _run(
                f"def f(x):\n    try:\n        {reach}\n    except OSError:\n        return 5\n    return 4\n"
            )
            text = f"{name}: {status} after {time.monotonic() - start:.1f} s (isolation {level})"
            if status not in ("pass", "infra_error"):
                yield passed(text)
            elif status == "pass" and level == "rlimits" and reach is not connecting:  # not promised on this level
                yield warned(text, _STRONGER)
            else:
                yield failed(
                    text, f"Do not run model-written code on this machine until this check passes. {_STRONGER}"
                )


def _run(program: str) -> str:
    """The result of a program that passes only if it returns 4, or reaches what it must not."""
    limits = ProgramLimits(time_s=1.0, memory_mb=512, total_s=5.0)
    [status] = shared_tester().run(program, [_TEST], entry_point="f", limits=limits).statuses
    return str(status)


_ENVIRONMENT = (
    "import os; parent = f'/proc/{os.getppid()}/environ'; "
    "assert 'PATH' in os.environ or b'PATH=' in open(parent, 'rb').read()"
)
"""Every shell sets PATH for its commands; the sandbox sets it for no program."""
