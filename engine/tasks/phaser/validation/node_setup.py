"""Node.js and its packages: what the validator needs of them, and the error with the fix where it is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ConfigurationError

NODE_FOLDER = Path(__file__).resolve().parents[1] / "node"
"""The folder of the JavaScript part, with its ``node_modules``."""

_MIN_NODE = 20
_INSTALL = "Run `make phaser`, or: npm ci --prefix " + str(NODE_FOLDER)
_START_S = 20.0
_BUILD_S = 300.0


@dataclass(frozen=True)
class NodeSetup:
    """A Node.js that can run the validator.

    Args:
        executable: path of ``node``, without links.
        version: its version, without the ``v``.
    """

    executable: str
    version: str

    @property
    def visible(self) -> tuple[str, ...]:
        """The files and folders that a process in the sandbox needs."""
        shared = Path("/usr/share/nodejs")  # Debian's Node.js keeps a part of its library there
        return (self.executable, str(NODE_FOLDER), *([str(shared)] if shared.is_dir() else []))


def find_node() -> NodeSetup:
    """Check Node.js and the packages in :data:`NODE_FOLDER`.

    Raises:
        ConfigurationError: Node.js is missing or too old, or a package is missing or has another version.
    """
    path = shutil.which("node")
    if path is None:
        raise ConfigurationError(
            "Node.js was not found",
            why="Phaser programs are checked and run by Node.js",
            fix=f"Install Node.js {_MIN_NODE} or newer (Debian: apt install nodejs npm), then: make phaser",
        )
    executable = os.path.realpath(path)
    version = _version(executable)
    if int(version.split(".")[0]) < _MIN_NODE:
        raise ConfigurationError(
            f"Node.js {version} is too old: {executable}",
            fix=f"Install Node.js {_MIN_NODE} or newer; https://nodejs.org",
        )
    wanted = json.loads((NODE_FOLDER / "package.json").read_text())["dependencies"]
    for package in wanted:
        installed = _package_version(package)
        if installed != wanted[package]:
            fault = f"has version {installed}, not {wanted[package]}" if installed else "is not installed"
            raise ConfigurationError(f"The Node.js package {package} {fault}", fix=_INSTALL)
    return NodeSetup(executable, version)


def build_api_index(folder: Path) -> dict[str, object]:
    """Build ``phaser_api.jsonl`` and ``meta.json`` from the Phaser package.

    Args:
        folder: where to write them; created if missing. Existing files are replaced once both are complete.

    Returns:
        the content of ``meta.json``.

    Raises:
        ConfigurationError: Node.js or a package is missing or cannot be read.
    """
    node = find_node()
    partial = folder / ".partial"
    partial.mkdir(parents=True, exist_ok=True)
    command = [node.executable, str(NODE_FOLDER / "src" / "build_api_index.js"), str(partial)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    if done.returncode != 0:
        raise ConfigurationError("The index of Phaser's API could not be built", why=done.stderr[-500:], fix=_INSTALL)
    for name in ("phaser_api.jsonl", "meta.json"):
        os.replace(partial / name, folder / name)
    partial.rmdir()
    return dict(json.loads(done.stdout))


def _version(executable: str) -> str:
    try:
        command = [executable, "--version"]
        text = subprocess.run(command, capture_output=True, text=True, timeout=_START_S, check=True).stdout
        return text.strip().removeprefix("v")
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(
            f"Node.js does not start: {executable}", why=str(error), fix="Install it again (apt install nodejs)."
        ) from None


def _package_version(package: str) -> str | None:
    try:
        return str(json.loads((NODE_FOLDER / "node_modules" / package / "package.json").read_text())["version"])
    except (FileNotFoundError, ValueError, KeyError):
        return None
