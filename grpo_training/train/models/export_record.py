"""``export.json`` of a run directory: what was exported, why, and whether the training helped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.storage.append_log import replace_file

EXPORT = "export.json"
ADAPTER, MERGED = "lora", "merged"


def write_export(
    run_dir: Path, exported: str, why: str, *, helped: bool, candidates: Sequence[dict[str, Any]] = ()
) -> None:
    """Write ``export.json``.

    Args:
        run_dir: the run directory.
        exported: the name of the checkpoint, or ``start``.
        why: why it was exported.
        helped: whether it is better than the initial model, as far as that was measured.
        candidates: the figures of all that were compared.
    """
    content = {"exported": exported, "helped": helped, "why": why, "candidates": list(candidates)}
    replace_file(run_dir / EXPORT, json.dumps(content, indent=2).encode() + b"\n")


def read_helped(run_dir: Path) -> bool:
    """Whether a finished training helped; true where it is not recorded."""
    try:
        return bool(json.loads((run_dir / EXPORT).read_text(encoding="utf-8"))["helped"])
    except (OSError, ValueError, KeyError, TypeError):
        return True
