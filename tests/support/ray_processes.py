"""The processes of a Ray cluster on this machine, for tests that kill some of them."""

import contextlib
import time
from pathlib import Path


def wait_for(condition, seconds=300):
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def _status(pid):
    """State and command line of a process; None if it has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    return None if state == "Z" else command


def _children(pid):
    """The processes that a process started: one file, where a look at all processes of the machine takes longer."""
    found = set()
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it ended
            found.update(map(int, file.read_text().split()))
    return found


def worker_processes(cluster):
    """The processes of the workers of a cluster that this test started."""
    raylets = [node.all_processes["raylet"][0].process.pid for node in cluster.list_all_nodes()]
    children = set().union(*map(_children, raylets))
    return [pid for pid in children if (_status(pid) or b"").startswith(b"ray::_Actor")]


def descendants(pid):
    """The processes that a process started, directly or not."""
    found, new = set(), {pid}
    while new := set().union(*map(_children, new)) - found:
        found |= new
    return found


def are_over(pids):
    """Whether all of these processes have ended."""
    return all(_status(pid) is None for pid in pids)
