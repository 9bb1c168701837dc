"""Checks of the task ``code`` for the ``doctor`` command: the isolation of the sandbox."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.contract.checks import CheckResult, failed, passed, passed_if, warned
from engine.errors import InputError
from engine.sandbox.program_process import ProgramLimits
from engine.sandbox.zygote_process import strongest_level
from engine.task import Example
from engine.tasks.code.problems import code_problem
from engine.tasks.code.testing.program_tests import CallTest
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


@dataclass(frozen=True)
class _Attack:
    """A program that tries to pass ``f(2) == 4`` without computing it.

    Args:
        name: description of the attack, for the report.
        program: its source.
        by_isolation: whether only the levels with namespaces prevent it.
    """

    name: str
    program: str
    by_isolation: bool = False


_ATTACKS = (
    _Attack(
        "a value that is equal to everything",
        "class E:\n"
        "    def __eq__(self, other): return True\n"
        "    def __hash__(self): return hash(4)\n"
        "def f(x): return E()\n",
    ),
    _Attack("an int that is equal to everything", "class E(int):\n    def __eq__(self, other): return True\n"
            "def f(x): return E(5)\n"),
    _Attack("leaving with exit code 0", "import os\ndef f(x): os._exit(0)\n"),
    _Attack("patched builtins", "import builtins\nbuiltins.exec = builtins.compile = lambda *a, **k: None\n"
            "builtins.all = lambda *a: True\ndef f(x): return 5\n"),
    _Attack("a verdict written to every open file", "import os\ndef f(x):\n    for fd in range(256):\n"
            "        try: os.write(fd, b'{\"status\": \"pass\", \"result\": 4}\\n')\n"
            "        except OSError: pass\n    os._exit(0)\n"),
    _Attack("the expected value looked up in the caller's frames", "import gc, sys\ndef f(x):\n"
            "    frame = sys._getframe()\n    while frame:\n"
            "        for scope in (frame.f_locals, frame.f_globals):\n"
            "            for key in ('expected', 'test', 'tests'):\n"
            "                value = scope.get(key)\n"
            "                if value is not None: return getattr(value, 'expected', value)\n"
            "        frame = frame.f_back\n    return 5\n"),
    _Attack("an endless loop that catches everything", "def f(x):\n    while True:\n"
            "        try:\n            while True: pass\n        except BaseException: pass\n"),
    _Attack("more memory than its limit", "def f(x):\n    hoard = bytearray(1 << 36)\n    return 5\n"),
    _Attack("a flood of output", "def f(x):\n    while True: print('x' * 65536)\n"),
    _Attack("a hundred processes", "import os\ndef f(x):\n    made = 0\n    for _ in range(100):\n"
            "        try:\n            pid = os.fork()\n        except OSError:\n            break\n"
            "        if pid == 0:\n            import time\n            time.sleep(60)\n            os._exit(0)\n"
            "        made += 1\n    return 4 if made == 100 else 5\n"),
)  # fmt: skip


def attacks() -> Iterator[CheckResult]:
    """Run programs that try to pass without a correct result, or to read data outside the sandbox."""
    control = _run("def f(x): return x * 2\n")
    yield passed_if(
        control == "pass",
        f"a correct program: {control}",
        "See docs/how-to/python-code.md for what the sandbox needs.",
    )
    jailed = strongest_level() != "rlimits"
    with _listening() as port, _planted_name() as name:
        reached = (
            _Attack("a connection to this machine", _connecting(port)),
            _Attack("a file of this installation", _reading(__file__), by_isolation=True),
            _Attack("the environment of this process", _looking_up(name), by_isolation=True),
        )
        for attack in (*_ATTACKS, *reached):
            start = time.monotonic()
            status = _run(attack.program)
            text = f"{attack.name}: {status} after {time.monotonic() - start:.1f} s"
            if status in ("pass", "infra_error"):
                weak = attack.by_isolation and status == "pass" and not jailed
                fix = f"Do not run model-written code on this machine until this check passes. {_STRONGER}"
                yield warned(f"{text} (isolation {strongest_level()})", _STRONGER) if weak else failed(text, fix)
            else:
                yield passed(text)


def _run(program: str) -> str:
    limits = ProgramLimits(time_s=1.0, memory_mb=512, total_s=5.0)
    [status] = shared_tester().run(program, [CallTest("f", (2,), {}, 4)], entry_point="f", limits=limits).statuses
    return str(status)


@contextmanager
def _listening() -> Iterator[int]:
    """Listen on a port of this machine and return its number."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def _planted_name() -> Iterator[str]:
    """Set an environment variable of this process, as for an API key."""
    name = "DOCTOR_PLANTED_KEY"
    os.environ[name] = "seen"
    try:
        yield name
    finally:
        del os.environ[name]


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


def _looking_up(name: str) -> str:
    return (
        "import os\ndef f(x):\n"
        f"    if {name!r} in os.environ: return 4\n"
        "    try:\n"
        "        parent = open(f'/proc/{os.getppid()}/environ', 'rb').read()\n"
        "    except OSError:\n        parent = b''\n"
        f"    return 4 if {name.encode()!r} in parent else 5\n"
    )
