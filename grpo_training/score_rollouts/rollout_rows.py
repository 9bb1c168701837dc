"""Reads rollouts of any program: one JSON object per line, with the id of its prompt and one reply."""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.abilities import ScoresForeignRows
from engine.errors import InputError, MissingInputError
from engine.records import Completion
from engine.storage.lines import Line, LineReader
from engine.task import REPLY_FIELDS, Task, completion_of_row

ID_FIELDS = ("prompt_id", "problem_id", "task_id", "id")
_SHOWN = 10

GroupKey = tuple[str, str]
"""``(step, prompt_id)``; the step as JSON text."""


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
class BadRow:
    """A row that cannot be scored, and why. ``prompt_id`` is set if its prompt is unknown."""

    line: int
    why: str
    prompt_id: str = ""


@dataclass
class Survey:
    """What a file of rollouts holds.

    Args:
        digest: SHA-256 of the file.
        groups: group -> its number, in the order of first rows.
        group_of: number of the group of each row.
        bad: the first bad rows, as texts with file and line.
        bad_count: number of bad rows.
        unknown_prompts: ids of unknown prompts -> number of rows.
        repeated_places: rows with the step, prompt and ``group_id`` of an earlier row.
    """

    digest: str = ""
    groups: dict[GroupKey, int] = field(default_factory=dict)
    group_of: array[int] = field(default_factory=lambda: array("l"))
    bad: list[str] = field(default_factory=list)
    bad_count: int = 0
    unknown_prompts: Counter[str] = field(default_factory=Counter)
    repeated_places: int = 0

    @property
    def rows(self) -> int:
        """The number of rows that can be scored."""
        return len(self.group_of)


def read_rows(path: Path, task: Task, prompts: Collection[str]) -> Iterator[RolloutRow | BadRow]:
    """The rows of a file in order, without blank lines; one row is in memory.

    Args:
        path: the file.
        task: reads the replies.
        prompts: the ids of the known prompts.
    """
    for line in LineReader(path).read(to_the_end=True):
        yield _row(line, task, prompts)


def good_rows(path: Path, task: Task, prompts: Collection[str]) -> Iterator[RolloutRow]:
    """The rows of a file that can be scored, in order."""
    return (row for row in read_rows(path, task, prompts) if isinstance(row, RolloutRow))


def survey(path: Path, task: Task, prompts: Collection[str]) -> Survey:
    """Read a file once, without verifying anything.

    Raises:
        MissingInputError: there is no such file.
        InputError: it holds no rows.
    """
    if not path.is_file():
        raise MissingInputError(f"Rollouts file not found: {path}", fix="Give a JSONL file with one reply per row.")
    found = Survey(digest=file_digest(path))
    places: set[int] = set()
    for row in read_rows(path, task, prompts):
        if isinstance(row, BadRow):
            found.bad_count += 1
            if len(found.bad) < _SHOWN:
                found.bad.append(f"{path}:{row.line}: {row.why}")
            if row.prompt_id:
                found.unknown_prompts[row.prompt_id] += 1
            continue
        number = found.groups.setdefault(row.group, len(found.groups))
        found.group_of.append(number)
        if row.row.get("group_id") is not None:
            place = hash((number, str(row.row["group_id"])))
            found.repeated_places += place in places
            places.add(place)
    if not found.rows and not found.bad_count:
        raise InputError(f"{path} holds no rows")
    return found


def check_usable(found: Survey, path: Path, *, skip_bad_rows: bool) -> None:
    """Refuse a file with bad rows, unless they are to be left out.

    Raises:
        InputError: names the first of them with file and line.
    """
    if found.bad_count and not skip_bad_rows:
        more = f"\n... and {found.bad_count - len(found.bad)} more" if found.bad_count > len(found.bad) else ""
        raise InputError(
            f"{found.bad_count} of {found.rows + found.bad_count} rows of {path} cannot be scored",
            why="\n  ".join(found.bad) + more,
            fix="Correct them, or leave them out with --skip-bad-rows.",
        )
    if not found.rows:
        raise InputError(f"No row of {path} can be scored", why="\n  ".join(found.bad))


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _finite(text: str) -> float | None:
    """A number of JSON; null where it is too large, as it could not be written again."""
    return value if math.isfinite(value := float(text)) else None


def _row(line: Line, task: Task, prompts: Collection[str]) -> RolloutRow | BadRow:
    if line.fault:
        return BadRow(line.number, line.fault)
    try:
        row = json.loads(line.text.decode("utf-8-sig"), parse_constant=lambda _: None, parse_float=_finite)
    except UnicodeDecodeError as error:
        return BadRow(line.number, f"not UTF-8 at byte {error.start}")
    except RecursionError:
        return BadRow(line.number, "nested too deeply")
    except ValueError as error:
        return BadRow(line.number, f"not JSON: {error}")
    if not isinstance(row, dict):
        return BadRow(line.number, f"expected a JSON object, got {type(row).__name__}")
    given = next((row[name] for name in ID_FIELDS if row.get(name) is not None), None)
    if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
        return BadRow(line.number, "it has no prompt_id")
    prompt_id = str(given)
    if prompt_id not in prompts:
        return BadRow(line.number, f"no prompt has the id {prompt_id[:80]!r}", prompt_id)
    completion = task.completion_of_row(row) if isinstance(task, ScoresForeignRows) else completion_of_row(row)
    if completion is None:
        return BadRow(line.number, f"it has no reply ({', '.join(REPLY_FIELDS)})")
    return RolloutRow(row, prompt_id, completion)
