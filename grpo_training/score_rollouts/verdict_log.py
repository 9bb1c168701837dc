"""Verdicts on disk: the work log of a run, one line per row, and the cache that several runs share."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from pydantic import ValidationError

from engine.records import Record, timestamp
from engine.storage.append_log import AppendLog
from engine.storage.lines import encode_line
from grpo_training.score_rollouts.verdicts import StoredVerdict

_CACHE_WAIT_S = 60.0
_ABSENT = -1
_CACHE_KEY = re.compile(rb'\{"key":"([0-9a-f]{64})"')


class WorkEntry(Record):
    """The verdict on one row.

    Args:
        row: the number of the row among those that can be scored, from 0.
        key: of the verdict.
        cached: whether it was taken from the cache or from an earlier equal row.
        seconds: that the verification took; 0 if cached.
        verdict: the verdict.
    """

    row: int
    key: str
    cached: bool
    seconds: float
    verdict: StoredVerdict


class CacheEntry(Record):
    """A verdict that can be used again."""

    key: str
    created_at: str
    verdict: StoredVerdict


class WorkLog:
    """The verdicts of a run, in the order in which they were reached. Rows without a verdict are verified again.

    In memory it holds a few bytes per row: where the verdict of each row is in the file.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = AppendLog(path)
        self._offsets = array("q")
        self._first_of: dict[bytes, int] = {}

    def hold(self) -> AbstractContextManager[None]:
        """Hold the lock of the file."""
        return self._log.hold()

    def delete(self) -> None:
        """Delete the file, as the results are complete. Only inside ``hold``."""
        self._log.delete()

    def load(self, rows: int) -> Iterator[WorkEntry]:
        """Read what an earlier start has stored; yields the entries that count. Read all before anything is stored.

        Args:
            rows: number of rows of the run.
        """
        self._offsets = array("q", [_ABSENT]) * rows
        for offset, line in _lines(self.path):
            try:
                entry = WorkEntry.model_validate_json(line)
            except ValidationError:
                continue
            if 0 <= entry.row < len(self._offsets) and entry.verdict.outcome.carries_reward:
                self._note(entry, offset)
                yield entry

    def append(self, entries: Sequence[WorkEntry]) -> None:
        """Store verdicts with one sync."""
        lines = [encode_line(entry) for entry in entries]
        offset = self._log.append_all(lines)
        for entry, line in zip(entries, lines, strict=True):
            self._note(entry, offset)
            offset += len(line) + 1

    def has(self, row: int) -> bool:
        """Whether the row has a verdict."""
        return self._offsets[row] != _ABSENT

    def same(self, key: str) -> StoredVerdict | None:
        """The reusable verdict of a row with this key, if there is one."""
        offset = self._first_of.get(bytes.fromhex(key))
        return None if offset is None else self._read(offset).verdict

    def entry(self, row: int) -> WorkEntry:
        """The stored verdict of a row."""
        return self._read(self._offsets[row])

    def _note(self, entry: WorkEntry, offset: int) -> None:
        self._offsets[entry.row] = offset
        if entry.verdict.is_reusable:
            self._first_of.setdefault(bytes.fromhex(entry.key), offset)

    def _read(self, offset: int) -> WorkEntry:
        return WorkEntry.model_validate_json(_line_at(self.path, offset))


class VerdictCache:
    """Verdicts of earlier runs by key. A line that cannot be read is not used.

    Args:
        path: the file, or None for no cache. Other processes may append to it at any time.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._log = None if path is None else AppendLog(path, wait_s=_CACHE_WAIT_S)
        self._offsets: dict[bytes, int] = {}
        for offset, line in _lines(path) if path is not None else ():
            found = _CACHE_KEY.match(line)
            if found:
                self._offsets[bytes.fromhex(found[1].decode())] = offset

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key) in self._offsets

    def get(self, key: str) -> StoredVerdict | None:
        """The verdict with a key; None if there is none."""
        offset = self._offsets.get(bytes.fromhex(key))
        if offset is None or self._path is None:
            return None
        try:
            entry = CacheEntry.model_validate_json(_line_at(self._path, offset))
        except (ValidationError, ValueError, OSError):  # the line is damaged, or the file was replaced
            entry = None
        if entry is None or entry.key != key or not entry.verdict.is_reusable:
            del self._offsets[bytes.fromhex(key)]
            return None
        return entry.verdict

    def add(self, entries: Sequence[WorkEntry]) -> None:
        """Store the reusable verdicts that are not there yet."""
        if self._log is None:
            return
        new = {each.key: each for each in entries if each.verdict.is_reusable and each.key not in self}
        if not new:
            return
        lines = [
            encode_line(CacheEntry(key=key, created_at=timestamp(), verdict=each.verdict)) for key, each in new.items()
        ]
        with self._log.hold():
            offset = self._log.append_all(lines)
        for key, line in zip(new, lines, strict=True):
            self._offsets[bytes.fromhex(key)] = offset
            offset += len(line) + 1


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The complete lines of a file with their offsets; nothing if there is no file."""
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as stream:
        for line in stream:
            if line.endswith(b"\n"):
                yield offset, line
            offset += len(line)


def _line_at(path: Path, offset: int) -> bytes:
    with path.open("rb") as stream:
        stream.seek(offset)
        return stream.readline()


def as_json_line(row: object) -> bytes:
    """A row as one compact line of JSON. Lone surrogates become ``?``."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"
