"""The cells of the notebook run, one after another, where an event loop runs as in Jupyter."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.grpo_training.learning.test_pocket_loop import MISSING

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (make local)"),
    pytest.mark.timeout(300),
]

RUN = """
import asyncio, json, sys

async def run(cells):
    names = {}
    for cell in cells:
        exec(cell, names)

asyncio.run(run(json.loads(sys.stdin.read())))
"""


def test_the_notebook_runs(tmp_path):
    notebook = json.loads((ROOT / "examples/improve.ipynb").read_text(encoding="utf-8"))
    cells = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    log = tmp_path / "said.txt"
    with log.open("w") as file:  # not a pipe, which the server of the model would keep open
        done = subprocess.run(
            [sys.executable, "-c", RUN],
            input=json.dumps(cells),
            cwd=tmp_path,
            env={name: os.environ[name] for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")}
            | {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            stdout=file,
            stderr=file,
            text=True,
        )
    text = log.read_text()
    assert done.returncode == 0, text
    assert "All was answered and tested before; nothing is asked." in text
    assert "runs/quickstart-pocket" in text.splitlines()[-1]
