"""The command ``serve``."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from grpo_training.serving.local_server import is_up
from tests.conftest import ROOT

_SCRIPT = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
from pathlib import Path
from grpo_training.cli.entry import run_command
from grpo_training.serving.serve import serve
from grpo_training.serving.settings import ServeSettings
from tests.support.stand_in_engine import StandInEngine
run_command(lambda: serve(ServeSettings(model=Path(sys.argv[1]), port=0), StandInEngine()))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_stops_the_server(model, number, code):
    process = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(model)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    line = ""
    while " serves " not in line:
        line = process.stdout.readline()
        assert line
    base_url = line.split()[0]
    with urllib.request.urlopen(base_url.removesuffix("/v1") + "/health", timeout=60) as answer:
        assert answer.status == 200
    process.send_signal(number)
    assert process.wait(30) == code
    watchdog.cancel()
    assert not is_up(base_url)


def test_a_killed_server_command_leaves_no_server(model):
    process = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(model)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    line = ""
    while " serves " not in line:
        line = process.stdout.readline()
        assert line
    base_url = line.split()[0]
    assert is_up(base_url)
    process.kill()
    process.wait()
    until = time.monotonic() + 20
    while is_up(base_url) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_up(base_url)
