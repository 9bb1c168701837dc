"""Programs that are not Python packages, and the command that installs an optional part of the project."""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION = "scaffold-grpo"
CHROMIUM = (
    *("/usr/lib/chromium/chromium-headless-shell", "chromium-headless-shell"),  # a third of the processor time
    *("/usr/lib/chromium/chromium", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
)
"""Where Chromium or Chrome may be; the first that is there is used."""


def first_installed(programs: Iterable[str]) -> str | None:
    """The path of the first of some programs, names or paths, that is installed; None if none is."""
    return next(filter(None, map(shutil.which, programs)), None)


def install_command(extra: str = "", *, root: Path | None = None) -> str:
    """The command that adds an extra to the Python environment that runs; it works in any folder.

    In a checkout it installs the checkout with the versions of ``constraints.txt``. Of an installed package, which no
    index may offer, it names the packages that the extra needs.

    Args:
        extra: a name in ``optional-dependencies`` of ``pyproject.toml``; empty for the project without extras.
        root: the folder of the packages; by default the one that this module is in.
    """
    root = root or Path(__file__).resolve().parents[2]
    if (root / "pyproject.toml").is_file() and (root / "constraints.txt").is_file():
        here = Path.cwd() == root
        constraints = "constraints.txt" if here else shlex.quote(str(root / "constraints.txt"))
        project = f"{'.' if here else root}[{extra}]" if extra else "." if here else str(root)
        return f"{_python()} -m pip install -c {constraints} -e {shlex.quote(project)}"
    return pip_install(*(str(package).partition(";")[0].strip() for package in requirements(extra)))


def pip_install(*packages: str) -> str:
    """The command that installs packages into the Python environment that runs."""
    return f"{_python()} -m pip install {' '.join(map(shlex.quote, packages))}"


def requirements(extra: str = "") -> list[Requirement]:
    """The declared packages of an extra; of the project without extras if it is empty."""
    from packaging.requirements import Requirement  # slow to import, for an error message

    declared = [Requirement(text) for text in importlib.metadata.requires(DISTRIBUTION) or ()]
    if not extra:
        return [package for package in declared if package.marker is None]
    return [package for package in declared if package.marker and package.marker.evaluate({"extra": extra})]


def _python() -> str:
    """``python`` where the shell finds the interpreter that runs under that name, else its path."""
    python = shutil.which("python")
    is_this = python is not None and os.path.dirname(os.path.abspath(python)) == os.path.dirname(sys.executable)
    return "python" if is_this else shlex.quote(sys.executable)
