"""The viewer with 100,000 rollouts: time to the first page, time until all figures are there, memory of the server.

Each first page is that of a server that was just started. Times in brackets are processor time of the server, which
other programs on the machine change little. The file is made of recorded rollouts of the pocket model, 12,500 groups of
8, without log-probs.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT
from tests.support.viewer_runs import pocket_run

GROUPS, ROLLOUTS = 12_500, 8
FIRST_PAGE_S, MEMORY_MB = 1.0, 500
FIRST_PAGES = ("index.html", "cache-generator_1/overview.html", "cache-generator_1/groups.html")
POLL_S = 0.25
"""How long a page waits before it asks again while the server reads, at least as long as the request took."""


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


def processor_s(process: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[str, int]]:
    """The address of a server that was just started, and its process."""
    command = [sys.executable, "-m", "grpo_training.view", "--port", "0", str(folder)]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip(), server.pid
    finally:
        server.terminate()
        server.wait()


def main() -> bool:
    """Measure, print the figures and return whether the bounds hold."""
    longest = 0.0
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "cache/generator_1_rollouts.jsonl"
        path.parent.mkdir()
        write_run(path)
        print(f"viewer: {GROUPS * ROLLOUTS:,} rollouts in {path.stat().st_size / 1e6:.0f} MB")
        for page in FIRST_PAGES:
            launched = time.perf_counter()
            with served(path.parent) as (root, server):
                ready, before = time.perf_counter() - launched, processor_s(server)
                first, _ = get(root + page)
                used = processor_s(server) - before
            longest = max(longest, first)
            print(
                f"viewer: server ready in {ready:.2f} s ({before:.2f} s); first page, {page}, after {first:.2f} s "
                f"({used:.2f} s) (bound {FIRST_PAGE_S:g} s)"
            )
        with served(path.parent) as (root, server):
            overview, started, requests = root + FIRST_PAGES[1], time.perf_counter(), 1
            while "data-reading" in (reply := get(overview))[1]:
                time.sleep(max(POLL_S, reply[0]))
                requests += 1
            complete, used = time.perf_counter() - started, processor_s(server)
            again, _ = get(overview)
            table, body = get(root + FIRST_PAGES[2])
            memory = peak_mb(server)
    print(
        f"viewer: all figures after {complete:.2f} s and {requests} requests ({used:.2f} s with the start); the page "
        f"again {again:.2f} s; table of groups {table:.2f} s, {len(body) / 1e6:.1f} MB; peak memory {memory:.0f} MB "
        f"(bound {MEMORY_MB} MB)"
    )
    return longest <= FIRST_PAGE_S and memory <= MEMORY_MB


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
