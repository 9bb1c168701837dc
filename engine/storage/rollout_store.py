"""Rollouts and fusions on disk: JSON Lines, synced on write, read tolerantly."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from engine.errors import MissingInputError
from engine.records import FORMAT, Fusion, Record, RolloutGroup, first_fault
from engine.storage.append_log import AppendLog
from engine.storage.lines import Line, LineReader, encode_line, without_lone_surrogates

RecordT = TypeVar("RecordT", bound=Record)
ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class BrokenLine:
    """A line that could not be read. The other lines of the file are not affected."""

    path: Path
    number: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number}: {self.reason}"


@dataclass(frozen=True)
class Contents(Generic[RecordT]):
    """The records of a file in order, and the lines that were skipped."""

    records: list[RecordT]
    broken: list[BrokenLine]


class RolloutStore:
    """Writes one file of records.

    Args:
        path: for example ``grpo_training/cache/generator_1_rollouts.jsonl``.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._log = AppendLog(self.path)

    def hold(self) -> contextlib.AbstractContextManager[None]:
        """Hold the file's lock for the block.

        Raises:
            LockHeldError: another process holds it; the error names the process.
        """
        return self._log.hold()

    def append(self, *records: Record) -> None:
        """Append records with the format version, with one sync to disk.

        Inside ``hold`` it may be called from any thread; outside, the lock is taken for these lines.

        Raises:
            LockHeldError: another process holds the lock.
            OSError: the disk is full or broken; the file is unchanged.
        """
        lines = [
            encode_line(record.model_copy(update={"format": FORMAT} if "format" in type(record).model_fields else {}))
            for record in records
        ]
        with contextlib.nullcontext() if self._log.held else self._log.hold():
            self._log.append(*lines)


def read(path: Path | str, model: type[RecordT]) -> Contents[RecordT]:
    """Read a whole file, also one written by another program.

    Scaffolds are not converted (object, JSON text, text of a Python literal, null). Missing optional keys and nulls
    take their defaults, numbers in text fields become text, NaN becomes null, unknown keys are ignored. Blank lines
    are skipped; unreadable lines are listed in ``broken``.

    Args:
        path: the file.
        model: ``RolloutGroup``, ``Fusion`` or another record.

    Raises:
        MissingInputError: the file does not exist.
    """
    broken: list[BrokenLine] = []
    return Contents(list(read_each(path, model, broken)), broken)


def read_each(
    path: Path | str, model: type[RecordT], broken: list[BrokenLine], *, missing_ok: bool = False
) -> Iterator[RecordT]:
    """The records of a file one after the other, as :func:`read` reads them.

    Args:
        path: the file.
        model: the record to read.
        broken: receives the lines that could not be read.
        missing_ok: there are no records if the file does not exist.

    Raises:
        MissingInputError: the file does not exist.
    """
    path = Path(path)
    if not missing_ok and not path.exists():
        raise MissingInputError(f"File not found: {path}")
    for line in LineReader(path).read(to_the_end=True):
        try:
            yield decode_line(line, model)
        except UnreadableLineError as error:
            broken.append(BrokenLine(path, line.number, str(error)))


def in_problem_order(values: Iterable[ValueT], step: Callable[[ValueT], int | None]) -> list[ValueT]:
    """What a file holds in the order of the run's problems, in place of the order in which they were completed.

    Lines without a step, which earlier versions and other programs write, keep their order and come first: they were
    there before a run added to them.

    Args:
        values: in the order of the file.
        step: the step of a value.
    """
    return sorted(values, key=lambda value: -1 if (number := step(value)) is None else number)


class UnreadableLineError(ValueError):
    """A line is not a valid record; the message is the reason."""


def decode_line(line: Line, model: type[RecordT]) -> RecordT:
    """The record of one line, as :func:`read` reads it.

    Raises:
        UnreadableLineError: the line is not a valid record.
    """
    if line.fault:
        raise UnreadableLineError(line.fault)
    try:
        raw = json.loads(line.text.decode("utf-8-sig"), parse_constant=lambda _: None)
        raw = without_lone_surrogates(raw, line.text)
    except UnicodeDecodeError as error:
        raise UnreadableLineError(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise UnreadableLineError("nested too deeply") from None
    except ValueError as error:
        raise UnreadableLineError(f"not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise UnreadableLineError(f"expected a JSON object, got {type(raw).__name__}")
    version = raw.get("format") or 0
    if isinstance(version, int) and version > FORMAT:
        raise UnreadableLineError(f"format {version} was written by a newer version; this one reads up to {FORMAT}")
    try:
        return model.model_validate(_ADAPTERS.get(model, _without_nulls)(raw))
    except ValidationError as error:
        raise UnreadableLineError(first_fault(error)) from None


def _group(raw: dict[str, Any]) -> dict[str, Any]:
    rollouts = raw.get("rollouts")
    if not isinstance(rollouts, list) or not rollouts:
        raise UnreadableLineError("no rollouts")
    return _line(raw) | {"rollouts": [_rollout(index, rollout) for index, rollout in enumerate(rollouts, 1)]}


def _rollout(index: int, raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise UnreadableLineError(f"rollout {index} is not an object")
    return {"rollout_id": index} | _without_nulls(raw, texts=("answer", "stated_answer"))


def _fusion(raw: dict[str, Any]) -> dict[str, Any]:
    texts = ("final_answer", "stated_answer")
    return {"generator_id": ""} | _line(raw) | _without_nulls({key: raw.get(key) for key in texts}, texts)


def _line(raw: dict[str, Any]) -> dict[str, Any]:
    """The keys that groups and fusions share; only the problem's id is required."""
    if raw.get("problem_id") in (None, ""):
        raise UnreadableLineError("no problem_id")
    needed = ("problem_id", "problem_text", "ground_truth", "timestamp")
    return dict.fromkeys(needed, "") | _without_nulls(raw, texts=(*needed, "generator_id"))


def _without_nulls(raw: dict[str, Any], texts: tuple[str, ...] = ()) -> dict[str, Any]:
    """Drop keys that are null; convert those of ``texts`` to text."""
    return {key: _as_text(value) if key in texts else value for key, value in raw.items() if value is not None}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_ADAPTERS: dict[type[Record], Callable[[dict[str, Any]], dict[str, Any]]] = {
    RolloutGroup: _group,
    Fusion: _fusion,
}
