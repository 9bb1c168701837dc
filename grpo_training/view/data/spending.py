"""Who has spent what: the replies of a journal by role. Reads only what was stored since the last call."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from engine.storage.file_stamp import file_stamp
from engine.storage.summaries import Usage
from grpo_training.view.data.journal import opened

_ROWS = 1000
"""Rows of one statement, after which the time is looked at."""
_MOST_NAMES = 100
"""Of more roles and models than this, the others are one line."""
_LONGEST_NAME = 200


class _Reply(msgspec.Struct):
    role: str | None = ""
    purpose: str | None = ""
    model: str | None = ""
    usage: Usage | None = None


_DECODER = msgspec.json.Decoder(_Reply)


@dataclass(frozen=True)
class Asker:
    """Who asked which model for what. ``role`` and ``purpose`` are empty in rows of earlier versions."""

    role: str
    purpose: str
    model: str


@dataclass(frozen=True)
class Spent:
    """What the replies of an asker used; ``cost_usd`` is None if none of them has a price."""

    replies: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None

    def plus(self, usage: Usage) -> Spent:
        """With one more reply."""
        cost = self.cost_usd if usage.cost_usd is None else (self.cost_usd or 0.0) + usage.cost_usd
        return Spent(
            self.replies + 1,
            self.prompt_tokens + (usage.prompt_tokens or 0),
            self.completion_tokens + (usage.completion_tokens or 0),
            cost,
        )


class Spending:
    """The sums of one journal. May be used from several threads.

    Args:
        path: the journal; it need not exist.
        clock: monotonic time in seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._guard = threading.Lock()
        self._inode = 0
        self._spent: dict[Asker, Spent] = {}
        self.read = 0
        """The number of the last row that was read."""
        self.is_complete = True
        """Whether all rows were read that were stored at the last update."""

    def update(self, budget_s: float | None = None) -> list[tuple[Asker, Spent]]:
        """Read what was stored since the last call; the sums, those with the most tokens first.

        A journal that cannot be read has none.

        Args:
            budget_s: stop after about this many seconds; None reads to the end.
        """
        deadline = None if budget_s is None else self._clock() + budget_s
        with self._guard:
            self._forget_another_file()
            with suppress(sqlite3.Error):
                self._read(deadline)
            return sorted(
                self._spent.items(), key=lambda one: (-one[1].prompt_tokens - one[1].completion_tokens, str(one[0]))
            )

    def _forget_another_file(self) -> None:
        stamp = file_stamp(self._path)
        inode = 0 if stamp is None else stamp[0]
        if inode != self._inode:
            self._inode, self.read, self._spent, self.is_complete = inode, 0, {}, True

    def _read(self, deadline: float | None) -> None:
        if not self._inode:
            return
        sql = "SELECT rowid, CAST(completion AS BLOB) FROM replies WHERE rowid > ? ORDER BY rowid LIMIT ?"
        with opened(self._path) as database:
            while True:
                rows = database.execute(sql, (self.read, _ROWS)).fetchall()
                for number, text in rows:
                    self.read = number
                    self._add(text)
                self.is_complete = len(rows) < _ROWS
                if self.is_complete or (deadline is not None and self._clock() > deadline):
                    return

    def _add(self, text: bytes) -> None:
        try:
            reply = _DECODER.decode(text)
        except (msgspec.MsgspecError, TypeError):  # a damaged row is asked for again and stored as another one
            return
        names = [(name or "")[:_LONGEST_NAME] for name in (reply.role, reply.purpose, reply.model)]
        asker = Asker(*names)
        if asker not in self._spent and len(self._spent) >= _MOST_NAMES:
            asker = replace(asker, role="", model="")
        self._spent[asker] = self._spent.get(asker, Spent()).plus(reply.usage or Usage())
