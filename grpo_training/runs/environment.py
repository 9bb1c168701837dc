"""What a run depends on besides its configuration: versions, code revision, device."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from grpo_training.cli.settings import ROOT

_LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers", "numpy", "pydantic")
_GIT_S = 10.0


def environment() -> dict[str, Any]:
    """Python, platform, library versions, code revision and device, as JSON values."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: version for name in _LIBRARIES if (version := _version(name)) is not None},
        "code": code_revision(ROOT),
        "device": _device(),
    }


def code_revision(folder: Path) -> dict[str, Any]:
    """The git revision of a checkout and whether tracked files are modified; None where git cannot tell."""
    if not (folder / ".git").exists():  # an installed package, possibly inside another project's checkout
        return {"revision": None, "dirty": None}
    revision = _git(folder, "rev-parse", "HEAD")
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"revision": revision, "dirty": None if status is None else bool(status)}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=_GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _device() -> dict[str, Any]:
    torch = sys.modules.get("torch")  # a training has loaded it; nothing here is worth loading it
    if torch is None or not torch.cuda.is_available():
        return {"type": "cpu", "threads": torch.get_num_threads() if torch else None}
    return {"type": "cuda", "name": torch.cuda.get_device_name(), "count": torch.cuda.device_count()}
