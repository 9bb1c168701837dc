"""How far a learner in another process is, from the files that it writes."""

from __future__ import annotations

import json
from pathlib import Path

from engine.storage.append_log import writer_of
from engine.storage.lines import LineReader
from grpo_training.cli.terminal_text import counted
from grpo_training.runs.learner_files import library_file, results_file


class LearnerStatus:
    """A learner's progress in a few words, from the lines that were added to its cache since the last call.

    Args:
        cache: folder of its results.
        experiences: folder of its library.
        name: name of the learner.
        groups: number of groups that it will make; problems, if there is one pass.
    """

    def __init__(self, cache: Path, experiences: Path, name: str, groups: int) -> None:
        self._groups = groups
        self._reader = LineReader(results_file(cache, name))
        self._library = library_file(experiences, name)
        self._seen: set[tuple[str, int]] = set()
        self._answers = self._right = 0

    def __call__(self) -> str:
        """The progress; empty before the first result."""
        for line in self._reader.read():
            group = json.loads(line.text) if line.text else {}
            self._seen.add((str(group.get("problem_id")), group.get("epoch") or 0))
            for answer in group.get("rollouts", [group]):  # a fusion is one answer
                self._answers += 1
                self._right += bool(answer.get("is_correct"))
        if not self._answers:
            return ""
        share = f"{self._right / self._answers:.0%} right"
        return f"{len(self._seen)}/{self._groups} problems, {share}, {counted(self._experiences(), 'experience')}"

    def _experiences(self) -> int:
        try:
            return len(json.loads(self._library.read_bytes()))
        except (FileNotFoundError, ValueError):
            return 0


def is_writing(cache: Path, name: str) -> bool:
    """Whether a learner holds the lock of its results.

    From then on the critic waits for more lines and does not take those of an earlier run for all of them.
    """
    return writer_of(results_file(cache, name)) is not None
