"""Records of a file by key, read one at a time: only keys and packed summaries stay in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from engine.errors import InputError
from engine.records import Fusion, Record, RolloutGroup
from engine.storage.append_log import opened
from engine.storage.lines import Line, LineReader
from engine.storage.rollout_store import BrokenLine, UnreadableLineError, decode_line, in_problem_order
from engine.storage.summaries import FusionSummary, GroupSummary, Place, Summary, summarise_fusion, summarise_group

KeyT = TypeVar("KeyT", bound=tuple[Any, ...])
RecordT = TypeVar("RecordT", bound=Record)
ValueT = TypeVar("ValueT")
SummaryT = TypeVar("SummaryT", bound=Summary)

_PACK = msgspec.msgpack.Encoder().encode


class RecordFile(Generic[SummaryT, RecordT]):
    """The records of a growing file as summaries, each once and in order; a record is read when it is asked for.

    Args:
        path: the file; it may be created later.
        model: the record.
        summarise: makes the summary of a line; raises ``UnreadableLineError`` if it is no record.

    Attributes:
        broken: the lines that are no records.
    """

    def __init__(self, path: Path, model: type[RecordT], summarise: Callable[[Line], SummaryT]) -> None:
        self.path = path
        self.broken: list[BrokenLine] = []
        self.lines = LineReader(path)
        self._model, self._summarise = model, summarise

    def read(self, *, to_the_end: bool = False) -> Iterator[SummaryT]:
        """The summaries of the lines since the last call. The caller may leave the iteration; the next call goes on.

        Args:
            to_the_end: the file has no writer any more, so that a last line without a newline counts.
        """
        for line in self.lines.read(to_the_end=to_the_end):
            try:
                yield self._summarise(line)
            except UnreadableLineError as error:
                self.broken.append(BrokenLine(self.path, line.number, str(error)))

    def record(self, place: Place) -> RecordT:
        """The record at a place.

        Raises:
            InputError: the file was replaced.
            UnreadableLineError: the record has a fault in a field that its summary does not have.
        """
        try:
            with opened(self.path, os.O_RDONLY) as fd:
                text = os.pread(fd, place.end - place.start, place.start).strip()
        except FileNotFoundError:
            text = b""
        if hash(text) != place.digest:
            raise InputError(f"{self.path} was replaced while it was being read", fix="Start the command again.")
        return decode_line(Line(place.line, text), self._model)


class StoredRecords(Mapping[KeyT, RecordT], Generic[KeyT, RecordT, SummaryT]):
    """The complete records of a file, the last one of each key; a record is read when it is asked for.

    They are in problem order; those without a step are in the order in which their keys first appear in the file. The
    file need not exist.

    Args:
        path: the file.
        with_incomplete: the last record of a key counts if none is complete.
    """

    _model: type[RecordT]
    _summarise: Callable[[Line], SummaryT]
    _packed: msgspec.msgpack.Decoder[SummaryT]

    def __init__(self, path: Path, *, with_incomplete: bool = False) -> None:
        self._file = RecordFile(path, self._model, self._summarise)
        self.broken = self._file.broken
        self._stored: dict[KeyT, bytes | None] = {}
        """The summaries as MessagePack, a seventh of the memory of the objects; None: not complete."""
        for summary in self._file.read(to_the_end=True):
            key: KeyT = summary.key
            self._stored.setdefault(key, None)
            known = self.summary(key)
            if summary.complete or (with_incomplete and not (known and known.complete)):
                self._stored[key] = _PACK(summary)

    def by_problem(self) -> dict[tuple[str, int], list[KeyT]]:
        """The keys of each problem and epoch: one of a generator, several of the critic."""
        keys_of: dict[tuple[str, int], list[KeyT]] = {}
        for key in self:
            keys_of.setdefault((key[0], key[1]), []).append(key)
        return keys_of

    def of_keys(self, keys: Iterable[KeyT]) -> list[RecordT]:
        """The records with these keys, without those that cannot be read, which are in ``broken`` then."""
        return [record for key in keys if (record := self.get(key)) is not None]

    def step(self, key: KeyT) -> int | None:
        """The step of a complete record, without reading the record."""
        summary = self.summary(key)
        return summary.step if summary else None

    def summary(self, key: KeyT) -> SummaryT | None:
        """The summary of a complete record, without reading the record; None if there is none."""
        packed = self._stored.get(key)
        return self._packed.decode(packed) if packed else None

    def __getitem__(self, key: KeyT) -> RecordT:
        summary = self.summary(key)
        if summary is None:
            raise KeyError(key)
        try:
            return self._file.record(summary.place)
        except UnreadableLineError as error:  # in a field that the summary has not
            self.broken.append(BrokenLine(self._file.path, summary.line, str(error)))
            self._stored[key] = None
            raise KeyError(key) from None

    def in_order(self) -> Iterator[RecordT]:
        """The records, each read when it is its turn; those that cannot be read are left out and in ``broken``."""
        return (record for key in self if (record := self.get(key)) is not None)

    def __contains__(self, key: object) -> bool:
        return self._stored.get(key) is not None  # type: ignore[call-overload]

    def __iter__(self) -> Iterator[KeyT]:
        return iter(in_problem_order((key for key, stored in self._stored.items() if stored), self.step))

    def __len__(self) -> int:
        return sum(stored is not None for stored in self._stored.values())


class StoredGroups(StoredRecords[tuple[str, int], RolloutGroup, GroupSummary]):
    """The complete groups of a generator's file by (problem_id, epoch)."""

    _model, _packed = RolloutGroup, msgspec.msgpack.Decoder(GroupSummary)

    @staticmethod
    def _summarise(line: Line) -> GroupSummary:
        """Without the text of the problem, which is for the viewer's search and as long as the rest."""
        return msgspec.structs.replace(summarise_group(line), problem_text="")


class StoredFusions(StoredRecords[tuple[str, int, str], Fusion, FusionSummary]):
    """The fusions of the critic's file that carry a reward, by (problem_id, epoch, generator_id)."""

    _model, _summarise = Fusion, staticmethod(summarise_fusion)
    _packed = msgspec.msgpack.Decoder(FusionSummary)


def numbered(values: Iterable[ValueT], step: Callable[[ValueT], int | None]) -> Iterator[tuple[int, ValueT]]:
    """Values in problem order, each with a number of its own: its step, or the next free number.

    Files of earlier versions and of other programs have no steps, and one that was put together from several has a step
    twice.

    Args:
        values: in problem order.
        step: the step of a value.
    """
    free = 0
    for value in values:
        number = max(free, step(value) or 0)
        free = number + 1
        yield number, value
