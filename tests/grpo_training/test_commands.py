"""Every file at the top of ``grpo_training`` is a command whose ``--help`` answers at once."""

import os
import re
import resource
import subprocess
import sys

import pytest

from grpo_training.cli.program import commands
from tests.conftest import ROOT

HEAVY = {
    *("torch", "transformers", "trl", "peft", "datasets", "ray", "vllm", "unsloth", "starlette"),
    *("openai", "aiohttp", "sympy", "pint", "math_verify", "rich"),
}
CPU_S = 1.5
"""Processor seconds that a command may take for --help, many times what it needs."""

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
    before = _processor_s()
    code = CODE.format(command=command, heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert f"usage: python -m grpo_training.{command} " in done.stdout
    assert done.stdout.splitlines()[-1] == "LOADED"
    assert list(tmp_path.iterdir()) == []
    assert _processor_s() - before < CPU_S


def _processor_s():
    """Processor seconds of all ended child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize(
    ("command", "titles", "first"),
    [
        ("generator1", ["problems and sampling", "learning", "files", "endpoints and budget"], "--dataset"),
        ("critic", ["fusion and sampling", "learning", "files", "endpoints and budget"], "--generators"),
        ("evaluate", ["what is evaluated", "sampling", "files", "server, endpoint and budget"], "--model-path"),
        (
            "train",
            [
                *("model and data", "training steps", "sampling", "policy loss", "warm-up and curriculum"),
                *("imitation", "adapter and memory", "logging and checkpoints"),
            ],
            "--model-name-or-path",
        ),
        (
            "generate_teacher_traces",
            ["problems and sampling", "acceptance", "files", "endpoint and budget"],
            "--train-data",
        ),
    ],
)
def test_help_shows_every_option_in_a_group_and_the_commonest_first(command, titles, first):
    done = subprocess.run(
        [sys.executable, "-m", f"grpo_training.{command}", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert re.findall(r"^(\S.*):$", done.stdout, re.MULTILINE) == ["options", *titles, "configuration"]
    flags = re.findall(r"^  (--[a-z-]+)", done.stdout, re.MULTILINE)
    assert flags[0] == first
    assert len(flags) == len(set(flags))
