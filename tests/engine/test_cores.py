"""The cores of a process that may use only some of them."""

import subprocess
import sys

import pytest

from engine.cores import usable_cores
from tests.conftest import ROOT


@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot leave a process only some cores")
def test_a_process_that_may_use_one_core_counts_one():
    source = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    source += "from engine.cores import usable_cores; print(usable_cores())"
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    assert usable_cores() >= 1
