"""Rollouts and fusions on disk: one JSON object a line, written durably, read with tolerance."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from engine.errors import MissingInputError
from engine.records import FORMAT, Fusion, Record, RolloutGroup
from engine.storage.append_log import AppendLog, Line, LineReader, encode_line

RecordT = TypeVar("RecordT", bound=Record)

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""An escape that may be half of a surrogate pair; JSON text has no other way to hold one alone."""


@dataclass(frozen=True)
class BrokenLine:
    """A line that could not be read; the rest of its file is not hurt by it."""

    path: Path
    number: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number}: {self.reason}"


@dataclass(frozen=True)
class Contents(Generic[RecordT]):
    """All that a file holds, in its order, and the lines that were skipped."""

    records: list[RecordT]
    broken: list[BrokenLine]


class RolloutStore:
    """One file of records, for its one writer.

    Args:
        path: for example ``grpo_training/cache/generator_1_rollouts.jsonl``.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._log = AppendLog(self.path)

    @contextlib.contextmanager
    def hold(self) -> Iterator[RolloutStore]:
        """Be the only writer of the file for the length of the block.

        Raises:
            LockHeldError: someone else is; the error names the process.
        """
        with self._log.hold():
            yield self

    def append(self, record: Record) -> None:
        """Add one record, stamped with the format's version, and wait until it is on the disk.

        Inside ``hold`` it may be called from any thread; outside, the lock is taken for this one line.

        Raises:
            LockHeldError: someone else writes the file.
            OSError: the disk is full or broken; the file is then as before.
        """
        line = _encode(record)
        if self._log.held:
            self._log.append(line)
        else:
            with self._log.hold():
                self._log.append(line)


def read(path: Path | str, model: type[RecordT], *, missing_ok: bool = False) -> Contents[RecordT]:
    """Read a whole file, also one that another program wrote.

    Scaffolds are left as they stand (object, JSON text, Python literal's text, null). Missing optional keys and
    nulls take their defaults, numbers where a text belongs become texts, NaN becomes null, further keys are
    ignored. Blank lines are nothing; a line that cannot be read is in ``broken``.

    Args:
        path: the file.
        model: ``RolloutGroup``, ``Fusion`` or another record.
        missing_ok: give empty contents where there is no file.

    Raises:
        MissingInputError: there is no such file.
    """
    path = Path(path)
    if not path.exists() and not missing_ok:
        raise MissingInputError(f"File not found: {path}")
    broken: list[BrokenLine] = []
    records = list(_decode_all(LineReader(path), model, broken, to_the_end=True))
    return Contents(records, broken)


async def follow(
    path: Path | str,
    model: type[RecordT],
    *,
    stop: Callable[[], bool],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    poll_s: float = 0.5,
    broken: list[BrokenLine] | None = None,
) -> AsyncIterator[RecordT]:
    """Yield the records of a file as it grows; the file may come into being later.

    Args:
        path: the file. When it is replaced or cut short, it is read from its start again.
        model: the record to read.
        stop: asked before each look; after the look at which it says True, the iteration ends, so all that was
            written before is still yielded.
        sleep: takes seconds.
        poll_s: seconds between two looks.
        broken: a list that gets the lines that could not be read.
    """
    reader = LineReader(Path(path))
    skipped = broken if broken is not None else []
    while True:
        last = stop()
        for record in _decode_all(reader, model, skipped, to_the_end=last):
            yield record
        if last:
            return
        await sleep(poll_s)


def latest_by_problem(groups: Iterable[RolloutGroup]) -> dict[tuple[str, int], RolloutGroup]:
    """One group for each (problem_id, epoch): the last complete one, else the last; by first appearance."""
    latest: dict[tuple[str, int], RolloutGroup] = {}
    for group in groups:
        key = (group.problem_id, group.epoch)
        known = latest.get(key)
        if known is None or group.complete or not known.complete:
            latest[key] = group
    return latest


def latest_fusions(fusions: Iterable[Fusion]) -> dict[tuple[str, int, str], Fusion]:
    """One fusion for each (problem_id, epoch, generator_id): the last one that carries a reward, else the last."""
    latest: dict[tuple[str, int, str], Fusion] = {}
    for fusion in fusions:
        key = (fusion.problem_id, fusion.epoch, fusion.generator_id)
        known = latest.get(key)
        if known is None or fusion.outcome.carries_reward or not known.outcome.carries_reward:
            latest[key] = fusion
    return latest


# ------------------------------------------------------------------ lines


def _encode(record: Record) -> bytes:
    if "format" in type(record).model_fields:
        record = record.model_copy(update={"format": FORMAT})
    return encode_line(record)


def _decode_all(
    reader: LineReader, model: type[RecordT], broken: list[BrokenLine], *, to_the_end: bool
) -> Iterator[RecordT]:
    for line in reader.read(to_the_end=to_the_end):
        try:
            yield _decode(line, model)
        except _UnreadableLineError as error:
            broken.append(BrokenLine(reader.path, line.number, str(error)))


class _UnreadableLineError(ValueError):
    """Why a line is no record, in a few words."""


def _decode(line: Line, model: type[RecordT]) -> RecordT:
    if line.fault:
        raise _UnreadableLineError(line.fault)
    try:
        raw = json.loads(line.text.decode("utf-8-sig"), parse_constant=lambda _: None)
        if _HALF.search(line.text):  # no prompt and no file could hold half a character: it becomes "?", as in ours
            raw = json.loads(json.dumps(raw, ensure_ascii=False).encode(errors="replace"))
    except UnicodeDecodeError as error:
        raise _UnreadableLineError(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise _UnreadableLineError("nested too deeply") from None
    except ValueError as error:
        raise _UnreadableLineError(f"not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise _UnreadableLineError(f"a JSON object is needed, not {type(raw).__name__}")
    version = raw.get("format") or 0
    if isinstance(version, int) and version > FORMAT:
        raise _UnreadableLineError(f"format {version} was written by a newer version; this one reads {FORMAT}")
    try:
        return model.model_validate(_ADAPTERS.get(model, _without_nulls)(raw))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _UnreadableLineError(f"{where}: {first['msg']}") from None


# ------------------------------------------------------------------ what others wrote


def _group(raw: dict[str, Any]) -> dict[str, Any]:
    rollouts = raw.get("rollouts")
    if not isinstance(rollouts, list) or not rollouts:
        raise _UnreadableLineError("no rollouts")
    return _line(raw) | {"rollouts": [_rollout(index, rollout) for index, rollout in enumerate(rollouts, 1)]}


def _rollout(index: int, raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise _UnreadableLineError(f"rollout {index} is no object")
    return {"rollout_id": index} | _without_nulls(raw, texts=("answer", "stated_answer"))


def _fusion(raw: dict[str, Any]) -> dict[str, Any]:
    texts = ("final_answer", "stated_answer")
    return {"generator_id": ""} | _line(raw) | _without_nulls({key: raw.get(key) for key in texts}, texts)


def _line(raw: dict[str, Any]) -> dict[str, Any]:
    """The keys that groups and fusions share; only a problem's id is truly needed."""
    if raw.get("problem_id") in (None, ""):
        raise _UnreadableLineError("no problem_id")
    needed = ("problem_id", "problem_text", "ground_truth", "timestamp")
    return dict.fromkeys(needed, "") | _without_nulls(raw, texts=(*needed, "generator_id"))


def _without_nulls(raw: dict[str, Any], texts: tuple[str, ...] = ()) -> dict[str, Any]:
    """The keys that say something; those of ``texts`` as text."""
    return {key: _as_text(value) if key in texts else value for key, value in raw.items() if value is not None}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_ADAPTERS: dict[type[Record], Callable[[dict[str, Any]], dict[str, Any]]] = {
    RolloutGroup: _group,
    Fusion: _fusion,
}
