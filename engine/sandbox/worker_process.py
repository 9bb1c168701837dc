"""The program of a worker process of ``worker.py``. It loads only what its jobs need: many commands start workers."""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import sys


def _serve(memory_mb: int) -> None:
    """The main loop of a worker. A job without a payload only imports; the printed output of jobs is discarded."""
    limit = memory_mb << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (64, 64)) if os.geteuid() else None
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    sys.setrecursionlimit(5000)
    gc.set_threshold(100_000)  # 700 new objects by default, after which an import would search all of them for cycles
    for line in sys.stdin.buffer:
        try:
            job = json.loads(line)
            module, _, name = job["function"].partition(":")
            function = getattr(importlib.import_module(module), name)
            signal.setitimer(signal.ITIMER_PROF, job.get("cpu_s", 0))  # its signal ends the process
            text = json.dumps({"value": function(job["payload"]) if "payload" in job else None})
        except Exception as error:  # noqa: BLE001 - the parent receives the error as data
            text = json.dumps({"error": f"{type(error).__name__}: {error}"[:2000]})
        signal.setitimer(signal.ITIMER_PROF, 0)
        replies.write(text.encode() + b"\n")


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
