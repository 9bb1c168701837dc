"""The processes of a Ray cluster on this machine, for tests that kill some of them."""

import time
from pathlib import Path


def wait_for(condition, seconds=300):
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def _processes():
    """Process id -> its parent and its command line, of those that have not ended."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_bytes()
        except OSError:  # it ended
            continue
        if state != "Z":
            found[int(folder.name)] = int(parent), command
    return found


def worker_processes(cluster):
    """The processes of the workers of a cluster that this test started."""
    raylets = {node.all_processes["raylet"][0].process.pid for node in cluster.list_all_nodes()}
    return [
        pid
        for pid, (parent, command) in _processes().items()
        if parent in raylets and command.startswith(b"ray::_Actor")
    ]


def descendants(pid):
    """The processes that a process started, directly or not."""
    processes = _processes()
    found = {pid}
    for _ in range(8):
        found |= {one for one, (parent, _) in processes.items() if parent in found}
    return found - {pid}


def are_over(pids):
    """Whether all of these processes have ended."""
    return not pids & _processes().keys()
