"""A warm interpreter that forks a locked-in child for every program, and never sees a program itself.

It is told over one socket: a line of JSON with the descriptors that the child gets (its channel, its standard input
and output), then ``kill`` or ``finish``. For every child it answers one line when nothing of that child is left.
The program's text, its input and its results pass it by: they go through the child's own channel.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

from . import jail, runner, seccomp

# What programs import most; a child finds them loaded already.
_WARM = (
    "__future__ abc array bisect calendar cmath collections collections.abc copy csv dataclasses datetime decimal "
    "enum fractions functools heapq hashlib io itertools json math numbers operator random re secrets statistics "
    "string struct textwrap time traceback typing types unicodedata weakref queue threading"
).split()

_GRACE_S = 0.5
_FIRST_UID = 2_000_000_000


def main(control_fd: int, paths: list[str], links: list[list[str]], level: str, own_users: bool) -> None:
    """Serve until the other end of the control socket closes.

    Args:
        control_fd: the control socket.
        paths: what stays of the file system on the level ``namespaces``.
        links: symbolic links there.
        level: ``bubblewrap``, ``namespaces`` or ``rlimits``.
        own_users: children become a user that nobody else on the machine is; this process is root.
    """
    sys.path.pop(0)
    control = socket.socket(fileno=control_fd)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        if level == "namespaces":
            jail.enter_namespaces(paths, [(target, path) for target, path in links])
        if level == "rlimits":
            seccomp.require()
            jail.adopt_orphans()
        else:
            jail.fresh_box(first=True)
    except OSError as error:
        _tell(control, {"error": str(error)})
        return
    for name in _WARM:
        importlib.import_module(name)
    gc.collect()
    gc.disable()
    gc.freeze()
    _tell(control, {"ready": os.getpid()})
    uid = _FIRST_UID + os.getpid() if own_users else None
    while job := _next_job(control):
        _serve(control, null, *job, level=level, uid=uid)


def _tell(control: socket.socket, message: dict[str, Any]) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


def _next_job(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """A job and its three descriptors; an order that came too late for the last one is passed over."""
    while True:
        line, fds, _, _ = socket.recv_fds(control, 1000, 3)
        if not line:
            return None
        if fds:
            return json.loads(line), fds


def _serve(
    control: socket.socket, null: int, job: dict[str, Any], fds: list[int], *, level: str, uid: int | None
) -> None:
    own_processes = level != "rlimits"
    try:
        pid = jail.fork(own_processes=own_processes)
    except OSError as error:
        _tell(control, {"error": str(error)})
        return
    if pid == 0:
        try:
            _become_child(null, fds, job, uid=uid, own_processes=own_processes)
        finally:
            os._exit(70)
    for fd in fds:
        os.close(fd)
    killed, listening = _wait_or_kill(control, pid)
    _, status, used = os.wait4(pid, 0)
    if not own_processes:
        jail.kill_descendants()
    if not listening:
        os._exit(0)
    if own_processes and any(True for _ in os.scandir(jail.BOX)):
        jail.fresh_box()
    ending = {"code": os.waitstatus_to_exitcode(status), "cpu_s": used.ru_utime + used.ru_stime, "killed": killed}
    with contextlib.suppress(BrokenPipeError):
        _tell(control, ending)


def _wait_or_kill(control: socket.socket, pid: int) -> tuple[bool, bool]:
    """Wait until the child has ended or is to be ended.

    Returns:
        whether it was killed here, and whether somebody still listens at the control socket.
    """
    gone = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([gone, control.fileno()], [], [])
        if gone in ready:
            return False, True
        order = control.recv(1000)
        # "finish" comes when the child has closed all its ends, so it is on its way out or pretends to be
        if order == b"finish" and select.select([gone], [], [], _GRACE_S)[0]:
            return False, True
        signal.pidfd_send_signal(gone, signal.SIGKILL)
        return True, bool(order)
    finally:
        os.close(gone)


def _become_child(null: int, fds: list[int], job: dict[str, Any], *, uid: int | None, own_processes: bool) -> None:
    channel, stdin, stdout = (os.dup2(fd, 100 + index) for index, fd in enumerate(fds))
    for fd, place in ((stdin, 0), (stdout, 1), (null, 2), (channel, 3)):
        os.dup2(fd, place)
    os.closerange(4, 65536)
    os.setsid()
    os.chdir(jail.BOX if own_processes else "/")
    os.environ.clear()
    jail.confine(
        uid=uid,
        memory_bytes=job["memory_bytes"],
        cpu_s=job["cpu_s"],
        own_processes=own_processes,
        read_only=not own_processes,
    )
    runner.run(3)
