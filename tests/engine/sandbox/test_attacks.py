"""Hostile programs. Each passes no test and damages nothing, and the program after it runs normally."""

import json
import os
import shutil
import textwrap
import time
from pathlib import Path

import pytest

from engine.records import Outcome
from engine.sandbox import levels
from engine.sandbox.inside import landlock
from engine.sandbox.program_process import ProgramLimits
from engine.sandbox.zygote_process import SandboxError, strongest_level
from engine.tasks.code.testing.report import Status
from engine.tasks.code.testing.tester import ProgramTester
from tests.support.sandbox import assert_test, call_test, stdin_test
from tests.support.table import table

TESTS = (call_test("f", (20, 22), expected=42), call_test("f", ("a", "b"), expected="ab"))

ANSWER_LIES = {
    "always_equal": """
        class Yes:
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __hash__(self): return 0
        def f(a, b): return Yes()""",
    "always_equal_by_class_trick": """
        class Yes:
            __class__ = int
            def __eq__(self, other): return True
        def f(a, b): return Yes()""",
    "int_subclass": """
        class Yes(int):
            def __eq__(self, other): return True
            __hash__ = int.__hash__
        def f(a, b): return Yes(1)""",
    "str_subclass": """
        class Yes(str):
            def __eq__(self, other): return True
            __hash__ = str.__hash__
        def f(a, b): return Yes("no")""",
    "list_subclass": """
        class Yes(list):
            def __eq__(self, other): return True
        def f(a, b): return Yes([1])""",
    "patched_builtins": """
        import builtins, json, sys
        for name in ("exec", "compile", "isinstance", "print", "type", "len", "eval", "hasattr", "getattr"):
            setattr(builtins, name, lambda *a, **k: True)
        json.dumps = json.loads = lambda *a, **k: True
        def f(a, b): return 0""",
    "patched_assertion_error": """
        import builtins
        builtins.AssertionError = SystemExit
        def f(a, b): return None""",
    "encoder_replaced": """
        import sys
        for module in list(sys.modules.values()):
            if hasattr(module, "to_form"):
                module.to_form = lambda *a: True
                module.encode = lambda *a: b"true"
        def f(a, b): return None""",
    "generator": "def f(a, b): yield a + b",
    "a_type": "def f(a, b): return int",
    "itself": "def f(a, b): return f",
    "endless_repr": """
        class Long(Exception):
            def __str__(self): return "x" * 10**9
        def f(a, b): raise Long""",
    "not_the_function": "g = lambda a, b: a + b",
    "syntax": "def f(a, b) return a + b",
    "stub": "def f(a, b): pass",
    "empty": "",
    "nul": "def f(a, b): return '\0'\0",
    "deep": """
        def f(a, b):
            value = []
            for _ in range(10**5): value = [value]
            return value""",
    "cyclic": """
        def f(a, b):
            value = []
            value.append(value)
            return value""",
    "exponential": """
        def f(a, b):
            value = [1]
            for _ in range(60): value = [value, value]
            return value""",
    "huge": "def f(a, b): return [0] * 5_000_000",
    "huge_text": "def f(a, b): return 'x' * 50_000_000",
    "colliding": "def f(a, b): return {i * (2**61 - 1) for i in range(2000)}",
}

ENDINGS = {
    "sys_exit": "import sys\ndef f(a, b): sys.exit(0)",
    "exit_at_load": "import sys\nsys.exit(0)",
    "os_exit": "import os\ndef f(a, b): os._exit(0)",
    "os_exit_70": "import os\nos._exit(70)",
    "abort": "import os\ndef f(a, b): os.abort()",
    "kill_itself": "import os\ndef f(a, b): os.kill(os.getpid(), 9)",
    "kill_its_thread": "import signal\ndef f(a, b): signal.raise_signal(9)",
    "kill_its_parent": "import os\ndef f(a, b): os.kill(os.getppid(), 9)",
    "kill_all": "import os\ndef f(a, b): os.kill(-1, 9)",
    "stop_itself": "import os\ndef f(a, b): os.kill(os.getpid(), 19)",
    "lower_its_cpu_limit": """
        import resource
        def f(a, b):
            resource.setrlimit(resource.RLIMIT_CPU, (0, 0))
            while True: pass""",
    "close_everything": "import os\ndef f(a, b): os.closerange(0, 100)",
    "close_everything_and_stay": """
        import os
        def f(a, b):
            os.closerange(0, 100)
            while True: pass""",
    "poke_memory": "import ctypes\ndef f(a, b): return ctypes.string_at(0)",
    "poke_interpreter": """
        import ctypes
        def f(a, b): ctypes.memset(id(42), 0xff, 4096)""",
    "recursion": "def f(a, b): return f(a, b)",
    "recursion_in_c": """
        import sys
        sys.setrecursionlimit(10**9)
        class A:
            def __getattr__(self, name): return getattr(self, name + "x")
        def f(a, b): return A().x""",
    "memory": "def f(a, b): return len(bytearray(10**12))",
    "memory_slowly": """
        def f(a, b):
            kept = []
            while True: kept.append(bytearray(10**6))""",
    "alarm_off_and_loop": """
        import signal
        def f(a, b):
            signal.alarm(0)
            while True: pass""",
    "swallow_everything": """
        import time
        def f(a, b):
            while True:
                try:
                    while True: time.sleep(0.01)
                except BaseException: pass""",
    "ignore_signals": """
        import signal
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        def f(a, b):
            while True: pass""",
    "flood": "def f(a, b): print('x' * 10_000_000)",
    "flood_by_write": """
        import os
        def f(a, b):
            while True: os.write(1, b'x' * 65536)""",
    "threads": """
        import threading
        def f(a, b):
            while True: threading.Thread(target=lambda: threading.Event().wait()).start()""",
}

REACHING_OUT = {
    "fork_bomb": """
        import os
        def f(a, b):
            while True: os.fork()""",
    "fork_bomb_that_swallows": """
        import os
        def f(a, b):
            while True:
                try: os.fork()
                except OSError: pass""",
    "program": "import subprocess\ndef f(a, b): return subprocess.check_output(['/bin/echo', 'x'])",
    "system": "import os\ndef f(a, b): return os.system('true')",
    "socket": """
        import socket
        def f(a, b):
            socket.create_connection(('127.0.0.1', 80), 0.2)
            return 42""",
    "unix_socket": "import socket\ndef f(a, b): return socket.socket(socket.AF_UNIX)",
    "trace": """
        import ctypes
        def f(a, b): return 42 if ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0 else 0""",
    "namespace": """
        import ctypes
        def f(a, b): return 42 if ctypes.CDLL(None).unshare(0x10000000) == 0 else 0""",
    "environment": "import os\ndef f(a, b): return 42 if dict(os.environ) else 0",
}

HIDDEN = "the" + "-hidden-" + "answer"
SEARCHES = {
    "frames": """
        import sys
        def search():
            frame = sys._getframe()
            while frame:
                yield from (frame.f_locals, frame.f_globals)
                frame = frame.f_back""",
    "gc": "import gc\ndef search(): return gc.get_objects()",
    "modules": "import sys\ndef search(): return [vars(module) for module in sys.modules.values()]",
    "proc": """
        import glob
        def search():
            for pattern in ('cmdline', 'environ'):
                for path in glob.glob('/proc/[0-9]*/' + pattern):
                    try:
                        with open(path, 'rb') as file: yield file.read(10**6)
                    except OSError: pass""",
    "argv_and_environment": "import os, sys\ndef search(): return [sys.argv, sys.orig_argv, os.environ, os.environb]",
    "memory": """
        import ctypes
        def search():
            start = id('x')
            return [ctypes.string_at(start & ~0xfff, 4096)]""",
    "descriptors": """
        import os
        os.set_blocking(3, False)
        def search():
            for fd in range(4, 200):
                try: yield os.read(fd, 10**6)
                except OSError: pass""",
}
_FOUND = """
import re
def f(*args):
    for text in map(repr, search()):
        found = re.search('the' + '-hid' + 'den-[a-z]+', text)
        if found: return found[0]
"""

FORGERS = {
    "pass_to_all": """
        import os
        for fd in range(256):
            for text in (b'pass', b'passed\\n', b'1', b'{"value": 42}', b'\\0\\0\\0\\x0d{"value": 42}' * 3):
                try: os.write(fd, text)
                except OSError: pass
        def f(a, b): return 0""",
    "frames_ahead": """
        import os
        os.write(3, b'\\0\\0\\0\\x0d{"value":null}' * 9)
        def f(a, b): return 0""",
    "endless_frame": """
        import os
        os.write(3, b'\\xff\\xff\\xff\\xff')
        def f(a, b): return 0""",
    "deep_frame": """
        import os
        text = b'{"value":' + b'[' * 50000 + b']' * 50000 + b'}'
        os.write(3, b'\\0\\0\\0\\x0e{"value": null}' + len(text).to_bytes(4, 'big') + text)
        def f(a, b): return 0""",
    "long_number": """
        import os
        text = b'{"value":' + b'9' * 100000 + b'}'
        os.write(3, b'\\0\\0\\0\\x0e{"value": null}' + len(text).to_bytes(4, 'big') + text)
        def f(a, b): return 0""",
    "says_infra_error": """
        import os
        text = b'{"error":"infra_error"}'
        os.write(3, len(text).to_bytes(4, 'big') + text)
        def f(a, b): return 0""",
    "says_pass": """
        import os
        text = b'{"error":"pass"}'
        os.write(3, len(text).to_bytes(4, 'big') + text)
        def f(a, b): return 0""",
    "says_pass_when_called": """
        import os
        def f(a, b):
            text = b'{"error":"pass"}'
            os.write(3, len(text).to_bytes(4, 'big') + text)
            os._exit(0)""",
    "says_pass_beside_a_value": """
        import os
        def f(a, b):
            text = b'{"value":0,"args":[20,22],"error":"pass"}'
            os.write(3, len(text).to_bytes(4, 'big') + text)
            os._exit(0)""",
    "odd_error": """
        import os
        text = b'{"error":[]}'
        os.write(3, len(text).to_bytes(4, 'big') + text)
        def f(a, b): return 0""",
    "odd_error_when_called": """
        import os
        def f(a, b):
            text = b'{"error":["pass"]}'
            os.write(3, len(text).to_bytes(4, 'big') + text)
            os._exit(0)""",
    "odd_value": """
        import os
        text = b'{"value":{"tuple":{"dict":[[1]]}}}'
        os.write(3, b'\\0\\0\\0\\x0e{"value": null}' + len(text).to_bytes(4, 'big') + text)
        def f(a, b): return 0""",
}

ATTACKS = {**ANSWER_LIES, **ENDINGS, **REACHING_OUT, **FORGERS}


TIGHT = ProgramLimits(time_s=0.25, memory_mb=256, output_bytes=200_000, total_s=0.3)


def check_still_works(tester):
    """The zygote used last still runs a program correctly (the pool gives out the last one first)."""
    report = tester.run("def f(a, b):\n    return a + b", TESTS)
    assert report.all_passed, report


@pytest.mark.timeout(600)
@table("name", ATTACKS)
def test_passes_nothing_and_hurts_nothing(tester, name):
    if name in {**ANSWER_LIES, **FORGERS} and tester.level != strongest_level():
        return  # the comparison does not depend on the level
    check_still_works(tester)
    pids = tester.pids()
    started = time.monotonic()
    report = tester.run(textwrap.dedent(ATTACKS[name]).strip(), TESTS, limits=TIGHT)
    assert report.passed == 0
    assert report.total == len(report.statuses) == 2
    assert report.outcome is not Outcome.INFRA_FAULT, report.detail
    assert time.monotonic() - started < TIGHT.total_s + 20
    check_still_works(tester)
    assert tester.pids() == pids, "a zygote was lost"


@table("name", SEARCHES)
def test_the_answer_is_nowhere_to_be_found(tester, name):
    program = textwrap.dedent(SEARCHES[name]).strip() + _FOUND
    tests = [call_test("f", (1,), expected=HIDDEN), assert_test(f"assert f(2) == {HIDDEN!r}")]
    report = tester.run(program, tests, entry_point="f")
    assert report.passed == 0
    assert Status.WRONG_ANSWER in report.statuses or Status.RUNTIME_ERROR in report.statuses


def test_the_search_finds_what_is_there(tester):
    """The searches above can succeed: here the program holds the answer itself."""
    program = f"kept = [{HIDDEN!r}]\n" + textwrap.dedent(SEARCHES["gc"]) + _FOUND
    assert tester.run(program, [call_test("f", (1,), expected=HIDDEN)]).all_passed


@pytest.mark.timeout(600)
@table("name", ATTACKS)
def test_passes_no_test_that_is_code(tester, name):
    if tester.level != strongest_level():
        pytest.skip("the comparison does not depend on the level")
    code = assert_test("assert sorted([f(20, 22), 1]) == [1, 42] and isinstance(f(20, 22), int)")
    report = tester.run(textwrap.dedent(ATTACKS[name]).strip(), [code], limits=TIGHT, entry_point="f")
    assert report.passed == 0
    assert report.outcome is not Outcome.INFRA_FAULT, report.detail


@table(
    "code",
    [
        "assert f(1) - 5 == 0",
        "assert (f(1) == 5) == True",
        "assert isclose(f(1), 5)",
        "assert 5 in [f(1)]",
        "assert not f(1) != 5",
    ],
)
def test_an_object_that_agrees_with_everything_passes_no_code(tester, code):
    program = """
        import builtins, math
        class Yes:
            def __sub__(self, other): return 0
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __float__(self): return 5.0
        math.isclose = builtins.isclose = lambda *a: True
        def f(x): return Yes()
    """
    test = assert_test(code, "from math import isclose")
    assert tester.run(textwrap.dedent(program), [test]).statuses == (Status.RUNTIME_ERROR,)
    assert tester.run("def f(x): return 5", [test]).all_passed


@table(
    "setup",
    [
        "from math import isclose as near",
        "import math\ndef near(one, other): return math.isclose(one, other)",
        "import math\nnear = lambda one, other: math.isclose(one, other)",
    ],
)
def test_a_comparison_that_the_setup_brings_is_out_of_the_programs_reach(tester, setup):
    forger = "import math\nmath.isclose = near = lambda *a: True\ndef f(x): return 0"
    for code in ("assert near(f(1), 5) == True", "assert True == near(f(1), 5)"):
        test = assert_test(code, setup)
        assert tester.run(forger, [test]).statuses == (Status.WRONG_ANSWER,)
        assert tester.run("def f(x): return 5.0", [test]).all_passed


def test_a_program_that_reads_and_prints_cannot_fill_our_memory(tester):
    program = "import os\nwhile True: os.write(3, bytes(1 << 20))"
    report = tester.run(program, [stdin_test("", "42")], limits=ProgramLimits(time_s=2.0, output_bytes=200_000))
    assert report.statuses == (Status.OUTPUT_LIMIT,)


def test_files_are_private_bounded_and_gone_afterwards(tester, tmp_path):
    marker = tmp_path / "marker"
    marker.write_text("mine")
    os.chmod(tmp_path, 0o777)
    os.chmod(marker, 0o666)
    program = f"""
        import glob, os
        def reach(path):
            try:
                with open(path, "a") as file: file.write("x")
            except OSError as error: return False
            return True
        def f(path): return reach(path) and os.path.exists({str(marker)!r})
        def fill():
            try:
                for number in range(1000):
                    with open(f"big{{number}}", "wb") as file: file.write(bytes(1 << 20))
            except OSError: return sum(os.path.getsize(path) for path in glob.glob("big*")) >> 20
        def kept(): return os.listdir(".") if os.getcwd() == "/box" else []
    """
    tests = [
        call_test("f", (str(marker),), expected=True),
        call_test("f", ("/usr/lib/x",), expected=True),
        call_test("f", ("/etc/passwd",), expected=True),
        call_test("f", ("/x",), expected=True),
    ]
    program = textwrap.dedent(program)
    assert tester.run(program, tests).passed == 0
    assert marker.read_text() == "mine"
    filled = tester.run(program, [call_test("fill", expected=1000)])
    assert filled.passed == 0
    assert tester.run(program, [call_test("kept", expected=[])]).all_passed


@pytest.mark.parametrize(
    "change",
    [
        "os.chmod('/box', 0)",
        "os.chmod('/box', 0o751)",
        "os.utime('/box', (5, 7))",
        "os.setxattr('/box', 'user.message', b'42')",
        "os.chmod('/dev/null', 0o600)",
        "os.utime('/dev/null')",
        "os.utime('/dev/zero', (5, 7))",
    ],
)
def test_modes_and_times_are_no_message_to_the_next_program(tester, change):
    source = """
        import os
        def box(): return [os.stat("/box").st_mode, os.stat("/box").st_mtime > 1000, os.listxattr("/box")]
        def works():
            with open("/dev/null", "w") as null, open("new", "w") as new: return null.write("x") + new.write("x")
    """
    if tester.level == "rlimits":
        pytest.skip("nothing can be written on this level")
    program = textwrap.dedent(source)
    before = [os.stat(path).st_mtime_ns for path in ("/dev/null", "/dev/zero")]
    tester.run(f"import os\ndef f(): {change}", [call_test("f", expected=0)])
    assert [os.stat(path).st_mtime_ns for path in ("/dev/null", "/dev/zero")] == before
    report = tester.run(program, [call_test("box", expected=[0o40777, True, []]), call_test("works", expected=2)])
    assert report.all_passed, report


def test_what_lies_on_the_disk_cannot_be_read(tester, tmp_path):
    if tester.level == "rlimits" and not landlock.supported():
        pytest.skip("without Landlock this level does not protect from reading; its docstring says so")
    secret = tmp_path / "answers"
    secret.write_text(HIDDEN)
    os.chmod(tmp_path, 0o777)
    paths = [str(secret), str(Path(__file__)), "/etc/passwd", "/proc/self/environ", "/proc/1/cmdline", "/dev/shm"]
    program = "import os\ndef f(path): return os.path.exists(path)"
    if tester.level == "rlimits":  # Landlock lets a program see that a file is there, but not open it
        program = "import os\ndef f(path):\n    try: return bool(os.open(path, 0))\n    except OSError: return False"
    report = tester.run(program, [call_test("f", (path,), expected=False) for path in paths])
    assert report.all_passed, report


def test_a_dataset_on_the_disk_gives_no_answers(tester, tmp_path):
    """The tests of the problems lie where a run on this machine has them: in a folder that this user can read."""
    if tester.level == "rlimits" and not landlock.supported():
        pytest.skip("without Landlock this level does not protect from reading; its docstring says so")
    rows = [{"prompt": "Add two numbers.", "tests": [{"fn": "f", "args": [20, 22], "expected": 42}]}]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    os.chmod(tmp_path, 0o777)
    program = """
        import json, os
        def f(*args):
            for folder, _, names in os.walk("FOLDER"):
                for line in open(os.path.join(folder, names[0])):
                    for test in json.loads(line)["tests"]:
                        if test["args"] == list(args):
                            return test["expected"]
    """
    program = textwrap.dedent(program).replace("FOLDER", str(tmp_path))
    assert tester.run(program, [call_test("f", (20, 22), expected=42)]).passed == 0


def test_grandchildren_do_not_survive(tmp_path, monkeypatch):
    """Without the list of refused calls a program can fork; its namespace still ends with it."""
    shutil.copytree(levels.PACKAGE / "inside", tmp_path / "inside")
    jail = tmp_path / "inside" / "jail.py"
    jail.write_text(jail.read_text().replace("if seccomp.supported():", "if False:"))
    monkeypatch.setattr(levels, "PACKAGE", tmp_path)
    try:
        tester = ProgramTester(1, "namespaces")
        tester.run("def f(a, b):\n    return a + b", TESTS)
    except SandboxError as error:
        pytest.skip(str(error))
    program = """
        import os, time
        def f(a, b):
            for _ in range(3):
                if os.fork() == 0:
                    os.setsid()
                    if os.fork() == 0:
                        while True: time.sleep(0.01)
                    os._exit(0)
            time.sleep(0.05)
            return a + b
    """
    report = tester.run(textwrap.dedent(program), TESTS)
    assert report.all_passed, report  # so it could fork
    assert _descendants(tester.pids()) == []
    # It sleeps once there can be no more: else its many processes would leave the first one hardly any of its time.
    bomb = (
        "import os, time\ndef f(a, b):\n    while True:\n"
        "        try: os.fork()\n        except OSError: time.sleep(0.01)"
    )
    assert tester.run(bomb, TESTS[:1], limits=TIGHT).passed == 0
    assert _descendants(tester.pids()) == []
    check_still_works(tester)
    tester.close()


def _descendants(pids):
    return [child for pid in pids for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
