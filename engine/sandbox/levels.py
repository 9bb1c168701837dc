"""The levels of isolation and the command that starts a zygote on each. ``engine.sandbox`` describes the levels."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

Level = Literal["bubblewrap", "namespaces", "rlimits"]
LEVELS: tuple[Level, ...] = ("bubblewrap", "namespaces", "rlimits")
"""All levels, strongest first."""

PACKAGE = Path(__file__).resolve().parent
"""The folder that holds ``inside``, the code that runs in the sandbox."""

_JAILED_PACKAGE = "/sandbox"


def zygote_command(level: Level, control_fd: int, visible: Sequence[str] = ()) -> list[str]:
    """The command line of a zygote.

    Args:
        level: the level of isolation.
        control_fd: the inherited descriptor of its control socket.
        visible: further files and folders that programs can read.
    """
    paths, links = _visible_paths(visible)
    package = _JAILED_PACKAGE if level == "bubblewrap" else str(PACKAGE)
    arguments = (control_fd, paths, links, level, _has_own_users(level, visible))
    start = f"import sys; sys.path.insert(0, {package!r}); from inside import zygote; zygote.main(*{arguments!r})"
    python = [_interpreter(), "-s", "-S", "-B", "-P", "-c", start]
    return [*_bubblewrap_command(paths, links), *python] if level == "bubblewrap" else python


def _bubblewrap_command(paths: Sequence[str], links: Sequence[tuple[str, str]]) -> list[str]:
    """The file system, network and IPC of the level ``bubblewrap``; the command to run follows it."""
    command = ["bwrap", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--cap-add", "ALL"]
    command += [] if os.geteuid() == 0 else ["--unshare-user"]
    for parent in sorted({str(parent) for path in (*paths, "/dev/null") for parent in Path(path).parents} - {"/"}):
        command += ["--perms", "0755", "--dir", parent]  # by default other users could not enter them
    for path in paths:
        command += ["--ro-bind", path, path]
    for target, path in links:
        command += ["--symlink", target, path]
    for device in ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"):
        command += ["--dev-bind", device, device]
    command += ["--ro-bind", str(PACKAGE / "inside"), f"{_JAILED_PACKAGE}/inside", "--dir", "/box", "--remount-ro", "/"]
    return [*command, "--chdir", "/", "--"]


def _interpreter() -> str:
    """The path of the interpreter itself, also inside a virtual environment."""
    return os.path.realpath(sys.executable)


def _visible_paths(visible: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The paths of the machine that a program can read: the interpreter, its library, the system's libraries and more.

    Returns:
        paths, and symbolic links as (target, path).
    """
    links = []
    wanted = [os.path.dirname(_interpreter()), f"{sys.base_prefix}/lib", f"{sys.base_exec_prefix}/lib"]
    for folder in ("/lib", "/lib64", "/lib32"):
        if os.path.islink(folder):
            links.append((os.readlink(folder), folder))
        else:
            wanted.append(folder)
    wanted += ["/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache", *visible]
    paths: list[str] = []
    for path in wanted:
        covered = any(path == parent or path.startswith(parent + "/") for parent in paths)
        if os.path.exists(path) and not covered:
            paths.append(path)
    return paths, links


def _has_own_users(level: Level, visible: Sequence[str]) -> bool:
    """Whether programs run under a user id of their own. This needs root and a library that this user can read.

    On the levels with namespaces the library is always readable. On ``rlimits`` a library under ``/root`` is not;
    programs then run as root, without capabilities and without permission to change files.
    """
    if os.geteuid() != 0 or level != "rlimits":
        return os.geteuid() == 0
    wanted = [Path(f"{sys.base_prefix}/lib"), *map(Path, visible)]
    return all(path.stat().st_mode & 0o001 for file in wanted for path in (file, *file.parents))
