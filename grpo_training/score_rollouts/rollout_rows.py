"""Reads rollouts of any program: one JSON object per line, with the id of its prompt and one reply."""

from __future__ import annotations

import hashlib
import json
import math
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


@dataclass
class Survey:
    """What a file of rollouts holds.

    Args:
        digest: SHA-256 of the file.
        groups: group -> its number, in the order of first rows.
        group_of: number of the group of each row that can be scored.
        bad: the first bad rows, as texts with file and line.
        bad_count: number of bad rows.
    """

    digest: str
    groups: dict[GroupKey, int] = field(default_factory=dict)
    group_of: list[int] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    bad_count: int = 0

    @property
    def rows(self) -> int:
        """The number of rows that can be scored."""
        return len(self.group_of)

    @classmethod
    def of(cls, path: Path, task: Task, prompts: Collection[str]) -> Survey:
        """Read a file once, without verifying anything.

        Args:
            path: the file.
            task: reads the replies.
            prompts: the ids of the known prompts.

        Raises:
            MissingInputError: there is no such file.
            InputError: it holds no rows.
        """
        if not path.is_file():
            raise MissingInputError(f"Rollouts file not found: {path}", fix="Give a JSONL file with one reply per row.")
        survey = cls(file_digest(path))
        for line in LineReader(path).read(to_the_end=True):
            try:
                row = _row(line, task, prompts)
            except _BadRowError as error:
                survey.bad_count += 1
                survey.bad += [f"{path}:{line.number}: {error}"] * (len(survey.bad) < _SHOWN)
            else:
                survey.group_of.append(survey.groups.setdefault(row.group, len(survey.groups)))
        if not survey.rows and not survey.bad_count:
            raise InputError(f"{path} holds no rows")
        return survey

    def check_usable(self, path: Path, *, skip_bad_rows: bool) -> None:
        """Refuse a file with bad rows, unless they are to be left out.

        Raises:
            InputError: names the first of them with file and line.
        """
        if self.bad_count and not skip_bad_rows:
            more = f"\n... and {self.bad_count - len(self.bad)} more" if self.bad_count > len(self.bad) else ""
            raise InputError(
                f"{self.bad_count} of {self.rows + self.bad_count} rows of {path} cannot be scored",
                why="\n  ".join(self.bad) + more,
                fix="Correct them, or leave them out with --skip-bad-rows.",
            )
        if not self.rows:
            raise InputError(f"No row of {path} can be scored", why="\n  ".join(self.bad))


def good_rows(path: Path, task: Task, prompts: Collection[str]) -> Iterator[RolloutRow]:
    """The rows of a file that can be scored, in order; one row is in memory."""
    for line in LineReader(path).read(to_the_end=True):
        try:
            yield _row(line, task, prompts)
        except _BadRowError:
            continue


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
    completion = task.completion_of_row(row) if isinstance(task, ScoresForeignRows) else completion_of_row(row)
    if completion is None:
        raise _BadRowError(f"it has no reply ({', '.join(REPLY_FIELDS)})")
    return RolloutRow(row, prompt_id, completion)
