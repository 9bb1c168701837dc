"""Records of a file by key, read one at a time: only keys and places in the file stay in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from engine.errors import InputError
from engine.records import Fusion, Record, RolloutGroup
from engine.storage.index_file import Entry, Unreadable
from engine.storage.indexed_log import IndexedLog, digest_of
from engine.storage.lines import Line
from engine.storage.rollout_store import BrokenLine, UnreadableLineError, decode_line, in_problem_order
from engine.storage.summaries import FusionSummary, GroupSummary, Summary, summarise_fusion, summarise_group

KeyT = TypeVar("KeyT", bound=tuple[Any, ...])
RecordT = TypeVar("RecordT", bound=Record)
SummaryT = TypeVar("SummaryT", bound=Summary)


_MAX_STEP = (1 << 63) - 1


class _Place(Entry, frozen=True, kw_only=True, array_like=True):
    """Where a line is, with blank lines before it, and the hash of its text; step and state of its record."""

    step: int | None
    complete: bool


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Place)
"""A place in one object takes a third of the memory."""


class StoredRecords(Mapping[KeyT, RecordT], Generic[KeyT, RecordT, SummaryT]):
    """The complete records of a file, the last one of each key; a record is read when it is asked for.

    They are in problem order; those without a step are in the order in which their keys first appear in the file. The
    file need not exist, and may grow: lines that were added are seen after the next :meth:`read`.

    Args:
        path: the file.
        is_growing: a process may be writing it; nothing is read before the first :meth:`read`.
        with_incomplete: the last record of a key counts if none is complete.
    """

    _model: type[RecordT]
    _summary: type[SummaryT]
    _summarise: Callable[[Line, Entry], SummaryT]

    def __init__(self, path: Path, *, is_growing: bool = False, with_incomplete: bool = False) -> None:
        self.broken: list[BrokenLine] = []
        self._path = path
        self._log = IndexedLog(path, self._summary, self._summarise)
        self._with_incomplete = with_incomplete
        self._places: dict[KeyT, bytes] = {}  # packed; empty: not complete yet
        if not is_growing:
            self.read(to_the_end=True)

    def read(self, *, to_the_end: bool = False) -> list[KeyT]:
        """Read the lines that were added since the last call; the keys whose record is new or another than before.

        Args:
            to_the_end: the file has no writer any more, so that a last line without a newline counts.
        """
        changed = []
        for one in self._log.read(to_the_end=to_the_end):
            if isinstance(one, Unreadable):
                self.broken.append(BrokenLine(self._path, one.line, one.reason))
                continue
            key: KeyT = one.key
            known = self._place(key)
            self._places.setdefault(key, b"")
            if one.complete or (self._with_incomplete and not (known and known.complete)):
                step = None if one.step is None or one.step < 0 else min(one.step, _MAX_STEP)
                self._places[key] = _ENCODER.encode(_Place(**one.where(), step=step, complete=one.complete))
                if known is None or known.digest != one.digest:
                    changed.append(key)
        return changed

    def by_problem(self) -> dict[tuple[str, int], list[KeyT]]:
        """The keys of each problem and epoch: one of a generator, several of the critic."""
        found: dict[tuple[str, int], list[KeyT]] = {}
        for key in self:
            found.setdefault((key[0], key[1]), []).append(key)
        return found

    def of_keys(self, keys: Iterable[KeyT]) -> list[RecordT]:
        """The records with these keys, without those that cannot be read, which are in ``broken`` then."""
        return [record for key in keys if (record := self.get(key)) is not None]

    def step(self, key: KeyT) -> int | None:
        """The step of a complete record, without reading the record."""
        place = self._place(key)
        return place.step if place else None

    def summary(self, key: KeyT) -> SummaryT | None:
        """The summary of a complete record, without reading the record; None if there is none.

        Raises:
            InputError: the file was replaced.
        """
        place = self._place(key)
        return None if place is None else self._summarise(self._line(place), place)

    def __getitem__(self, key: KeyT) -> RecordT:
        place = self._place(key)
        if place is None:
            raise KeyError(key)
        try:
            return decode_line(self._line(place), self._model)
        except UnreadableLineError as error:  # in a field that the summary has not
            self.broken.append(BrokenLine(self._path, place.line, str(error)))
            self._places[key] = b""
            raise KeyError(key) from None

    def in_order(self) -> Iterator[RecordT]:
        """The records, each read when it is its turn; those that cannot be read are left out and in ``broken``."""
        for key in self:
            record = self.get(key)
            if record is not None:
                yield record

    def _place(self, key: KeyT) -> _Place | None:
        packed = self._places.get(key)
        return _DECODER.decode(packed) if packed else None

    def _line(self, place: _Place) -> Line:
        try:
            with self._path.open("rb") as stream:
                stream.seek(place.start)
                text = stream.read(place.end - place.start).strip().rpartition(b"\n")[2]
        except FileNotFoundError:
            text = b""
        if digest_of(text) != place.digest:
            raise InputError(f"{self._path} was replaced while it was being read", fix="Start the command again.")
        return Line(place.line, text)

    def __contains__(self, key: object) -> bool:
        return bool(self._places.get(key))  # type: ignore[call-overload]

    def __iter__(self) -> Iterator[KeyT]:
        return iter(in_problem_order((key for key, place in self._places.items() if place), self.step))

    def __len__(self) -> int:
        return sum(map(bool, self._places.values()))


class StoredGroups(StoredRecords[tuple[str, int], RolloutGroup, GroupSummary]):
    """The complete groups of a generator's file by (problem_id, epoch)."""

    _model, _summary, _summarise = RolloutGroup, GroupSummary, staticmethod(summarise_group)


class StoredFusions(StoredRecords[tuple[str, int, str], Fusion, FusionSummary]):
    """The fusions of the critic's file that carry a reward, by (problem_id, epoch, generator_id)."""

    _model, _summary, _summarise = Fusion, FusionSummary, staticmethod(summarise_fusion)


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
