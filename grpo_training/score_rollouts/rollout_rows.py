"""Reads rollouts of any program: one JSON object per line, with the id of its prompt and one reply."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError, MissingInputError
from engine.records import Completion
from engine.storage.lines import Line, LineReader
from engine.task import REPLY_FIELDS, Task, completion_of_row

ID_FIELDS = ("prompt_id", "problem_id", "task_id", "id")
_SHOWN = 10

GroupKey = tuple[str, str]
"""``(step, prompt_id)``; the step as JSON text."""


class _BadRowError(ValueError):
    """A row cannot be scored; the message says why."""


@dataclass(frozen=True)
class RolloutRow:
    """A row that can be scored.

    Args:
        row: all keys.
        prompt_id: of its prompt.
        completion: the reply.
    """

    row: dict[str, Any]
    prompt_id: str
    completion: Completion

    @property
    def group(self) -> GroupKey:
        """The key of its group."""
        return json.dumps(self.row.get("step"), sort_keys=True), self.prompt_id


@dataclass(frozen=True)
class Survey:
    """What a file of rollouts holds.

    Args:
        digest: SHA-256 of the file.
        groups: group -> its number, in the order of first rows.
        group_of: number of the group of each row that can be scored.
        bad_count: number of other rows.
    """

    digest: str
    groups: dict[GroupKey, int]
    group_of: list[int]
    bad_count: int = 0

    @property
    def rows(self) -> int:
        """The number of rows that can be scored."""
        return len(self.group_of)

    @classmethod
    def of(cls, path: Path, task: Task, prompts: Collection[str], *, skip_bad_rows: bool) -> Survey:
        """Read a file once, without verifying anything.

        Args:
            path: the file.
            task: reads the replies.
            prompts: the ids of the known prompts.
            skip_bad_rows: leave out rows that cannot be scored.

        Raises:
            MissingInputError: there is no such file.
            InputError: rows cannot be scored, and names the first of them with file and line; or there are none.
        """
        if not path.is_file():
            raise MissingInputError(f"Rollouts file not found: {path}", fix="Give a JSONL file with one reply per row.")
        groups: dict[GroupKey, int] = {}
        group_of: list[int] = []
        bad: list[str] = []
        for row in _rows(path, task, prompts):
            if isinstance(row, RolloutRow):
                group_of.append(groups.setdefault(row.group, len(groups)))
            else:
                bad.append(row)
        first = "\n  ".join(bad[:_SHOWN]) + f"\n... and {len(bad) - _SHOWN} more" * (len(bad) > _SHOWN)
        if bad and not skip_bad_rows:
            raise InputError(
                f"{len(bad)} of {len(group_of) + len(bad)} rows of {path} cannot be scored",
                why=first,
                fix="Correct them, or leave them out with --skip-bad-rows.",
            )
        if not group_of:
            raise InputError(f"No row of {path} can be scored", why=first or "It holds no rows.")
        return cls(file_digest(path), groups, group_of, len(bad))


def good_rows(path: Path, task: Task, prompts: Collection[str]) -> Iterator[RolloutRow]:
    """The rows of a file that can be scored, in order; one row is in memory."""
    return (row for row in _rows(path, task, prompts) if isinstance(row, RolloutRow))


def _rows(path: Path, task: Task, prompts: Collection[str]) -> Iterator[RolloutRow | str]:
    """The rows of a file; where one cannot be scored, its place and why."""
    for line in LineReader(path).read(to_the_end=True):
        try:
            yield _row(line, task, prompts)
        except _BadRowError as error:
            yield f"{path}:{line.number}: {error}"


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _finite(text: str) -> float | None:
    """A number of JSON; null where it is too large, as it could not be written again."""
    return value if math.isfinite(value := float(text)) else None


def _row(line: Line, task: Task, prompts: Collection[str]) -> RolloutRow:
    if line.fault:
        raise _BadRowError(line.fault)
    try:
        row = json.loads(line.text.decode("utf-8-sig"), parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise _BadRowError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise _BadRowError(f"expected a JSON object, got {type(row).__name__}")
    given = next((row[name] for name in ID_FIELDS if row.get(name) is not None), None)
    if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
        raise _BadRowError("it has no prompt_id")
    prompt_id = str(given)
    if prompt_id not in prompts:
        raise _BadRowError(f"no prompt has the id {prompt_id[:80]!r}")
    completion = completion_of_row(row)
    if completion is None:
        raise _BadRowError(f"it has no reply ({', '.join(REPLY_FIELDS)})")
    return RolloutRow(row, prompt_id, completion)
