"""The files of an evaluation: figures, samples, manifest and journal, in one folder."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from engine.storage.append_log import AppendLog, replace_file, replacement
from grpo_training.evaluate.arms import JudgedSample, ProblemResult
from grpo_training.runs.files import RunFiles

FORMAT = 1
"""Version of the figures' and the samples' format."""


def write_samples(
    file: BinaryIO, model: str, draw: str, result: ProblemResult, samples: Sequence[JudgedSample]
) -> None:
    """Write the judged samples of one problem, one JSON object per line."""
    for sample in samples:
        row = {
            "format": FORMAT,
            "model": model,
            "draw": draw,
            "task_id": result.problem_id,
            "group": result.group,
            "sample_idx": sample.index,
            "is_correct": sample.is_right,
            "outcome": sample.outcome,
            "fault": sample.fault and sample.fault.model_dump(),
            "answer": sample.answer,
            "truncated": sample.is_truncated,
            "readable": sample.is_readable,
            "completion": sample.completion
            and sample.completion.model_dump(mode="json", exclude={"token_ids", "logprobs", "ids_source"}),
        }
        file.write(json.dumps(row, ensure_ascii=False).encode(errors="backslashreplace") + b"\n")


class ResultFiles:
    """The files of one evaluation.

    Args:
        figures: the JSON file of the figures; the names of the others are derived from it.
    """

    def __init__(self, figures: Path) -> None:
        self.figures = figures
        self.samples = figures.with_suffix(".samples.jsonl")
        self.journal = figures.with_suffix(".sqlite")
        self.run = RunFiles(figures.with_suffix(".run.json"), [figures, self.samples], lock=AppendLog(self.samples))

    def write_figures(self, report: Mapping[str, Any]) -> None:
        """Write the figures atomically."""
        replace_file(self.figures, (json.dumps(report, indent=2, ensure_ascii=False) + "\n").encode())

    @contextlib.contextmanager
    def new_samples(self) -> Iterator[BinaryIO]:
        """A file of samples that replaces the earlier one when the block ends without an error."""
        with replacement(self.samples) as file:
            yield file
