"""Records of a file by key, read one at a time: only keys and places in the file stay in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from engine.errors import InputError
from engine.records import Fusion, Record, RolloutGroup
from engine.storage.lines import Line, LineReader
from engine.storage.rollout_store import BrokenLine, UnreadableLineError, decode_line, in_problem_order

KeyT = TypeVar("KeyT")
RecordT = TypeVar("RecordT", bound=Record)


class _Place(NamedTuple):
    """Where a line is in the file, blank lines before it included, the hash of its text, and the step of its record."""

    start: int
    end: int
    digest: bytes
    step: int | None


class StoredRecords(Mapping[KeyT, RecordT]):
    """The complete records of a file, the last one of each key; a record is read when it is asked for.

    They are in problem order; those without a step are in the order in which their keys first appear in the file. The
    file need not exist, and may grow: lines that were added are seen after the next :meth:`read`.

    Args:
        path: the file.
        model: the record to read.
        key: the key of a record.
        step: its place in the run.
        is_complete: whether a record counts.
    """

    def __init__(
        self,
        path: Path,
        model: type[RecordT],
        key: Callable[[RecordT], KeyT],
        step: Callable[[RecordT], int | None],
        is_complete: Callable[[RecordT], bool],
    ) -> None:
        self.broken: list[BrokenLine] = []
        self._path, self._model = path, model
        self._key, self._step, self._is_complete = key, step, is_complete
        self._reader = LineReader(path)
        self._places: dict[KeyT, _Place | None] = {}  # None: not complete yet

    def read(self, *, to_the_end: bool = False) -> list[KeyT]:
        """Read the lines that were added since the last call; the keys whose record is new or another than before.

        Args:
            to_the_end: the file has no writer any more, so that a last line without a newline counts.
        """
        changed = []
        start = 0 if self._reader.replaced() else self._reader.offset
        for line in self._reader.read(to_the_end=to_the_end):
            begin, start = start, self._reader.offset
            try:
                record = decode_line(line, self._model)
            except UnreadableLineError as error:
                self.broken.append(BrokenLine(self._path, line.number, str(error)))
                continue
            place = _Place(begin, start, _digest(line.text), self._step(record))
            key = self._key(record)
            known = self._places.setdefault(key, None)
            if self._is_complete(record):
                self._places[key] = place
                if known is None or known.digest != place.digest:
                    changed.append(key)
        return changed

    def step(self, key: KeyT) -> int | None:
        """The step of a complete record, without reading the record."""
        place = self._places[key]
        return None if place is None else place.step

    def __getitem__(self, key: KeyT) -> RecordT:
        place = self._places[key]
        if place is None:
            raise KeyError(key)
        try:
            with self._path.open("rb") as stream:
                stream.seek(place.start)
                text = stream.read(place.end - place.start).strip().rpartition(b"\n")[2]
        except FileNotFoundError:
            text = b""
        if _digest(text) != place.digest:
            raise InputError(f"{self._path} was replaced while it was being read", fix="Start the command again.")
        return decode_line(Line(0, text), self._model)

    def __contains__(self, key: object) -> bool:
        return self._places.get(key) is not None  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[KeyT]:
        return iter(in_problem_order((key for key, place in self._places.items() if place is not None), self.step))

    def __len__(self) -> int:
        return sum(place is not None for place in self._places.values())


class StoredGroups(StoredRecords[tuple[str, int], RolloutGroup]):
    """The complete groups of a generator's file by (problem_id, epoch).

    Args:
        path: the file.
        is_growing: a generator may be writing it; nothing is read before the first :meth:`read`.
    """

    def __init__(self, path: Path, *, is_growing: bool = False) -> None:
        super().__init__(
            path,
            RolloutGroup,
            lambda group: (group.problem_id, group.epoch),
            lambda group: group.step,
            lambda group: group.complete,
        )
        if not is_growing:
            self.read(to_the_end=True)


class StoredFusions(StoredRecords[tuple[str, int, str], Fusion]):
    """The fusions of the critic's file that carry a reward, by (problem_id, epoch, generator_id).

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(
            path,
            Fusion,
            lambda fusion: (fusion.problem_id, fusion.epoch, fusion.generator_id),
            lambda fusion: fusion.step,
            lambda fusion: fusion.outcome.carries_reward,
        )
        self.read(to_the_end=True)


class StepNumbers:
    """Numbers the steps of a run that is made from stored groups. A group keeps its number while the file grows."""

    def __init__(self) -> None:
        self._free = 0
        """The lowest number that is not taken."""
        self._taken: set[int] = set()  # above it
        self._without = 0

    def number(self, step: int | None) -> int:
        """The number of the next group: its step, or its place if it has none; the next free one if that is taken.

        The same step occurs twice in a file that was put together from several.
        """
        number = max(self._free, self._without if step is None else step)
        self._without += step is None
        while number in self._taken:
            number += 1
        self._taken.add(number)
        while self._free in self._taken:
            self._taken.remove(self._free)
            self._free += 1
        return number


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()
