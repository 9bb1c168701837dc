"""Checks of the task ``code`` for the ``doctor`` command: the isolation of the sandbox."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator

from engine.contract.checks import CheckResult, failed, passed, passed_if, warned
from engine.errors import InputError
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
    is_jailed = strongest_level() != "rlimits"
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield _result("a connection to this machine", _connecting(server.getsockname()[1]), is_kept_out=True)
    yield _result("a file of this installation", _reading(__file__), is_kept_out=is_jailed)
    yield _result("the environment of this process", _LOOKING_UP, is_kept_out=is_jailed)


def _result(name: str, program: str, *, is_kept_out: bool) -> CheckResult:
    """The result of a program that passes only if it reaches what it must not.

    Args:
        name: what it tries to reach.
        program: its source.
        is_kept_out: whether the level of isolation promises that it fails.
    """
    start = time.monotonic()
    status = _run(program)
    text = f"{name}: {status} after {time.monotonic() - start:.1f} s (isolation {strongest_level()})"
    if status not in ("pass", "infra_error"):
        return passed(text)
    if status == "pass" and not is_kept_out:
        return warned(text, _STRONGER)
    return failed(text, f"Do not run model-written code on this machine until this check passes. {_STRONGER}")


def _run(program: str) -> str:
    limits = ProgramLimits(time_s=1.0, memory_mb=512, total_s=5.0)
    [status] = shared_tester().run(program, [_TEST], entry_point="f", limits=limits).statuses
    return str(status)


def _connecting(port: int) -> str:
    return (
        "import socket\ndef f(x):\n    try:\n"
        f"        socket.create_connection(('127.0.0.1', {port}), 0.5).close()\n"
        "        return 4\n    except OSError:\n        return 5\n"
    )


def _reading(path: str) -> str:
    return (
        f"def f(x):\n    try:\n        open({path!r}).read()\n        return 4\n    except OSError:\n        return 5\n"
    )


_LOOKING_UP = (
    "import os\ndef f(x):\n"
    "    if 'PATH' in os.environ: return 4\n"
    "    try:\n"
    "        parent = open(f'/proc/{os.getppid()}/environ', 'rb').read()\n"
    "    except OSError:\n        parent = b''\n"
    "    return 4 if b'PATH=' in parent else 5\n"
)
"""Every shell sets PATH for its commands; the sandbox sets it for no program."""
