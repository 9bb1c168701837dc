"""``python -m engine.tasks.traffic.simulation.worker``: a process with one simulation, driven by JSON lines.

It is a process because libsumo holds one simulation per process, and because a simulation that hangs or crashes can
then be stopped from outside. The first line on standard input is the job; results are lines on standard output.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any


def main() -> int:
    """Read the job and run it; 0 on success, 1 if the simulation failed."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def emit(message: Mapping[str, Any]) -> None:
        output.write(json.dumps(message) + "\n")
        output.flush()

    sys.modules["numpy"] = None  # type: ignore[assignment]  # a fifth of the start; sumolib takes math in its place
    from engine.tasks.traffic.simulation.jobs import run_job  # after the redirection: libsumo prints at its import

    del sys.modules["numpy"]
    return 0 if run_job(json.loads(sys.stdin.readline()), emit, sys.stdin) else 1


if __name__ == "__main__":
    sys.exit(main())
