"""The help of commands, of many in one process: most of its cost is the start of the interpreter."""

import json
import os
import re
import subprocess
import sys
from typing import NamedTuple

from tests.conftest import ROOT

_SCRIPT = """
import json, runpy, sys, time
_, calls, flag = sys.argv
for call in json.loads(calls):
    sys.argv = ["x", *call[1:], flag]
    began = time.process_time()
    print("CALL")
    try:
        runpy.run_module("grpo_training." + call[0], run_name="__main__")
    except SystemExit as end:
        print("END", json.dumps([call, end.code, time.process_time() - began, sorted(sys.modules)]))
"""


class Help(NamedTuple):
    """What was printed, the exit code, processor seconds, and the modules that are loaded after it."""

    text: str
    code: int
    cpu_s: float
    modules: list[str]


def help_of_all(calls, cwd, path=ROOT, flag="--help-all"):
    """Call -> help. A call is the name of a command, with a step where it has steps; ``path`` has the packages."""
    environment = {**os.environ, "PYTHONPATH": str(path), "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, json.dumps(calls), flag],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    helps = {}
    for text, end in re.findall(r"^CALL\n(.*?)^END (.*?)\n", done.stdout, re.MULTILINE | re.DOTALL):
        call, code, cpu_s, modules = json.loads(end)
        helps[tuple(call)] = Help(text, code, cpu_s, modules)
    return helps
