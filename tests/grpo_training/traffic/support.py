"""Small scenarios, an endpoint that answers states, and processes that are found by a mark."""

import contextlib
import json
import os
import re
from pathlib import Path

from aiohttp import web

from tests.support.fault_server import chat_app, serve_in_thread

_STATE = re.compile(r'\{"crossing_id".*\}')


def state_of(body):
    """The state that a request asks for."""
    return json.loads(_STATE.findall(body["messages"][-1]["content"])[-1])["state"]


def like_max_pressure(body, index):
    """The decision of Max-Pressure, from the text of the prompt alone."""
    state = state_of(body)
    queues = {phase: metrics["avg_queue_veh"] for phase, metrics in state["phase_metrics_by_id"].items()}
    current = queues.pop(str(state["current_phase_id"]))
    return json.dumps({"extend": "yes" if current >= max(queues.values()) else "no"})


@contextlib.contextmanager
def endpoint(answer=like_max_pressure, *, watch=None, **options):
    """An endpoint on loopback: its address, and the list of the requests that it has seen.

    ``watch(request, handler)`` is called around each request.
    """
    app = chat_app(answer, **options)
    if watch is not None:
        app.middlewares.append(web.middleware(watch))
    with serve_in_thread(app) as url:
        yield url, app["seen"]


def marked_processes(mark):
    """Ids of the living processes whose environment has ``TEST_MARK=mark``."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            state = (path.parent / "stat").read_text().rpartition(")")[2].split()[0]
            if f"TEST_MARK={mark}".encode() in path.read_bytes().split(b"\0") and state != "Z":
                pids.append(int(path.parent.name))
    return [pid for pid in pids if pid != os.getpid()]
