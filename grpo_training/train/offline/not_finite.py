"""A loss or gradient of an offline step that is not finite: the rows of the step, written for inspection."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from engine.storage.append_log import replace_file
from grpo_training.rl_math.stopped import TrainingStoppedError
from grpo_training.train.data.samples import Sample


def not_finite(
    what: str,
    step: int,
    stage: str,
    figures: Mapping[str, float],
    rows: Sequence[Sample],
    run_dir: Path,
    *,
    process: int = 0,
) -> TrainingStoppedError:
    """The error of an offline step; writes the rows of the step to a file for inspection.

    Args:
        what: ``loss`` or ``gradient``.
        step: its number, from 1.
        stage: of the step.
        figures: the figures of the micro-batch or step.
        rows: that the loss or gradient came from.
        run_dir: gets ``stopped-at-step-<step>.json``.
        process: the number of this process; several may write a file at the same time, so it is in the name from 1 on.
    """
    path = run_dir / f"stopped-at-step-{step}{f'-process-{process}' if process else ''}.json"
    content = {
        "step": step,
        "stage": stage,
        "not_finite": what,
        "figures": {name: str(value) for name, value in figures.items()},
        "rows": [asdict(row) for row in rows],
    }
    replace_file(path, json.dumps(content, indent=1).encode() + b"\n")
    groups = ", ".join(dict.fromkeys(row.group_id for row in rows))
    return TrainingStoppedError(
        f"The {what} of step {step} is not finite ({', '.join(f'{k} {v:g}' for k, v in figures.items())})",
        why=f"It was computed from {len(rows)} rows of {groups[:200]}, written to {path}. No checkpoint has this step.",
        fix="Inspect those rows. Otherwise lower learning_rate, or disable bf16. The last checkpoint is intact.",
    )
