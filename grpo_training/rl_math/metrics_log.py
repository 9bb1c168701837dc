"""Metrics of a training: metrics.jsonl."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TextIO

from engine.storage.append_log import write_all, write_file
from grpo_training.rl_math.progress import TrainingProgress
from grpo_training.runs.trackers import Trackers


@contextmanager
def open_metrics(
    run_dir: Path,
    total: int,
    done: int,
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
    trackers: Trackers | None = None,
) -> Iterator[tuple[MetricsLog, TrainingProgress]]:
    """Open ``metrics.jsonl`` in ``run_dir``, and the progress on the terminal.

    Args:
        run_dir: is created.
        total: optimizer steps of the whole run.
        done: steps that are done already.
        stream: receives the progress, stdout by default.
        clock: monotonic seconds.
        trackers: get each line too.
    """
    with (
        closing(TrainingProgress(total, done=done, stream=stream, clock=clock)) as progress,
        closing(MetricsLog(run_dir / "metrics.jsonl", resume_step=done, trackers=trackers)) as log,
    ):
        yield log, progress


class MetricsLog:
    """Writes ``metrics.jsonl``.

    One line is one JSON object with ``step`` first; a value that is not finite becomes null. A resumed run first
    removes the lines of the steps that it will repeat, and an incomplete last line.

    Args:
        path: the file.
        resume_step: the step that the run resumes from; 0 truncates the file.
        trackers: get each line too.
    """

    def __init__(self, path: Path, *, resume_step: int = 0, trackers: Trackers | None = None) -> None:
        self._trackers = trackers
        kept = _lines_up_to(path, resume_step)
        write_file(path, b"".join(line + b"\n" for line in kept))
        self._file = path.open("ab", buffering=0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def write(self, step: int, figures: Mapping[str, Any]) -> None:
        """Add one line.

        Args:
            step: optimizer steps done.
            figures: numbers and short texts by name.
        """
        line = {"step": step} | {name: _json_value(value) for name, value in figures.items()}
        try:
            write_all(self._file.fileno(), json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n")
        except OSError as error:
            error.filename = self._file.name
            raise
        if self._trackers is not None:
            self._trackers.log(figures, step)


def _lines_up_to(path: Path, step: int) -> list[bytes]:
    if step == 0 or not path.exists():
        return []
    kept = []
    for line in path.read_bytes().split(b"\n"):
        try:
            if int(json.loads(line)["step"]) <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue  # incomplete after a crash
    return kept


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def means(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each figure over those that have it."""
    names = dict.fromkeys(name for of_step in figures for name in of_step)
    return {name: statistics.fmean(of_step[name] for of_step in figures if name in of_step) for name in names}
