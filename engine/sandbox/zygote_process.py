"""The parent side of a zygote: an interpreter inside the sandbox that forks one program at a time."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import ConfigurationError
from engine.sandbox import ALLOW_WEAK
from engine.sandbox.levels import LEVELS, Level, zygote_command

_START_S = 30.0
_END_S = 60.0
"""A busy machine needs more than ten seconds to end the processes of a killed program."""


class SandboxError(RuntimeError):
    """The sandbox itself failed, so the program has no result."""


@dataclass(frozen=True)
class ProgramExit:
    """The exit of a program's process.

    Args:
        code: exit code; negative for a signal.
        cpu_s: processor time in seconds.
        killed: whether the zygote killed it.
    """

    code: int
    cpu_s: float
    killed: bool


class Zygote:
    """The process of a zygote on a level of isolation. It runs one program at a time.

    Args:
        level: the level of isolation.
        visible: files and folders that programs can read, besides the interpreter and the system's libraries.

    Raises:
        SandboxError: the level is not available on this machine.
    """

    def __init__(self, level: Level, visible: Sequence[str] = ()) -> None:
        if level == "bubblewrap" and shutil.which("bwrap") is None:
            raise SandboxError("bubblewrap is not installed")
        self._control, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with child_end:
            self._process = subprocess.Popen(
                zygote_command(level, child_end.fileno(), visible),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(child_end.fileno(),),
                cwd="/",
                env={"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8", "MALLOC_ARENA_MAX": "2"},
                start_new_session=True,
            )
        self.dead = False
        answer = self._receive(_START_S)
        if "ready" not in answer:
            self.close()
            raise SandboxError(f"the level {level} is not available: {answer.get('error', 'it did not start')}")
        self.pid = int(answer["ready"])  # with bubblewrap this is a child of the started process

    def alive(self) -> bool:
        """Whether it can run another program."""
        return not self.dead and self._process.poll() is None

    def start_program(self, fds: list[int], memory_bytes: int, command: Sequence[str] | None = None) -> int:
        """Fork a child that inherits ``fds`` (channel, standard input, standard output) and no others.

        Args:
            fds: the child's descriptors 3, 0 and 1.
            memory_bytes: limit of its memory.
            command: an executable with its arguments that the child becomes; None to run Python programs.

        Returns:
            the child's process id.
        """
        line = json.dumps({"memory_bytes": memory_bytes, "command": command}).encode()
        try:
            socket.send_fds(self._control, [line], fds)
        except OSError as error:
            self.dead = True
            raise SandboxError(f"a zygote has exited: {error}") from None
        answer = self._receive(_START_S)
        if "pid" not in answer:
            self.dead = True
            raise SandboxError(answer.get("error", "a zygote did not start a program"))
        return int(answer["pid"])

    def end_program(self, *, ending: bool = False) -> ProgramExit:
        """Kill the child if it is still running, and wait until all its processes have exited.

        Args:
            ending: whether it is probably exiting by itself; it is killed half a second later.
        """
        with contextlib.suppress(OSError):
            self._control.send(b"finish" if ending else b"kill")
        answer = self._receive(_END_S)
        if "code" not in answer:
            self.dead = True
            raise SandboxError(answer.get("error", "a zygote did not answer"))
        return ProgramExit(**answer)

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        self._control.settimeout(timeout_s)
        try:
            line = self._control.recv(10_000)
        except OSError:  # includes the time-out
            return {}
        return dict(json.loads(line)) if line else {}

    def close(self) -> None:
        """Kill the zygote and its child."""
        self.dead = True
        self._control.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@functools.cache
def strongest_level() -> Level:
    """The strongest level that works on this machine. The result is cached for this process.

    Raises:
        ConfigurationError: no level works.
    """
    reasons = []
    for level in LEVELS:
        try:
            Zygote(level).close()
        except SandboxError as error:
            reasons.append(str(error))
        else:
            return level
    raise ConfigurationError(
        "Programs cannot be run: no isolation level of the sandbox is available on this machine",
        why="; ".join(reasons),
        fix="Use Linux on x86_64 or aarch64, and install bubblewrap (apt install bubblewrap).",
    )


def level_for_rewards() -> Level:
    """The strongest level, if verdicts that become rewards may be formed on it.

    Raises:
        ConfigurationError: no level works, or only ``rlimits``, which has not been permitted.
    """
    level = strongest_level()
    if level == "rlimits" and os.environ.get(ALLOW_WEAK) != "1":
        raise ConfigurationError(
            "Programs are not scored: only the isolation level rlimits is available on this machine",
            why="A program shares the file system and the processes of its user there, so it may read its tests.",
            fix="Install bubblewrap (apt install bubblewrap); in a container, permit user namespaces, see "
            f"docs/how-to/container.md. To score anyway, pass --allow-weak-sandbox or set {ALLOW_WEAK}=1.",
        )
    return level
