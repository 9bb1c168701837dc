"""A command ends with the process that started it."""

import os
import signal
import subprocess
import sys
import time

from grpo_training.runs.guarded_process import start_guarded
from tests.conftest import ROOT

_PARENT = """
import os, sys, time
from grpo_training.runs.guarded_process import start_guarded
code = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(os.getpid(), flush=True)\\n"
    "time.sleep(60)"
)
process = start_guarded([sys.executable, "-c", code], output=sys.stdout.fileno(), environment=os.environ)
time.sleep(60)
"""


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] != "Z"


def started(code):
    return start_guarded([sys.executable, "-c", code], output=subprocess.PIPE, environment=os.environ)


def test_the_command_ends_when_its_parent_is_killed_even_if_it_ignores_sigterm():
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    until = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_alive(pid)


def test_status_and_output_are_those_of_the_command():
    process = started("import sys; print('said'); sys.exit(7)")
    assert process.stdout.read() == b"said\n"
    assert process.wait(30) == 7


def test_a_signal_to_the_group_reaches_the_command_once():
    process = started("import time; print('up', flush=True); time.sleep(60)")
    assert process.stdout.readline() == b"up\n"
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM


def test_a_command_that_does_not_exist_is_an_error():
    process = start_guarded(["/no/such/program"], output=subprocess.PIPE, environment=os.environ)
    assert b"/no/such/program: No such file or directory" in process.stdout.read()
    assert process.wait(30) == 1
