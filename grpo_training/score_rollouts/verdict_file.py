"""Verdicts on disk, one JSON object a line: those of a run by row, and those that several runs share by key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from engine.records import Record
from engine.storage.append_log import AppendLog
from engine.storage.lines import encode_line
from grpo_training.score_rollouts.verdicts import StoredVerdict

_SHARED_WAIT_S = 60.0


class VerdictEntry(Record):
    """The verdict on one row.

    Args:
        key: of the verdict.
        row: the number of the row among those that can be scored, from 0.
        cached: whether the verdict was reached before, by another run or for an equal reply.
        verdict: the verdict.
    """

    key: str
    row: int = -1
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
        self.of_row: dict[int, VerdictEntry] = {}
        self.reusable: dict[str, StoredVerdict] = {}

    def load(self) -> list[VerdictEntry]:
        """Read what is stored; the entries that carry a reward. The others are verified again."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as stream:
            entries = [entry for entry in map(_entry, stream) if entry and entry.verdict.outcome.carries_reward]
        self._note(entries)
        return entries

    def append(self, entries: Sequence[VerdictEntry]) -> None:
        """Store verdicts with one sync. Only inside ``log.hold``."""
        self.log.append_all([encode_line(entry) for entry in entries])
        self._note(entries)

    def share(self, entries: Sequence[VerdictEntry]) -> None:
        """Store the reusable verdicts whose keys are not there yet, in a file that other processes write too."""
        new = {entry.key: entry for entry in entries if entry.verdict.is_reusable}
        added = [entry for key, entry in new.items() if key not in self.reusable]
        if added:
            with self.log.hold():
                self.append(added)

    def _note(self, entries: Sequence[VerdictEntry]) -> None:
        self.of_row |= {entry.row: entry for entry in entries}
        self.reusable |= {entry.key: entry.verdict for entry in entries if entry.verdict.is_reusable}


def _entry(line: bytes) -> VerdictEntry | None:
    try:
        return VerdictEntry.model_validate_json(line)
    except ValidationError:
        return None
