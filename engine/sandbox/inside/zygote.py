"""A zygote: an interpreter with modules already imported, which forks a confined child for every program.

Protocol of the control socket: the parent process sends a job as one JSON message with three file descriptors (the
child's channel, standard input and standard output), and later ``kill`` or ``finish``. The zygote answers with the
child's process id, and with one more JSON message when no process of the child is left. The program's source, input
and results use the child's channel only; the zygote does not read them. A job with a ``command`` replaces the child by
another executable, confined alike.
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
from typing import Any, NoReturn

from . import jail, runner, seccomp

# Modules that programs often import; they are loaded before the fork.
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
        control_fd: descriptor of the control socket.
        paths: paths that stay visible on the level ``namespaces``, and on ``rlimits`` where the kernel has Landlock.
        links: symbolic links on this level, as (target, path).
        level: ``bubblewrap``, ``namespaces`` or ``rlimits``.
        own_users: children run under a user id of this zygote's own. Requires root.
    """
    sys.path.pop(0)
    control = socket.socket(fileno=control_fd)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        if level == "namespaces":
            jail.enter_namespaces(paths, [(target, path) for target, path in links])
        if level == "bubblewrap":
            jail.fix_devices()
        if level == "rlimits":
            seccomp.require()
            jail.adopt_orphans()
        else:
            jail.fresh_box(first=True)
    except OSError as error:
        _send(control, {"error": str(error)})
        return
    for name in _WARM:
        importlib.import_module(name)
    gc.collect()
    gc.disable()
    gc.freeze()
    _send(control, {"ready": os.getpid()})
    uid = _FIRST_UID + os.getpid() if own_users else None
    while job := _next_job(control):
        _serve(control, null, *job, readable=paths if level == "rlimits" else None, uid=uid)


def _send(control: socket.socket, message: dict[str, Any]) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


def _next_job(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next job with its descriptors; None at the end. Late messages for the previous child are ignored."""
    while True:
        line, fds, _, _ = socket.recv_fds(control, 10_000, 3)
        if not line:
            return None
        if fds:
            return json.loads(line), fds


def _serve(
    control: socket.socket,
    null: int,
    job: dict[str, Any],
    fds: list[int],
    *,
    readable: list[str] | None,
    uid: int | None,
) -> None:
    """Run one job; ``readable`` is None on the levels with namespaces."""
    own_processes = readable is None
    try:
        pid = jail.fork(own_processes=own_processes)
    except OSError as error:
        _send(control, {"error": str(error)})
        return
    if pid == 0:
        try:
            _become_child(null, fds, job, uid=uid, readable=readable)
        except Exception:  # noqa: BLE001 - the parent process reads the exit code; a script ends by SystemExit
            os._exit(70)
    _send(control, {"pid": pid})
    for fd in fds:
        os.close(fd)
    killed, connected = _wait_or_kill(control, pid)
    _, status, used = os.wait4(pid, 0)
    if not own_processes:
        jail.kill_descendants()
    if not connected:
        os._exit(0)
    if own_processes:  # also where it is empty: its mode and its times can be a message to the next program
        jail.fresh_box()
    ending = {"code": os.waitstatus_to_exitcode(status), "cpu_s": used.ru_utime + used.ru_stime, "killed": killed}
    with contextlib.suppress(BrokenPipeError):
        _send(control, ending)


def _wait_or_kill(control: socket.socket, pid: int) -> tuple[bool, bool]:
    """Wait until the child exits, or kill it when the parent orders it.

    Returns:
        whether the child was killed here, and whether the control socket is still connected.
    """
    exited = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([exited, control.fileno()], [], [])
        if exited in ready:
            return False, True
        order = control.recv(1000)
        # "finish" is sent when the child has closed all its descriptors, so it is probably exiting
        if order == b"finish" and select.select([exited], [], [], _GRACE_S)[0]:
            return False, True
        signal.pidfd_send_signal(exited, signal.SIGKILL)
        return True, bool(order)
    finally:
        os.close(exited)


def _become_child(
    null: int, fds: list[int], job: dict[str, Any], *, uid: int | None, readable: list[str] | None
) -> NoReturn:
    channel, stdin, stdout = (os.dup2(fd, 100 + index) for index, fd in enumerate(fds))
    command = job["command"]
    for fd, number in ((stdin, 0), (stdout, 1), (stdout if command else null, 2), (channel, 3)):
        os.dup2(fd, number)
    os.closerange(4, 65536)
    os.setsid()
    os.chdir(jail.BOX if readable is None else "/")
    os.environ.clear()
    jail.confine(uid=uid, memory_bytes=job["memory_bytes"], executes=command is not None, readable=readable)
    if command:
        os.execve(command[0], command, {"LC_ALL": "C.UTF-8"})  # noqa: S606 - no shell is wanted
    runner.run(3)
