"""Folders with data: the files that come with the program, and those in which datasets are looked up."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def shipped_file(path: str) -> Path:
    """A file or folder below ``data/`` of a checkout, which is ``engine/data/`` in an installed package. Read only.

    Args:
        path: relative to that folder, such as ``datasets/physics.jsonl``.
    """
    package = Path(__file__).resolve().parents[1]
    installed = package / "data"
    return (installed if installed.is_dir() else package.parent / "data") / path


def data_folders() -> list[Path]:
    """Where datasets are looked up: ``data/datasets`` here, the datasets of the program, then ``$SCAFFOLD_DATA``."""
    extra = os.environ.get("SCAFFOLD_DATA")
    folders = [Path.cwd() / "data/datasets", shipped_file("datasets"), *([Path(extra).expanduser()] if extra else [])]
    return list(dict.fromkeys(folders))


def more_folders() -> str:
    """For messages that name the data folders: the variable that adds one."""
    return "" if os.environ.get("SCAFFOLD_DATA") else " (or in a folder that $SCAFFOLD_DATA names)"


def data_file(names: Iterable[str], folders: Iterable[Path]) -> Path | None:
    """The first of the files that is in one of the folders; None if none is."""
    return next((path for folder in folders for name in names if (path := folder / name).is_file()), None)
