"""Zygotes, seen from this side: how they are started on each level of isolation, and what they are told."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Level = Literal["bubblewrap", "namespaces", "rlimits"]
LEVELS: tuple[Level, ...] = ("bubblewrap", "namespaces", "rlimits")

_HERE = Path(__file__).resolve().parent
_JAILED_CODE = "/sandbox/inside"
_START_S = 30.0
_END_S = 10.0


class SandboxError(RuntimeError):
    """The sandbox itself failed. Nothing is known about the program."""


@dataclass(frozen=True)
class Ending:
    """How a program's process ended: exit code (negative: the signal), processor time, whether we killed it."""

    code: int
    cpu_s: float
    killed: bool


# ------------------------------------------------------------------ the levels


def _interpreter() -> str:
    """The real interpreter behind a virtual environment."""
    return os.path.realpath(sys.executable)


def _visible_paths() -> tuple[list[str], list[tuple[str, str]]]:
    """What a program may see: the interpreter with its library and the system's libraries, nothing else.

    Returns:
        paths, and symbolic links as (target, path).
    """
    links = []
    wanted = [os.path.dirname(_interpreter()), f"{sys.base_prefix}/lib", f"{sys.base_exec_prefix}/lib"]
    for place in ("/lib", "/lib64", "/lib32"):
        if os.path.islink(place):
            links.append((os.readlink(place), place))
        else:
            wanted.append(place)
    wanted += ["/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache"]
    paths: list[str] = []
    for path in wanted:
        covered = any(path == other or path.startswith(other + "/") for other in paths)
        if os.path.exists(path) and not covered:
            paths.append(path)
    return paths, links


def _python_command(control_fd: int, code: str, level: Level) -> list[str]:
    paths, links = _visible_paths()
    arguments = (control_fd, paths, links, level, _own_users(level))
    start = f"import sys; sys.path.insert(0, {code!r}); from inside import zygote; zygote.main(*{arguments!r})"
    return [_interpreter(), "-s", "-S", "-B", "-P", "-c", start]


def _bubblewrap_command() -> list[str]:
    """The file system, network and IPC of the level ``bubblewrap``, for the command that follows."""
    paths, links = _visible_paths()
    command = ["bwrap", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--cap-add", "ALL"]
    command += [] if os.geteuid() == 0 else ["--unshare-user"]
    for parent in sorted({str(parent) for path in paths for parent in Path(path).parents} - {"/"}):
        command += ["--perms", "0755", "--dir", parent]  # else they are closed to the users that programs become
    for path in paths:
        command += ["--ro-bind", path, path]
    for target, path in links:
        command += ["--symlink", target, path]
    for device in ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"):
        command += ["--dev-bind", device, device]
    command += ["--ro-bind", str(_HERE / "inside"), _JAILED_CODE, "--dir", "/box", "--remount-ro", "/"]
    return [*command, "--chdir", "/", "--"]


def _own_users(level: Level) -> bool:
    """Whether programs run as users of their own: where this process is root and such users can read the library.

    On the levels with namespaces they always can. On the last one a library under ``/root`` keeps programs root;
    without capabilities and unable to change a file, but root.
    """
    if os.geteuid() != 0 or level != "rlimits":
        return os.geteuid() == 0
    library = Path(f"{sys.base_prefix}/lib")
    return all(path.stat().st_mode & 0o001 for path in (library, *library.parents))


# ------------------------------------------------------------------ a zygote


class Zygote:
    """One warm interpreter on a level; it runs one program's process at a time.

    Raises:
        SandboxError: where the level cannot be had here.
    """

    def __init__(self, level: Level) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = self._start(level, theirs.fileno())
        self.dead = False
        answer = self._hear(_START_S)
        if "ready" not in answer:
            self.close()
            raise SandboxError(f"no sandbox of the level {level}: {answer.get('error', 'it did not start')}")
        self.pid = int(answer["ready"])  # bubblewrap stays as its parent

    def _start(self, level: Level, control_fd: int) -> subprocess.Popen[bytes]:
        if level == "bubblewrap":
            if shutil.which("bwrap") is None:
                raise SandboxError("bubblewrap is not installed")
            command = [*_bubblewrap_command(), *_python_command(control_fd, "/sandbox", level)]
        else:
            command = _python_command(control_fd, str(_HERE), level)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(control_fd,),
            cwd="/",
            env={"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )

    def alive(self) -> bool:
        """Whether it may still be asked."""
        return not self.dead and self._process.poll() is None

    def start_program(self, fds: list[int], memory_bytes: int, cpu_s: int) -> None:
        """Fork a child that has ``fds`` (channel, standard input, standard output) and nothing else."""
        line = json.dumps({"memory_bytes": memory_bytes, "cpu_s": cpu_s}).encode()
        try:
            socket.send_fds(self._control, [line], fds)
        except OSError as error:
            self.dead = True
            raise SandboxError(f"a zygote is gone: {error}") from None

    def end_program(self, *, ending: bool = False) -> Ending:
        """Kill the child if it lives, wait until nothing of it is left, and say how it ended.

        Args:
            ending: it seems to be on its way out by itself; it gets half a second for that.
        """
        with contextlib.suppress(OSError):
            self._control.send(b"finish" if ending else b"kill")
        answer = self._hear(_END_S)
        if "code" not in answer:
            self.dead = True
            raise SandboxError(answer.get("error", "a zygote did not answer"))
        return Ending(**answer)

    def _hear(self, timeout_s: float) -> dict[str, Any]:
        self._control.settimeout(timeout_s)
        try:
            line = self._control.recv(10_000)
        except OSError:  # a time-out is one
            return {}
        return dict(json.loads(line)) if line else {}

    def close(self) -> None:
        """Kill it; its child dies with it."""
        self.dead = True
        self._control.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
