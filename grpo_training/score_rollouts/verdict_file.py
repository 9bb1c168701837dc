"""Verdicts on disk by their keys, one JSON object a line: those of a run, and those that several runs share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from engine.records import Record
from engine.storage.append_log import AppendLog
from engine.storage.lines import encode_line
from grpo_training.score_rollouts.verdicts import StoredVerdict

_SHARED_WAIT_S = 60.0


class VerdictEntry(Record):
    """A verdict.

    Args:
        key: of the verdict.
        cached: whether another run reached it before.
        verdict: the verdict.
    """

    key: str
    cached: bool = False
    verdict: StoredVerdict


class VerdictFile:
    """An append-only file of verdicts, which are in memory too. A line that cannot be read is not used.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = AppendLog(path, wait_s=_SHARED_WAIT_S)
        self.by_key: dict[str, VerdictEntry] = {}

    def load(self) -> None:
        """Read the verdicts that carry a reward. The others are reached again."""
        if self.path.exists():
            with self.path.open("rb") as stream:
                for line in stream:
                    with contextlib.suppress(ValidationError):
                        entry = VerdictEntry.model_validate_json(line)
                        if entry.verdict.has_reward:
                            self.by_key[entry.key] = entry

    def append(self, entries: Sequence[VerdictEntry]) -> None:
        """Store verdicts with one sync. Only inside ``log.hold``."""
        if entries:
            self.log.append(*map(encode_line, entries))
        self.by_key |= {entry.key: entry for entry in entries}

    def share(self, entries: Iterable[VerdictEntry]) -> None:
        """Store the reusable verdicts whose keys are not there yet, in a file that other processes write too."""
        added = [entry for entry in entries if entry.verdict.is_reusable and entry.key not in self.by_key]
        if added:
            with self.log.hold():
                self.append(added)
