"""Chromium in a sandbox, and the Node.js process that drives it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

from engine.errors import ConfigurationError
from engine.sandbox.command_process import CommandProcess
from engine.sandbox.zygote_process import ProgramExit
from engine.storage.installation import CHROMIUM, first_installed
from engine.tasks.phaser.validation.node_setup import NODE_FOLDER, NodeSetup

_READABLE = ("/usr", "/etc/fonts", "/etc/ld.so.cache", "/etc/alternatives", "/opt")
_NOBODY = "65534"
BUBBLEWRAP = ("bwrap",)
_END_S = 5.0
_FILES_BYTES = 1 << 30  # of the folder /tmp of the jail, which is in memory
_DATA_BYTES = 2 << 30  # memory of each process, except of files
_SKIP = "Or leave the run out: --skip-runtime."


def find_chromium() -> str:
    """The path of Chromium or Chrome.

    Raises:
        ConfigurationError: it or bubblewrap is not installed.
    """
    chromium = first_installed(CHROMIUM)
    if chromium is None:
        raise ConfigurationError(
            "Chromium was not found",
            why="Phaser games are run in Chromium",
            fix=f"Install it (Debian: apt install chromium-headless-shell). {_SKIP}",
        )
    if first_installed(BUBBLEWRAP) is None:
        raise ConfigurationError(
            "Chromium runs only in bubblewrap, which was not found",
            fix=f"Install it (Debian: apt install bubblewrap). {_SKIP}",
        )
    return os.path.realpath(chromium)


def start_browser(node: NodeSetup, chromium: str) -> CommandProcess:
    """Start Chromium and the process that drives it. Its first message has the version of Chromium.

    It has no network, sees the system's files only, read-only, and runs as nobody. Unlike the other levels of isolation
    it may start processes, because a browser does; they end with it. A process of it that needs more memory than
    :data:`_DATA_BYTES` gets none.

    Args:
        node: Node.js.
        chromium: path of the browser.

    Raises:
        SandboxError: it does not start.
    """
    command = [node.executable, str(NODE_FOLDER / "src" / "browser.js"), chromium]
    return CommandProcess(command, _BrowserJail(), memory_mb=0, busy_factor=1)


class _BrowserJail:
    """A bubblewrap with namespaces of its own for one command and its children.

    The command ends when its channel is closed, also if this process is killed.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start_program(self, fds: list[int], memory_bytes: int, command: Sequence[str] | None = None) -> int:
        assert command is not None
        channel, stdin, stdout = fds
        jail = ["bwrap", "--unshare-all", "--unshare-user", "--uid", _NOBODY, "--gid", _NOBODY, "--cap-drop", "ALL"]
        jail += ["--new-session", "--clearenv", "--setenv", "HOME", "/tmp", "--proc", "/proc"]  # noqa: S108
        jail += ["--dev", "/dev", "--size", str(_FILES_BYTES), "--tmpfs", "/tmp", "--setenv", "PATH", "/usr/bin"]  # noqa: S108 - in the jail
        for folder in ("/lib", "/lib64", "/bin"):
            if os.path.islink(folder):
                jail += ["--symlink", os.readlink(folder), folder]
            elif os.path.exists(folder):
                jail += ["--ro-bind", folder, folder]
        for path in (*_READABLE, str(NODE_FOLDER)):
            jail += ["--ro-bind-try", path, path]
        jail += ["--setenv", "PHASER_CHANNEL", str(channel), "--", "prlimit", f"--data={_DATA_BYTES}", *command]
        self._process = subprocess.Popen(
            jail, stdin=stdin, stdout=stdout, stderr=stdout, pass_fds=(channel,), start_new_session=True
        )
        return 0  # its processor time is that of many processes, and is not measured

    def end_program(self, *, ending: bool = False) -> ProgramExit:
        assert self._process is not None
        if ending:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return ProgramExit(self._process.wait(_END_S), 0.0, killed=False)
        self.close()
        return ProgramExit(-signal.SIGKILL, 0.0, killed=True)

    def close(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
