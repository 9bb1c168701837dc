"""The last checkpoint of an online training; transformers writes and removes them."""

from __future__ import annotations

import json
from pathlib import Path


def last_checkpoint(run_dir: Path) -> Path | None:
    """The latest complete checkpoint. The trainer writes its state last; a checkpoint without it is incomplete."""
    complete = []
    for folder in run_dir.glob("checkpoint-*"):
        try:
            state = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
            complete.append((int(state["global_step"]), folder))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return max(complete)[1] if complete else None
