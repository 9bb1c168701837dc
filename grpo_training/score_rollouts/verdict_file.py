"""Verdicts on disk, one JSON object a line: those of a run by row, and those that several runs share by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """An append-only file of verdicts. In memory are the places of its lines. A line that cannot be read is not used.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = AppendLog(path, wait_s=_SHARED_WAIT_S)
        self._offset_of_row: dict[int, int] = {}
        self._offset_of_key: dict[str, int] = {}

    def load(self) -> Iterator[VerdictEntry]:
        """Read what is stored, and yield the entries that carry a reward; the others are verified again."""
        if not self.path.exists():
            return
        offset = 0
        with self.path.open("rb") as stream:
            for line in stream:
                entry = _entry(line)
                if entry is not None and entry.verdict.outcome.carries_reward:
                    self._note(entry, offset)
                    yield entry
                offset += len(line)

    def append(self, entries: Sequence[VerdictEntry]) -> None:
        """Store verdicts with one sync. Only inside ``log.hold``."""
        lines = [encode_line(entry) for entry in entries]
        offset = self.log.append_all(lines)
        for entry, line in zip(entries, lines, strict=True):
            self._note(entry, offset)
            offset += len(line) + 1

    def share(self, entries: Sequence[VerdictEntry]) -> None:
        """Store the reusable verdicts whose keys are not there yet, in a file that other processes write too."""
        new = {entry.key: entry for entry in entries if entry.verdict.is_reusable}
        added = [entry for key, entry in new.items() if key not in self._offset_of_key]
        if added:
            with self.log.hold():
                self.append(added)

    def has(self, row: int) -> bool:
        """Whether the row has a verdict."""
        return row in self._offset_of_row

    def of_row(self, row: int) -> VerdictEntry:
        """The verdict of a row."""
        entry = self._read(self._offset_of_row[row])
        assert entry is not None
        return entry

    def of_key(self, key: str) -> StoredVerdict | None:
        """The reusable verdict with a key; None if there is none."""
        if key not in self._offset_of_key:
            return None
        entry = self._read(self._offset_of_key[key])
        return entry.verdict if entry is not None and entry.key == key else None

    def _note(self, entry: VerdictEntry, offset: int) -> None:
        self._offset_of_row[entry.row] = offset
        if entry.verdict.is_reusable:
            self._offset_of_key[entry.key] = offset

    def _read(self, offset: int) -> VerdictEntry | None:
        with self.path.open("rb") as stream:
            stream.seek(offset)
            return _entry(stream.readline())


def _entry(line: bytes) -> VerdictEntry | None:
    try:
        return VerdictEntry.model_validate_json(line)
    except ValidationError:
        return None
