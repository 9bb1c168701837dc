"""System calls that signal or slow other processes, and by which a program kills itself, are refused."""

import ctypes
import errno
import os
import subprocess
import sys
import textwrap
import time

import pytest

from engine.records import Outcome
from engine.sandbox.program_process import ProgramLimits
from engine.tasks.code.testing.report import Status
from tests.support.sandbox import call_test

CALLS = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "fcntl": (72, 25), "ioctl": (16, 29), "timer_create": (222, 107), "timer_settime": (223, 110),
    "setpriority": (141, 140), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "ioprio_set": (251, 30), "seccomp": (317, 277),
    "prctl": (157, 167), "flock": (73, 32), "membarrier": (324, 283), "sync": (162, 81), "clone": (56, 220),
}
column = ["x86_64", "aarch64"].index(os.uname().machine)
reader, writer = os.pipe()
OTHER = os.getppid() or 1
def call(name, *args):
    values = [ctypes.c_char_p(arg) if isinstance(arg, bytes) else ctypes.c_long(arg) for arg in args]
    if libc.syscall(ctypes.c_long(NUMBERS[name][column]), *values) < 0:
        raise OSError(ctypes.get_errno(), name)
    return 42
def kill_by(fd):
    call("fcntl", fd, 10, 9)
    call("fcntl", fd, 4, 0x2000 | 0x800)
    os.write(writer, b"x")
    while True: pass
"""
BODIES = {
    "owner": "call('fcntl', reader, 8, os.getpid()); kill_by(reader)",
    "owner_by_struct": "call('fcntl', reader, 15, struct.pack('ii', 1, os.getpid())); kill_by(reader)",
    "owner_by_ioctl": "call('ioctl', reader, 0x8901, struct.pack('i', os.getpid())); kill_by(reader)",
    "signal": "return call('fcntl', reader, 10, 9)",
    "asynchronous": "return call('fcntl', reader, 4, 0x2000)",
    "asynchronous_by_ioctl": "return call('ioctl', reader, 0x5452, struct.pack('i', 1))",
    "changes_of_a_directory": "return call('fcntl', os.open('/', 0), 1026, 0x8000001F)",
    "lease": "return call('fcntl', os.open('/', 0), 1024, 0)",
    "timer": """
        timer = ctypes.create_string_buffer(8)
        call("timer_create", 0, struct.pack("qii", 0, 9, 0) + bytes(48), ctypes.addressof(timer))
        call("timer_settime", struct.unpack("i", timer.raw[:4])[0], 0, struct.pack("qqqq", 0, 0, 0, 1000), 0)
        while True: pass""",
    "strict_mode": "call('prctl', 22, 1, 0, 0, 0); return 42",
    "strict_mode_by_seccomp": "call('seccomp', 0, 0, 0); return 42",
    "priority_of_another": "return call('setpriority', 0, OTHER, 19)",
    "priority_of_the_user": "return call('setpriority', 2, 0, 19)",
    "cores_of_another": "return call('sched_setaffinity', OTHER, 8, struct.pack('Q', 1))",
    "scheduler_of_another": "return call('sched_setscheduler', OTHER, 5, struct.pack('i', 0))",
    "parameters_of_another": "return call('sched_setparam', OTHER, struct.pack('i', 0))",
    "attributes_of_another": "return call('sched_setattr', OTHER, struct.pack('IIQiI', 48, 5, 0, 0, 0) + bytes(24), 0)",
    "wait_for_all_processors": "while True: call('membarrier', 1, 0, 0)",
    "wait_for_all_disks": "while True: call('sync')",
    "wait_for_a_thread": "call('clone', 0x00014900, 0, 0, 0, 0)",
    "disk_of_another": "return call('ioprio_set', 1, OTHER, 3 << 13)",
    "disk_of_the_user": "return call('ioprio_set', 3, 0, 3 << 13)",
}


def program(body):
    return CALLS + "def f():\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")


@pytest.mark.parametrize("name", BODIES)
def test_it_is_refused_and_is_the_programs_fault(tester, name):
    report = tester.run(
        program(BODIES[name]), [call_test("f", expected=42)], limits=ProgramLimits(time_s=1.0, total_s=2.0)
    )
    assert report.outcome is Outcome.OK, report
    assert report.statuses == (Status.FORBIDDEN,), report


def test_what_a_program_does_to_itself_is_allowed(tester):
    body = """
        import fcntl
        fcntl.fcntl(reader, fcntl.F_SETFL, os.O_NONBLOCK)
        os.nice(1)
        os.sched_setaffinity(0, os.sched_getaffinity(0))
        call("sched_setscheduler", 0, 3, struct.pack("i", 0))
        call("ioprio_set", 1, 0, 3 << 13)
        return fcntl.fcntl(reader, fcntl.F_GETFL) & os.O_NONBLOCK"""
    report = tester.run(program(body), [call_test("f", expected=os.O_NONBLOCK)])
    assert report.all_passed, report


def test_a_process_of_the_same_user_keeps_its_life_and_its_priority(tester):
    """The target is a process of this user, as another program's worker on the level ``rlimits`` is."""
    if tester.level != "rlimits":
        pytest.skip("programs see no other processes on this level")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as victim:
        bodies = [
            body.replace("os.getpid()", str(victim.pid)).replace("OTHER", str(victim.pid)) for body in BODIES.values()
        ]
        try:
            for body in bodies:
                assert tester.run(program(body), [call_test("f", expected=42)], limits=ProgramLimits(1.0)).passed == 0
            time.sleep(0.05)
            assert victim.poll() is None
            assert os.getpriority(os.PRIO_PROCESS, victim.pid) == os.getpriority(os.PRIO_PROCESS, 0)
            assert os.sched_getaffinity(victim.pid) == os.sched_getaffinity(0)
            assert os.sched_getscheduler(victim.pid) == os.sched_getscheduler(0)
        finally:
            victim.kill()


def test_a_queue_of_another_process_gets_no_message(tester):
    libc = ctypes.CDLL(None, use_errno=True)
    queue = libc.msgget(0, 0o1666)  # for all users
    body = f"""
        if libc.msgsnd({queue}, struct.pack("q", 5) + b"x", 1, 0o4000) < 0:
            raise OSError(ctypes.get_errno(), "msgsnd")
        return 42"""
    try:
        report = tester.run(program(body), [call_test("f", expected=42)])
        assert report.statuses == (Status.FORBIDDEN,), report
        assert libc.msgrcv(queue, ctypes.create_string_buffer(16), 1, 0, 0o4000) == -1
    finally:
        libc.msgctl(queue, 0, None)


def test_calls_that_are_newer_than_the_list_seem_not_to_exist(tester):
    program = """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        def f(number): return libc.syscall(number, -1, 0, 0, 0, 0, 0), ctypes.get_errno()
    """
    tests = [call_test("f", (number,), expected=(-1, errno.ENOSYS)) for number in range(463, 480)]
    assert tester.run(textwrap.dedent(program), tests).all_passed


def test_a_lock_makes_nobody_wait(tester):
    if tester.level != "rlimits":
        pytest.skip("a program shares no files with others on this level")
    body = "import fcntl\nfcntl.flock(os.open('/etc/passwd', 0), fcntl.LOCK_EX | fcntl.LOCK_NB)\nreturn 42"
    assert tester.run(program(body), [call_test("f", expected=42)]).statuses == (Status.FORBIDDEN,)
