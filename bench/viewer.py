"""The viewer with 100,000 rollouts: time to the first page, time until all figures are there, memory of the server.

The file is made of recorded rollouts of the pocket model, 12,500 groups of 8, without log-probs.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.conftest import ROOT
from tests.support.viewer_runs import pocket_run

GROUPS, ROLLOUTS = 12_500, 8
FIRST_PAGE_S, MEMORY_MB = 1.0, 500


def write_run(path: Path) -> None:
    """A run of 12,500 groups: 3,125 problems in 4 epochs."""
    with tempfile.TemporaryDirectory() as directory:
        recorded = pocket_run(Path(directory)) / "cache/generator_1_rollouts.jsonl"
        rows = [json.loads(line) for line in recorded.read_text(encoding="utf-8").splitlines()]
    rollouts = [rollout for row in rows for rollout in row["rollouts"]]
    with path.open("w", encoding="utf-8") as stream:
        for number in range(GROUPS):
            row = rows[number % len(rows)]
            first = number % len(rollouts)
            chosen = itertools.islice(itertools.cycle(rollouts), first, first + ROLLOUTS)
            group = {**row, "problem_id": f"p{number % 3125}", "epoch": number // 3125, "rollouts": list(chosen)}
            group.pop("stats", None)
            stream.write(json.dumps(group, ensure_ascii=False) + "\n")


def get(url: str) -> tuple[float, str]:
    """Seconds and body of a request."""
    started = time.perf_counter()
    with urllib.request.urlopen(url) as reply:
        body = reply.read().decode()
    return time.perf_counter() - started, body


def peak_mb(process: int) -> float:
    """The largest resident memory of a process so far."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


def main() -> bool:
    """Measure, print the figures and return whether the bounds hold."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "cache/generator_1_rollouts.jsonl"
        path.parent.mkdir()
        write_run(path)
        print(f"viewer: {GROUPS * ROLLOUTS:,} rollouts in {path.stat().st_size / 1e6:.0f} MB")
        command = [sys.executable, "-m", "grpo_training.view", "--port", "0", str(path.parent)]
        launched = time.perf_counter()
        server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            root = server.stdout.readline().strip()
            started = time.perf_counter()
            first, body = get(f"{root}cache-generator_1/overview.html")
            requests = 1
            while "data-reading" in body:
                _, body = get(f"{root}cache-generator_1/overview.html")
                requests += 1
            complete = time.perf_counter() - started
            again, _ = get(f"{root}cache-generator_1/overview.html")
            table, body = get(f"{root}cache-generator_1/groups.html")
            memory = peak_mb(server.pid)
        finally:
            server.terminate()
            server.wait()
    print(
        f"viewer: server ready in {started - launched:.2f} s; first page after {first:.2f} s "
        f"(bound {FIRST_PAGE_S:g} s); "
        f"all figures after {complete:.2f} s and {requests} requests; the page again {again:.2f} s; table of groups "
        f"{table:.2f} s, {len(body) / 1e6:.1f} MB; peak memory {memory:.0f} MB (bound {MEMORY_MB} MB)"
    )
    return first <= FIRST_PAGE_S and memory <= MEMORY_MB


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
