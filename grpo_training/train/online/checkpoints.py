"""Checkpoints of an online training, which transformers writes: which one is the last, and which are removed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

STATE = "trainer_state.json"


def last_checkpoint(run_dir: Path) -> Path | None:
    """The latest complete checkpoint. The trainer writes its state last; a checkpoint without it is incomplete."""
    complete = _complete(run_dir)
    return complete[-1] if complete else None


def remove_old_checkpoints(run_dir: Path, keep: int) -> None:
    """Remove all checkpoints but the last ``keep`` complete ones, by their steps.

    transformers goes by the time of their folders: after the clock was set back, it removes the newest one.
    """
    kept = _complete(run_dir)[-keep:]
    for folder in run_dir.glob("checkpoint-*"):
        if folder not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def _complete(run_dir: Path) -> list[Path]:
    """The complete checkpoints in the order of their steps."""
    complete = []
    for folder in run_dir.glob("checkpoint-*"):
        try:
            complete.append((int(json.loads((folder / STATE).read_text(encoding="utf-8"))["global_step"]), folder))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return [folder for _, folder in sorted(complete)]
