"""Every file at the top of ``grpo_training`` is a command whose ``--help`` answers at once."""

import os
import re
import subprocess
import sys
import time

import pytest

from grpo_training.cli.program import commands
from tests.conftest import ROOT

HEAVY = {"torch", "transformers", "trl", "ray", "vllm", "unsloth", "starlette", "sympy", "aiohttp", "openai"}
BOUND_S = 10.0  # alone on a machine each takes a tenth of this

CODE = """
import runpy, sys
sys.argv = ["x", "--help"]
try:
    runpy.run_module("grpo_training.{command}", run_name="__main__")
finally:
    print("LOADED", *sorted({heavy} & set(sys.modules)))
"""


@pytest.mark.parametrize("command", commands())
def test_help_answers_at_once_and_loads_nothing_heavy(command, tmp_path):
    began = time.monotonic()
    code = CODE.format(command=command, heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    seconds = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    assert f"usage: python -m grpo_training.{command} " in done.stdout
    assert done.stdout.splitlines()[-1] == "LOADED"
    assert list(tmp_path.iterdir()) == []
    assert seconds < BOUND_S


def test_the_groups_of_help_name_every_option_once():
    text = subprocess.run(
        [sys.executable, "-m", "grpo_training.generator1", "--help"], capture_output=True, text=True, timeout=60
    ).stdout
    titles = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert titles == [
        "options",
        *("problems and sampling", "learning", "files", "endpoints and budget"),
        "configuration",
    ]
    flags = re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE)
    assert flags[:3] == ["--dataset", "--max-problems", "--rollouts"]
    assert len(flags) == len(set(flags))
