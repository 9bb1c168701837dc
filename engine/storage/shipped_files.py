"""Read-only files that come with the program: datasets, the pocket model, the example of an API configuration."""

from __future__ import annotations

from pathlib import Path


def shipped_file(path: str) -> Path:
    """A file or folder below ``data/`` of a checkout, which is ``engine/data/`` in an installed package.

    Args:
        path: relative to that folder, such as ``datasets/physics.jsonl``.
    """
    package = Path(__file__).resolve().parents[1]
    installed = package / "data"
    return (installed if installed.is_dir() else package.parent / "data") / path
