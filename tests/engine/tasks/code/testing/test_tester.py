# ruff: noqa: E501 - programs of one line
"""Correct programs, the meaning of each status, and failures of the sandbox itself. The programs of MBPP: test_task.py."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.errors import ConfigurationError, InputError
from engine.records import Outcome
from engine.sandbox import program_process, zygote_process
from engine.sandbox.program_process import WALL_FACTOR, ProgramLimits
from engine.sandbox.zygote_process import strongest_level
from engine.tasks.code.testing.report import Status
from engine.tasks.code.testing.tester import ProgramTester, shared_tester
from tests.conftest import ROOT
from tests.support.sandbox import assert_test, call_test, fail_every, stdin_test
from tests.support.table import table

RIGHT = {
    "prints": ("def f(x):\n    print('noise', x)\n    return x + 1", call_test("f", (1,), expected=2)),
    "keyword": ("def f(x, *, by): return x + by", call_test("f", (1,), {"by": 4}, 5)),
    "crlf_and_tabs": ("def f(x):\r\n\treturn x\r\n", call_test("f", (1,), expected=1)),
    "int_as_float": ("def f(): return 2.0", call_test("f", expected=2)),
    "infinity": ("def f(): return [float('inf')]", call_test("f", expected=[float("inf")], cmp="float")),
    "nan": ("print('NaN', 1)", stdin_test("", "nan 1", cmp="float")),
    "big_integer": ("def f(): return 7 ** 20000", call_test("f", expected=7**20000)),
    "big_integer_printed": ("print(10 ** 20000)", stdin_test("", "1" + "0" * 20000)),
    "big_argument": ("def f(x): return x % 1000", call_test("f", (10**6000 + 7,), expected=7)),
    "bytes_and_sets": ("def f(): return [{b'\\x00', (1, 2)}, frozenset({1})]", call_test("f", expected=[{b"\0", (1, 2)}, {1}])),
    "complex": ("def f(): return 1j ** 2", call_test("f", expected=-1)),
    "surrogate": ("def f(): return '\\ud800'", call_test("f", expected="\ud800")),
    "counter": ("from collections import *\ndef f(): return Counter('aab')", call_test("f", expected={"a": 2, "b": 1})),
    "named_tuple": ("from collections import *\nP = namedtuple('P', 'x y')\ndef f(): return P(1, 2)", call_test("f", expected=(1, 2))),
    "tuple_for_list": ("def f(): return ((1, 2), 3)", call_test("f", expected=[[1, 2], 3], cmp="sequence")),
    "method": ("class Solution:\n    def f(self, x): return x", call_test("Solution.f", (3,), expected=3)),
    "deep": ("import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return n and 1 + f(n - 1)", call_test("f", (50_000,), expected=50_000)),
    "classes": ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: 'int'\ndef f(x): return P(x).x", call_test("f", (3,), expected=3)),
    "library": (
        "import collections, math, heapq, re, itertools, functools, bisect, string, decimal, fractions, datetime, statistics\n"
        "import hashlib, random, typing, operator, copy, json, array, cmath, calendar, queue, asyncio, zoneinfo\n"
        "def f(): return heapq.nsmallest(1, [3, 1]) + re.findall('a+', 'caat')",
        call_test("f", expected=[1, "aa"]),
    ),
    "threads": (
        "import threading, sys\nthreading.stack_size(64 << 20)\nsys.setrecursionlimit(10**6)\ndef main(): print(int(input()) + 1)\n"
        "threading.Thread(target=main).start()",
        stdin_test("1", "2"),
    ),
    "asyncio": ("import asyncio\nasync def g(): return 1\ndef f(): return asyncio.run(g())", call_test("f", expected=1)),
    "limits_of_its_own": ("import resource\nresource.setrlimit(resource.RLIMIT_STACK, (-1, -1))\ndef f(): return 1", call_test("f", expected=1)),
    "stdin": ("import sys\nprint(sum(map(int, sys.stdin.read().split())))", stdin_test("1 2\r\n3\n", "6\n")),
    "stdin_bytes": ("import sys\nsys.stdout.buffer.write(sys.stdin.buffer.readline())", stdin_test("ab\ncd", "ab")),
    "stdin_by_descriptor": ("print(open(0).read())", stdin_test("x\ny\n", "x\ny")),
    "stdin_by_os": ("import os\nos.write(1, os.read(0, 100))", stdin_test("x", "x")),
    "output_by_the_first_stdout": (
        "import atexit, io, sys\ninput = iter(sys.stdin.read().splitlines()).__next__\nsys.stdout = io.StringIO()\n"
        "@atexit.register\ndef write(): sys.__stdout__.write(sys.stdout.getvalue())\nprint(int(input()) + 1)",
        stdin_test("1", "2"),
    ),
    "wrapped_again": (
        "import io, sys\nsys.stdin = io.TextIOWrapper(sys.stdin.buffer, encoding='utf-8')\n"
        "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint(input())",
        stdin_test("é", "é"),
    ),
    "wrapped_again_in_a_function": (
        "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\ndef f(x):\n    print(x)\n    return x",
        call_test("f", (1,), expected=1),
    ),
    "closes_its_output": ("import sys\nwith sys.stdout as out: out.write('1')", stdin_test("", "1")),
    "output_in_a_second_file": ("import os\nout = os.fdopen(1, 'w')\nprint(1, file=out)", stdin_test("", "1")),
    "output_replaced": ("import io, sys\nout = sys.stdout\nsys.stdout = io.StringIO()\nout.write('1')", stdin_test("", "1")),
    "no_output_at_the_end": ("import sys\nprint(1, flush=True)\nsys.stdout = None", stdin_test("", "1")),
    "finalizer": ("class A:\n    def __del__(self): print(1)\na = A()", stdin_test("", "1")),
    "unfinished_generator": ("def g():\n    try: yield\n    finally: print(1)\na = g()\nnext(a)", stdin_test("", "1")),
    "names_of_a_script": ("import os\nprint(__builtins__.len(__name__), os.path.dirname(__file__))", stdin_test("", "8 ")),
    "main_guard": ("if __name__ == '__main__':\n    print(1)", stdin_test("", "1")),
    "exits": ("import sys\nprint(1)\nsys.exit(0)", stdin_test("", "1")),
    "exits_by_builtin": ("print(1)\nexit()\n", stdin_test("", "1")),
    "leaves_abruptly": ("import os\nprint(1, flush=True)\nos._exit(0)", stdin_test("", "1")),
    "exit_function": ("import atexit\natexit.register(print, 1)", stdin_test("", "1")),
    "own_file": ("open('x', 'w').write('1')\nprint(open('x').read())", stdin_test("", "1")),
    "tokens": ("print(' 1   2 \\n\\n3')", stdin_test("", "1 2 3", cmp="tokens")),
    "close": ("print(0.1 + 0.2, 'x')", stdin_test("", "0.3 x", cmp="float")),
    "close_integer": ("print('2.9999999999', '1e9')", stdin_test("", "3 1000000000", cmp="float")),
    "close_large_float": ("def f(): return [1000000.5, 3.0]", call_test("f", expected=[1000000.6, 3], cmp="float")),
    "two_places": ("assert True\ndef f(x): return x", assert_test("assert f(1) == 1")),
    "assert_reversed": ("def f(x): return [x]", assert_test("assert [1] == f(1)")),
    "assert_none": ("def f(x): return None", assert_test("assert f(1) is None")),
    "assert_close": ("def f(x): return x / 3", assert_test("assert math.isclose(f(1), 0.3333333, rel_tol=1e-5)", "import math")),
    "assert_set": ("def f(x): return [2, 1]", assert_test("assert set(f(1)) == {1, 2}")),
    "assert_in_place": ("def f(x): x.sort()", assert_test("x = [2, 1]\nf(x)\nassert x == [1, 2]")),
    "assert_not": ("def f(x): return 0", assert_test("assert not f(1)")),
    "expects_an_exception": (
        "def f(x):\n    if x < 0:\n        raise ValueError('negative')\n    return x",
        assert_test("try:\n    f(-1)\nexcept ValueError as error:\n    assert str(error) == 'negative'\nelse:\n    assert False"),
    ),
    "expects_a_base_class": (
        "class Empty(IndexError): pass\ndef f(x):\n    raise Empty()",
        assert_test("try:\n    f([])\n    assert False\nexcept LookupError:\n    pass"),
    ),
    "expects_an_assertion": (
        "def f(x):\n    assert x > 0, 'small'",
        assert_test("caught = None\ntry:\n    f(0)\nexcept AssertionError as error:\n    caught = error.args\nassert caught == ('small',)"),
    ),
    "expects_a_key": (
        "def f(x): return {}[x]",
        assert_test("try:\n    f('a')\n    assert False\nexcept KeyError as error:\n    assert error.args[0] == 'a'"),
    ),
    "assert_by_another_name": ("def f(x): return x", assert_test("assert candidate(1) == 1", "candidate = f")),
    "assert_by_a_function_of_its_own": ("def f(x): return x / 3", assert_test("assert near(f(1), 1 / 3) == True", "def near(a, b): return abs(a - b) < 1e-6")),
    "decimal": ("from decimal import Decimal\ndef f(): return [Decimal('0.5'), Decimal('1E+3')]", call_test("f", expected=[0.5, 1000])),
    "close_decimal": ("from decimal import Decimal\ndef f(): return Decimal('0.3333333')", call_test("f", expected=1 / 3, cmp="float")),
    "fraction": ("from fractions import Fraction\ndef f(): return Fraction(1, 2), Fraction(6, 3)", call_test("f", expected=(0.5, 2))),
    "enum": ("from enum import IntEnum, StrEnum\nclass C(IntEnum):\n    A = 7\nclass D(StrEnum):\n    B = 'b'\ndef f(): return [C.A, D.B]", call_test("f", expected=[7, "b"])),
    "subclasses": (
        "class L(list): pass\nclass D(dict):\n    def __missing__(self, key): return 0\nclass S(str):\n    def __str__(self): return 'b'\n"
        "class I(int): pass\nclass T(tuple): pass\nclass E(set): pass\nclass B(bytes): pass\nclass F(float): pass\n"
        "def f(): return L([D({1: I(2)}), S('a'), T((1,)), E({3}), B(b'x'), F(0.5)])",
        call_test("f", expected=[{1: 2}, "a", (1,), {3}, b"x", 0.5]),
    ),
    "bytearray": ("def f(): return bytearray(b'ab')", call_test("f", expected=b"ab")),
    "keys": ("def f(): return {1: 2, 3: 4}.keys()", call_test("f", expected={1, 3})),
    "items": ("def f(): return {1: 2}.items()", call_test("f", expected={(1, 2)})),
    "pool_of_threads": (
        "import time\nfrom concurrent.futures import ThreadPoolExecutor\ndef f():\n    with ThreadPoolExecutor(32) as pool:\n"
        "        return sum(pool.map(lambda x: time.sleep(0.02) or x, range(64)))",
        call_test("f", expected=2016),
    ),
    "list_of_a_generator": ("def f(n):\n    yield from range(n)", assert_test("assert list(f(3)) == [0, 1, 2]")),
    "sorted_map": ("def f(n): return map(abs, [-n, 1])", assert_test("assert sorted(f(2)) == [1, 2]")),
    "list_of_keys": ("def f(): return {3: 0, 1: 0}.keys()", assert_test("assert list(f()) == [3, 1]")),
    "list_of_values": ("def f(): return {3: 'x', 1: 'y'}.values()", assert_test("assert list(f()) == ['x', 'y']")),
    "list_of_a_range": ("def f(n): return range(n)", assert_test("assert list(f(2)) == [0, 1] and f(2) == range(2)")),
    "assert_with_its_objects": ("class P:\n    x = 3\ndef f(p): return p.x", assert_test("assert f(p) == 3", "p = P()")),
}  # fmt: skip


@table("name", RIGHT)
def test_a_right_program_passes(tester, name):
    if name == "own_file" and tester.level == "rlimits":
        return  # nothing can be written on this level
    program, test = RIGHT[name]
    report = tester.run(program, [test])
    assert report.all_passed, report


WRONG = {
    "underscores_printed": ("print('4_2.0 0.5')", stdin_test("", "42.0 0.5", cmp="float")),
    "digits_of_another_script_printed": ("print('٤٢ ٠.٥')", stdin_test("", "42 0.5", cmp="float")),
    "end_of_an_iteration": ("def f(x): raise StopIteration", assert_test("for x, y in zip(map(f, [1, 2]), [3, 4]):\n    assert x == y")),
    "end_of_an_iteration_as_a_subclass": (
        "class End(StopIteration): pass\ndef f(x): raise End",
        assert_test("assert all(y == 3 for y in map(f, [1, 2]))"),
    ),
    "end_of_a_callable_iterator": ("def f(): raise StopIteration", assert_test("for x in iter(f, 0):\n    assert x == 1")),
    "forged_end_of_an_iteration": (
        "import os\ndef f(x):\n    text = b'{\"error\":\"runtime_error\",\"text\":\"\",\"raised\":[\"StopIteration\",\"\"]}'\n"
        "    os.write(3, len(text).to_bytes(4, 'big') + text)",
        assert_test("assert all(y == 3 for y in map(f, [1, 2]))"),
    ),
    "near_integer_printed": ("print('1000000001 0.5')", stdin_test("", "1000000007 0.5", cmp="float")),
    "near_float_for_an_integer_printed": ("print('1000000001.0 0.5')", stdin_test("", "1000000007 0.5", cmp="float")),
    "near_integer": ("def f(): return [1000000001, 0.5]", call_test("f", expected=[1000000007, 0.5], cmp="float")),
    "near_float_for_an_integer": ("def f(): return 1000000001.0", call_test("f", expected=1000000007, cmp="float")),
    "near_complex_for_an_integer": ("def f(): return 1000000001 + 0j", call_test("f", expected=1000000007, cmp="float")),
    "complex_for_infinity": ("def f(): return 0j", call_test("f", expected=float("inf"), cmp="float")),
    "infinity_for_complex": ("def f(): return float('inf')", call_test("f", expected=1j, cmp="float")),
    "decimal": ("from decimal import Decimal\ndef f(): return Decimal('0.1')", call_test("f", expected=0.1)),
    "large_for_infinity": ("from decimal import Decimal\ndef f(): return Decimal('1E+999999')", call_test("f", expected=float("inf"), cmp="float")),
    "signalling": ("from decimal import Decimal\ndef f(): return Decimal('sNaN')", call_test("f", expected=1)),
    "other_enum": ("from enum import IntEnum\nclass C(IntEnum):\n    A = 7\n    def __eq__(self, other): return True\ndef f(): return C.A", call_test("f", expected=8)),
    "unhashable_items": ("def f(): return {1: [2]}.items()", call_test("f", expected={(1, 2)})),
    "keys_for_a_list": ("def f(): return {1: 2}.keys()", call_test("f", expected=[1])),
    "zero_denominator": ("import os\ndef f():\n    text = b'{\"value\":{\"fraction\":[\"0x1\",\"0x0\"]}}'\n    os.write(3, len(text).to_bytes(4, 'big') + text)\n    os._exit(0)", call_test("f", expected=1)),
    "another_exception": ("def f(x): return {}[x]", assert_test("try:\n    f(1)\nexcept ValueError:\n    pass")),
    "no_exception": ("def f(x): return x", assert_test("try:\n    f(1)\n    assert False\nexcept ValueError:\n    pass")),
    "another_message": ("def f(x): raise ValueError('b')", assert_test("try:\n    f(1)\nexcept ValueError as e:\n    assert str(e) == 'a'")),
    "forged_exception": (
        "import os\ndef f(x):\n    text = b'{\"error\":\"runtime_error\",\"text\":\"\",\"raised\":[[1],2]}'\n"
        "    os.write(3, len(text).to_bytes(4, 'big') + text)\n    os._exit(0)",
        assert_test("try:\n    f(1)\nexcept ValueError:\n    pass"),
    ),
    "endless_generator": ("import itertools\ndef f(): return itertools.count()", assert_test("assert list(f()) == [0]")),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_fails(strongest_tester, name):
    program, test = WRONG[name]
    report = strongest_tester.run(program, [test])
    assert (report.passed, report.outcome) == (0, Outcome.OK), report


@pytest.mark.parametrize(
    "code", ["assert near(f(1), 5)", "assert near(f(1), 5) == True", "assert f(near(1, 5)) == 5 and near(f(1), 5)"]
)
@pytest.mark.parametrize("entry_point", ["f", None])
def test_a_free_name_of_a_test_is_not_the_programs(strongest_tester, code, entry_point):
    """A program that defines ``near`` would be told the expected value, and would decide."""
    forger = "told = []\ndef near(*values):\n    told.extend(values)\n    return True\ndef f(x): return told[-1] if told else 5"
    report = strongest_tester.run(forger, [assert_test(code)], entry_point=entry_point)
    assert report.passed == 0, report


BRIEF = ProgramLimits(time_s=0.3, memory_mb=256, output_bytes=100_000, total_s=3)
STATUSES = {
    "def f(): return 2": Status.WRONG_ANSWER,
    "def f(): return '1'": Status.WRONG_ANSWER,
    "def f(): return 1 / 0": Status.RUNTIME_ERROR,
    "def f(): return iter([])": Status.RUNTIME_ERROR,
    "import sys\ndef f(): sys.exit(0)": Status.RUNTIME_ERROR,
    "def f(:": Status.RUNTIME_ERROR,
    "def g(): return 1": Status.NO_ENTRY_POINT,
    "def f():\n    while True: pass": Status.TIMEOUT,
    "while True: pass": Status.TIMEOUT,
    "def f(): return bytearray(10 ** 10)": Status.MEMORY,
    "def f(): print('x' * 10_000_000)": Status.OUTPUT_LIMIT,
    "def f(): return 'x' * 200_000": Status.OUTPUT_LIMIT,
    "import os\ndef f(): os.fork()": Status.FORBIDDEN,
    "import socket\ndef f(): socket.socket()": Status.FORBIDDEN,
    "import os\nos.write(3, b'\\0\\0\\0\\1x')\ndef f(): return 1": Status.TAMPERED,
    "import os\ndef f():\n    os.write(3, b'\\0\\0\\0\\1x')\n    return 1": Status.TAMPERED,
}


@table("program", STATUSES)
def test_the_status_says_what_happened(tester, program):
    report = tester.run(program, [call_test("f", expected=1)], limits=BRIEF)
    assert report.statuses == (STATUSES[program],), report
    timed_out = STATUSES[program] is Status.TIMEOUT
    assert report.outcome is (Outcome.VERIFIER_TIMEOUT if timed_out else Outcome.OK)


@table(
    ("program", "status"),
    [
        ("print(2)", Status.WRONG_ANSWER),
        ("", Status.WRONG_ANSWER),
        ("print(1); raise ValueError", Status.RUNTIME_ERROR),
        ("print(1); import sys; sys.exit(3)", Status.RUNTIME_ERROR),
        ("print(1, flush=True); import os; os.closerange(0, 9)\nwhile True: pass", Status.RUNTIME_ERROR),
        ("print(1, flush=True)\nwhile True: pass", Status.TIMEOUT),
        ("while True: print('x' * 1000)", Status.OUTPUT_LIMIT),
        ("print(1); import os; os.execv('/bin/true', ['true'])", Status.FORBIDDEN),
    ],
)
def test_the_status_of_a_program_that_prints(tester, program, status):
    assert tester.run(program, [stdin_test("", "1")], limits=BRIEF).statuses == (status,)


def test_each_test_has_its_status_and_a_crash_stops_no_later_test(strongest_tester):
    program = "import os\ndef f(x):\n    if x == 1: os._exit(0)\n    if x == 2:\n        while True: pass\n    return x"
    tests = [call_test("f", (x,), expected=0 if x == 3 else x) for x in range(5)]
    report = strongest_tester.run(program, tests, limits=BRIEF)
    expected = [Status.PASS, Status.RUNTIME_ERROR, Status.TIMEOUT, Status.WRONG_ANSWER, Status.PASS]
    assert report.statuses == tuple(expected)
    assert (report.passed, report.total, report.all_passed) == (2, 5, False)
    early = strongest_tester.run(program, tests, limits=BRIEF, stop_early=True)
    assert early.statuses == (Status.PASS, Status.RUNTIME_ERROR) + (Status.NOT_RUN,) * 3


def test_time_is_bounded_for_a_test_and_for_all(tester):
    loops = "def f(x):\n    while True: pass"
    started = time.monotonic()
    report = tester.run(loops, [call_test("f", (0,), expected=0)], limits=ProgramLimits(time_s=0.5))
    assert report.statuses == (Status.TIMEOUT,)
    assert 0.5 <= time.monotonic() - started < 0.5 * WALL_FACTOR + 10
    started = time.monotonic()
    limits = ProgramLimits(time_s=0.3, total_s=0.6)
    report = tester.run(loops, [call_test("f", (x,), expected=0) for x in range(50)], limits=limits)
    assert report.statuses == (Status.TIMEOUT,) * 50
    assert time.monotonic() - started < 0.6 * WALL_FACTOR + 10


def test_after_a_time_out_the_further_tests_share_a_fifth_of_the_time_of_one(strongest_tester):
    program = (
        "import time\ndef f(x):\n    until = time.process_time() + 0.12\n"
        "    while x < 0 or time.process_time() < until: pass\n    return x"
    )
    limits, right = ProgramLimits(time_s=1.0), [call_test("f", (x,), expected=x) for x in (1, 2, 3)]
    assert strongest_tester.run(program, right, limits=limits).all_passed
    report = strongest_tester.run(program, [call_test("f", (-1,), expected=-1), *right], limits=limits)
    assert report.statuses == (Status.TIMEOUT, Status.PASS, Status.TIMEOUT, Status.TIMEOUT)


def test_the_limit_is_processor_time_so_that_a_busy_machine_changes_no_result(strongest_tester):
    """One program takes longer than its limit because it waits for a core that others use too; one sleeps.

    The program itself says whether it waited. How many others that takes depends on the scheduler, which may give each
    session an equal share of the core: others are added, each in a session of its own, until it waits half of the time.
    """
    core = {min(os.sched_getaffinity(0))}
    busy: list[subprocess.Popen[bytes]] = []
    single = ProgramTester(1, strongest_tester.level)
    cores = os.sched_getaffinity(0)
    loops = (
        "import time\ndef f():\n    began = time.monotonic()\n    until = time.process_time() + 0.3\n"
        "    while time.process_time() < until: pass\n    return time.monotonic() - began > 0.6"
    )
    try:
        os.sched_setaffinity(0, core)
        single.run("def f(): return 1", [call_test("f", expected=1)])  # starts the zygote, which inherits the core
        os.sched_setaffinity(0, cores)
        report = None
        while len(busy) < 48 and (report is None or report.statuses == (Status.WRONG_ANSWER,)):
            for _ in range(max(3, len(busy))):
                busy.append(subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True))
                os.sched_setaffinity(busy[-1].pid, core)
            report = single.run(loops, [call_test("f", expected=True)], limits=ProgramLimits(time_s=0.5))
        assert report.all_passed, report
    finally:
        os.sched_setaffinity(0, cores)
        for process in busy:
            process.kill()
            process.wait()
        single.close()
    sleeps = "import time\ndef f(): time.sleep(60)"
    started = time.monotonic()
    report = strongest_tester.run(
        sleeps, [call_test("f", expected=None)], limits=ProgramLimits(time_s=0.1, total_s=0.1)
    )
    assert (report.statuses, report.outcome) == ((Status.TIMEOUT,), Outcome.VERIFIER_TIMEOUT)
    assert time.monotonic() - started < 20


def _child(tester, is_ready=lambda pid: True):
    """The process of the program that runs, once it is ready."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for pid in tester.pids():
            for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
                if is_ready(child):
                    return child
        time.sleep(0.01)
    raise AssertionError("no program runs")


def test_time_in_which_a_program_is_stopped_does_not_count(tester):
    sleeps = "import time\ndef f():\n    time.sleep(0.5)\n    return 1"
    limits = ProgramLimits(time_s=0.3, total_s=0.3)
    with ThreadPoolExecutor(1) as threads:
        tester.run("def f(): return 1", [call_test("f", expected=1)])
        waiting = threads.submit(tester.run, sleeps, [call_test("f", expected=1)], limits=limits)
        child = _child(tester)
        os.kill(child, signal.SIGSTOP)
        time.sleep(0.3 * WALL_FACTOR + 1)
        os.kill(child, signal.SIGCONT)
        report = waiting.result()
    assert report.all_passed, report


def test_a_program_that_lowers_its_priority_is_not_waited_for(strongest_tester):
    lower = "import os, time\nos.nice(19)\ndef f(): time.sleep(60)"
    with ThreadPoolExecutor(1) as threads:
        strongest_tester.run("def f(): return 1", [call_test("f", expected=1)])
        waiting = threads.submit(
            strongest_tester.run, lower, [call_test("f", expected=None)], limits=ProgramLimits(time_s=0.2, total_s=0.2)
        )
        os.kill(_child(strongest_tester, lambda pid: os.getpriority(os.PRIO_PROCESS, pid) == 19), signal.SIGSTOP)
        assert waiting.result(timeout=60).statuses == (Status.TIMEOUT,)


def test_time_in_which_this_process_is_late_to_read_answers_does_not_count(strongest_tester, monkeypatch):
    class Late:
        def __init__(self):
            self._poll = poll()
            self.register, self.unregister, self.modify = (
                self._poll.register, self._poll.unregister, self._poll.modify
            )  # fmt: skip

        def poll(self, timeout):
            events = self._poll.poll(timeout)
            time.sleep(0.02)
            return events

    poll = program_process.select.poll
    monkeypatch.setattr(program_process.select, "poll", Late)
    test = assert_test("for x in range(60):\n    assert f(x) == x")
    report = strongest_tester.run("def f(x): return x", [test], limits=ProgramLimits(time_s=0.2, total_s=0.2))
    assert report.all_passed, report


def test_a_program_does_not_know_when_it_is_observed(strongest_tester, monkeypatch):
    """It wants a processor where waits of 0.25 s would end, and sleeps in between."""
    monkeypatch.setattr(program_process, "_LONGEST_HELD_UP_S", 5.0)
    program = """
        import os, time
        def f():
            while True:
                os.write(1, b"x")
                began = time.monotonic()
                time.sleep(0.242)
                while time.monotonic() - began < 0.256: pass
    """
    limits = ProgramLimits(time_s=0.5, total_s=0.5)
    report = strongest_tester.run(textwrap.dedent(program), [call_test("f", expected=1)], limits=limits)
    assert (report.outcome, report.statuses) == (Outcome.VERIFIER_TIMEOUT, (Status.TIMEOUT,)), report


def test_a_program_that_runs_at_each_tick_of_the_kernel_is_not_killed_by_it(strongest_tester):
    """The kernel would count far more time than the program used, and its end would look like one by the machine."""
    program = """
        import ctypes, time
        ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # the least slack of timers
        def f():
            while True:
                tick = time.clock_gettime(6)  # CLOCK_MONOTONIC_COARSE, which changes at each tick
                time.sleep(max(0, tick + 0.004 - time.monotonic() - 0.00015))
                while time.clock_gettime(6) == tick: pass
    """
    limits = ProgramLimits(time_s=5.0, total_s=0.7)
    report = strongest_tester.run(textwrap.dedent(program), [call_test("f", expected=1)], limits=limits)
    assert (report.outcome, report.statuses) == (Outcome.VERIFIER_TIMEOUT, (Status.TIMEOUT,)), report


def test_uninterruptible_waits_are_excused_for_a_bounded_time(strongest_tester, monkeypatch):
    monkeypatch.setattr(program_process, "_LONGEST_DISK_SLEEP_S", 0.5, raising=False)
    monkeypatch.setattr(program_process.ProgramProcess, "_threads", lambda self: iter([("D", "0", "0")]))
    limits = ProgramLimits(time_s=0.2, total_s=0.2)
    long = strongest_tester.run("import time\ndef f(): time.sleep(20)", [call_test("f", expected=None)], limits=limits)
    assert (long.outcome, long.statuses) == (Outcome.VERIFIER_TIMEOUT, (Status.TIMEOUT,))
    short = "import time\ndef f():\n    time.sleep(0.2 * 6 + 0.2)\n    return 1"
    assert strongest_tester.run(short, [call_test("f", expected=1)], limits=limits).all_passed


def test_time_in_which_this_process_is_stopped_does_not_count():
    code = """
        from engine.sandbox.program_process import ProgramLimits
        from tests.support.sandbox import stdin_test
        from engine.tasks.code.testing.tester import shared_tester
        program = "import time\\ntime.sleep(0.5)\\nprint(1)"
        tests = [stdin_test("", "1")] * 2
        shared_tester().run("print(1)", tests)
        print("ready", flush=True)
        print(*shared_tester().run(program, tests, limits=ProgramLimits(time_s=0.3, total_s=0.4)).statuses)
    """
    script = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(script, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.4 * WALL_FACTOR + 1)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == "pass pass\n"


def test_programs_are_deterministic_and_know_nothing_of_each_other(tester):
    main = "import random\nprint(hash('x'), random.random())"
    outputs = subprocess.run(
        [sys.executable, "-c", "import random; random.seed(0); print(hash('x'), random.random())"],
        env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert tester.run(main, [stdin_test("", outputs)]).all_passed
    leave = "import builtins, math, sys\nbuiltins.left = math.left = sys.left = 1\ndef f(): return 1"
    assert tester.run(leave, [call_test("f", expected=1)]).all_passed
    find = "import builtins, math, sys\ndef f(): return [hasattr(m, 'left') for m in (builtins, math, sys)]"
    assert tester.run(find, [call_test("f", expected=[False] * 3)]).all_passed


def test_no_tests_is_an_error():
    with pytest.raises(InputError, match="no test"):
        shared_tester().run("def f(): pass", [])


def test_a_dead_zygote_is_replaced_before_it_is_asked(tester):
    program, tests = "def f(): return 1", [call_test("f", expected=1)]
    assert tester.run(program, tests).all_passed
    old = tester.pids()
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 60
    while tester.pids() and time.monotonic() < until:
        time.sleep(0.01)
    assert tester.run(program, tests).all_passed
    assert not set(old) & set(tester.pids())


def test_a_zygote_killed_under_a_program_is_an_infra_fault(tester):
    program = "import time\ndef f():\n    time.sleep(0.8)\n    return 1"
    with ThreadPoolExecutor(1) as threads:
        tester.run("def f(): return 1", [call_test("f", expected=1)])
        waiting = threads.submit(tester.run, program, [call_test("f", expected=1)])
        time.sleep(0.3)
        for pid in tester.pids():
            os.kill(pid, signal.SIGKILL)
        assert waiting.result().outcome is Outcome.INFRA_FAULT
    assert tester.run("def f(): return 1", [call_test("f", expected=1)]).all_passed


def test_a_program_killed_by_the_machine_is_an_infra_fault(tester):
    program = "import time\ndef f():\n    time.sleep(0.8)\n    return 1"
    with ThreadPoolExecutor(1) as threads:
        tester.run("def f(): return 1", [call_test("f", expected=1)])
        waiting = threads.submit(tester.run, program, [call_test("f", expected=1)])
        time.sleep(0.3)
        for pid in tester.pids():
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
        report = waiting.result()
    assert report.outcome is Outcome.INFRA_FAULT, report


def test_injected_failures_change_no_verdict(monkeypatch):
    fail_every(10, monkeypatch)
    tester = ProgramTester(2)
    wrong, right = "def f(x): return -1", "def f(x): return x"
    reports = [
        tester.run(right if x % 2 else wrong, [call_test("f", (x,), expected=x)]) for x in range(40)
    ]  # fmt: skip
    tester.close()
    assert sum(report.outcome is Outcome.INFRA_FAULT for report in reports) == 4
    for x, report in enumerate(reports):
        assert report.outcome is Outcome.INFRA_FAULT or report.all_passed == bool(x % 2)


def test_many_threads_share_it():
    def one(x):
        return shared_tester().run(f"def f(y): return y + {x}", [call_test("f", (1,), expected=x + 1)]).all_passed

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(one, range(60)))
    assert strongest_level() in ("bubblewrap", "namespaces", "rlimits")


def test_programs_are_not_scored_on_the_weakest_level_unless_it_is_permitted(monkeypatch):
    monkeypatch.setattr(zygote_process, "strongest_level", lambda: "rlimits")
    monkeypatch.delenv("SCAFFOLD_ALLOW_WEAK_SANDBOX", raising=False)
    with pytest.raises(ConfigurationError, match="rlimits") as refused:
        ProgramTester()
    assert "--allow-weak-sandbox" in refused.value.fix
    monkeypatch.setenv("SCAFFOLD_ALLOW_WEAK_SANDBOX", "1")
    assert ProgramTester().level == "rlimits"


def test_nothing_is_left_when_the_engine_is_killed():
    code = """
        import os, signal
        from tests.support.sandbox import call_test
        from engine.tasks.code.testing.tester import shared_tester
        tester = shared_tester()
        tester.run('def f(): return 1', [call_test('f', expected=1)])
        print(*tester.pids(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True).stdout
    pids = [int(pid) for pid in out.split()]
    assert pids
    until = time.monotonic() + 60
    while any(_lives(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(_lives(pid) for pid in pids)


def _lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_nothing_grows():
    tester = ProgramTester(1)

    def run():
        for x in range(20):
            tester.run("def f(x): return x\nopen('x', 'w')", [call_test("f", (x,), expected=x)])
            tester.run("print(1)", [stdin_test("", "1")])

    run()
    before, pids = len(os.listdir("/proc/self/fd")), tester.pids()
    run()
    assert len(os.listdir("/proc/self/fd")) == before
    assert tester.pids() == pids
    tester.close()
