"""The command ``serve``."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from grpo_training.serve.local_server import is_up
from tests.conftest import ROOT
from tests.support.stand_in_engine import PROGRAM
from tests.support.vllm_environment import install_vllm

_SCRIPT = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
from pathlib import Path
from grpo_training.cli.entry import run_command
from grpo_training.serve.run import serve
from grpo_training.serve.settings import ServeSettings
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


def test_a_server_that_dies_is_named_with_the_last_line_of_its_log(model, tmp_path):
    """The program is one in a stand-in for the environment of ``make vllm``."""
    script = (
        f"#!{sys.executable}\nimport sys\nsys.argv = ['', sys.argv[sys.argv.index('--port') + 1], 'stops']\n{PROGRAM}"
    )
    install_vllm(tmp_path / ".venv-vllm", "0.32.0+cpu", script)
    process = subprocess.run(
        [sys.executable, "-m", "grpo_training.serve", "--model", model, "--engine", "vllm", "--port", "0"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        timeout=60,
    )
    assert process.returncode == 2
    assert "with vllm" in process.stdout
    assert re.search(rf"The local server of {model.name}-\w+ at http://127.0.0.1:\d+/v1 has exited", process.stderr)
    named = re.search(
        r"The last line of its log (\S+): the engine is dead\n.*RuntimeError: out of memory", process.stderr
    )
    assert Path(named[1]).read_text().endswith("the engine is dead\n")
