"""Chromium in a sandbox, for the audit of runs without a screen: ``PhaserValidator.open(runtime="chromium")``."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence

from engine.errors import ConfigurationError
from engine.sandbox.command_process import CommandProcess
from engine.sandbox.zygote_process import ProgramExit, SandboxError
from engine.storage.installation import CHROMIUM, first_installed
from engine.tasks.phaser.validation.node_setup import NODE_FOLDER, NodeSetup

_READABLE = ("/usr", "/etc/fonts", "/etc/ld.so.cache", "/etc/alternatives", "/opt")
_NOBODY = "65534"
_END_S = 5.0


def find_chromium() -> str:
    """The path of Chromium or Chrome.

    Raises:
        ConfigurationError: it, bubblewrap or playwright-core is not installed.
    """
    found = first_installed(CHROMIUM)
    if found is None:
        raise ConfigurationError(
            "Chromium was not found", fix="Install it (Debian: apt install chromium-headless-shell)."
        )
    if shutil.which("bwrap") is None:
        raise ConfigurationError("Chromium runs only in bubblewrap", fix="Install it (Debian: apt install bubblewrap).")
    if not (NODE_FOLDER / "node_modules" / "playwright-core").is_dir():
        raise ConfigurationError("The Node.js package playwright-core is not installed", fix="Run `make phaser`.")
    return os.path.realpath(found)


def start_browser(node: NodeSetup, chromium: str, time_s: float) -> CommandProcess:
    """Start Chromium and the process that drives it.

    It has no network, sees the system's files only, read-only, and runs as nobody. Unlike the other levels of isolation
    it may start processes, because a browser does; they end with it.

    Args:
        node: Node.js.
        chromium: path of the browser.
        time_s: wall-clock seconds that it may take to start.

    Raises:
        SandboxError: it does not start.
    """
    command = [node.executable, str(NODE_FOLDER / "src" / "chromium.js"), chromium]
    process = CommandProcess(command, _BrowserJail(), memory_mb=0, busy_factor=1)
    process.receive(time_s)
    return process


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
        jail += ["--dev", "/dev", "--tmpfs", "/tmp", "--setenv", "PATH", "/usr/bin"]  # noqa: S108 - in the jail
        for place in ("/lib", "/lib64", "/bin"):
            if os.path.islink(place):
                jail += ["--symlink", os.readlink(place), place]
            elif os.path.exists(place):
                jail += ["--ro-bind", place, place]
        for path in (*_READABLE, str(NODE_FOLDER)):
            jail += ["--ro-bind-try", path, path]
        jail += ["--setenv", "PHASER_CHANNEL", str(channel), "--", *command]
        self._process = subprocess.Popen(
            jail, stdin=stdin, stdout=stdout, stderr=stdout, pass_fds=(channel,), start_new_session=True
        )
        return 0  # its processor time is that of many processes, and is not measured

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def end_program(self, *, ending: bool = False) -> ProgramExit:
        if self._process is None:
            raise SandboxError("the browser was not started")
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
