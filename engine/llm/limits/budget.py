"""Limits on tokens and money: the highest possible cost of an attempt is reserved before it is sent.

An attempt that ends without a known usage, because no reply arrived or it cannot be read, costs what it reserved.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import BudgetExceededError, ConfigurationError
from engine.storage.process_identity import ProcessIdentity
from engine.storage.sqlite import SharedFileError, database_errors, open_shared_database


@dataclass(frozen=True)
class Hold:
    """The amounts that one attempt has reserved."""

    tokens: int
    usd: float
    row: int = 0


class Budget:
    """Tracks spent and reserved amounts and refuses requests that could exceed a limit. For one event loop.

    Args:
        usd: limit in USD; None: unlimited.
        tokens: limit on prompt and completion tokens together; None: unlimited.
    """

    def __init__(self, usd: float | None = None, tokens: int | None = None) -> None:
        self.usd, self.tokens = usd, tokens
        self.spent_usd = 0.0
        self.spent_tokens = 0
        self._held_usd = 0.0
        self._held_tokens = 0
        self._unread, self._unread_tokens, self._unread_usd = 0, 0, 0.0
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.usd is not None or self.tokens is not None

    async def hold(self, tokens: int, usd: float | None) -> Hold:
        """Reserve the highest possible cost of an attempt. Waits while attempts in flight hold the remaining budget.

        Args:
            tokens: upper bound of prompt and completion tokens.
            usd: upper bound of their price; None if the endpoint has no prices.

        Raises:
            BudgetExceededError: the attempt could exceed a limit even if all attempts in flight cost nothing.
            ConfigurationError: ``usd`` is limited and the endpoint has no prices.
        """
        waiter: asyncio.Future[None] | None = None
        try:
            while (hold := self.try_hold(tokens, usd)) is None:
                first_time = waiter is None
                waiter = asyncio.get_running_loop().create_future()
                if first_time:
                    self._waiters.append(waiter)
                else:  # it was first in the queue and keeps its place
                    self._waiters.appendleft(waiter)
                await waiter
        finally:
            self._wake_next()  # also after an error: the next request may be smaller
        return hold

    def try_hold(self, tokens: int, usd: float | None) -> Hold | None:
        """As :meth:`hold`; None where that would wait."""
        if self.usd is not None and usd is None:
            raise ConfigurationError(
                "--budget-usd requires prices",
                why="The endpoint has no price_in and price_out, so the cost is unknown.",
                fix="Add both to its entry in the API configuration, or use --budget-tokens.",
            )
        return self._reserve(Hold(tokens, usd or 0.0))

    def settle(self, hold: Hold, tokens: int, usd: float | None) -> None:
        """Release the reservation and record what the attempt actually cost."""
        self._held_tokens -= hold.tokens
        self._held_usd -= hold.usd
        self.spent_tokens += tokens
        self.spent_usd += usd or 0.0
        self._count_unread(hold, tokens, usd)
        self._wake_next()

    def _count_unread(self, hold: Hold, tokens: int, usd: float | None) -> None:
        """Count an attempt whose usage is not known: it costs what it reserved."""
        if 0 < tokens == hold.tokens and (usd or 0.0) == hold.usd:
            self._unread += 1
            self._unread_tokens += hold.tokens
            self._unread_usd += hold.usd

    def _of_unread(self, amount: str) -> str:
        attempts = f"{self._unread} attempt{'s' if self._unread > 1 else ''}"
        return f", {amount} of these for {attempts} whose usage is not known, at the most they may have cost"

    def _reserve(self, hold: Hold) -> Hold | None:
        if not self._fits(hold.tokens, hold.usd):
            raise self._exceeded(hold)
        if not self._fits(self._held_tokens + hold.tokens, self._held_usd + hold.usd):
            return None
        self._held_tokens += hold.tokens
        self._held_usd += hold.usd
        return hold

    def _wake_next(self) -> None:
        """Wake the first waiter; it wakes the next one when it has finished."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _fits(self, more_tokens: int, more_usd: float) -> bool:
        within_tokens = self.tokens is None or self.spent_tokens + more_tokens <= self.tokens
        within_usd = self.usd is None or self.spent_usd + more_usd <= self.usd + 1e-12
        return within_tokens and within_usd

    def close(self) -> None:
        """Release what the budget holds open."""

    def _exceeded(self, hold: Hold) -> BudgetExceededError:
        limits = []
        if self.tokens is not None:
            unread = self._of_unread(f"{self._unread_tokens}") if self._unread else ""
            limits.append(
                f"spent: {self.spent_tokens} tokens of {self.tokens}{unread}; the next request may use "
                f"{hold.tokens} tokens"
            )
        if self.usd is not None:
            unread = self._of_unread(f"{self._unread_usd:.4f}") if self._unread else ""
            limits.append(
                f"spent: {self.spent_usd:.4f} USD of {self.usd:g}{unread}; the next request may use {hold.usd:.4f} USD"
            )
        return BudgetExceededError(
            "Budget exhausted: the next request could exceed it",
            why="; ".join(limits),
            fix="Raise --budget-usd or --budget-tokens, or lower --max-tokens, which bounds a request. The same "
            "command resumes from here.",
        )


_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS spent (tokens INTEGER NOT NULL, usd REAL NOT NULL);
INSERT INTO spent SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM spent);
CREATE TABLE IF NOT EXISTS holds (
    id INTEGER PRIMARY KEY, machine TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL,
    tokens INTEGER NOT NULL, usd REAL NOT NULL
);
"""
_POLL_S = 0.2


class BudgetFileError(SharedFileError):
    """The budget file cannot be read or written."""


class SharedBudget(Budget):
    """A budget whose amounts are in a file: one limit for all processes and starts that use the file.

    What a killed process had reserved counts as spent: its requests were in flight.

    Args:
        path: the SQLite file; it is created. Deleting it while no run is active starts from 0.
        usd: as in :class:`Budget`.
        tokens: as in :class:`Budget`.
    """

    def __init__(self, path: Path, usd: float | None = None, tokens: int | None = None) -> None:
        super().__init__(usd, tokens)
        self.path = path
        self._process = ProcessIdentity.current()
        with self._errors():
            self._file = open_shared_database(path, _SCHEMA, _SCHEMA_VERSION)
            self._read()

    def settle(self, hold: Hold, tokens: int, usd: float | None) -> None:
        """As in :class:`Budget`, for all processes."""
        with self._errors():
            self._file.execute("BEGIN IMMEDIATE")
            self._file.execute("DELETE FROM holds WHERE id = ?", (hold.row,))
            self._file.execute("UPDATE spent SET tokens = tokens + ?, usd = usd + ?", (tokens, usd or 0.0))
            self._file.execute("COMMIT")
            self._read()
        self._count_unread(hold, tokens, usd)
        self._wake_next()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    async def hold(self, tokens: int, usd: float | None) -> Hold:
        """As in :class:`Budget`. Also waits while requests of other processes hold the remaining budget."""
        while (hold := self.try_hold(tokens, usd)) is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await asyncio.wait({waiter}, timeout=_POLL_S)
            with contextlib.suppress(ValueError):
                self._waiters.remove(waiter)
        return hold

    def _reserve(self, hold: Hold) -> Hold | None:
        """Reserve beside what other processes hold."""
        with self._errors():
            self._file.execute("BEGIN IMMEDIATE")
            try:
                self._settle_the_dead()
                self._read()
                if super()._reserve(hold) is None:
                    return None
                row = (*self._process, hold.tokens, hold.usd)
                sql = "INSERT INTO holds (machine, pid, started, tokens, usd) VALUES (?, ?, ?, ?, ?)"
                return replace(hold, row=self._file.execute(sql, row).lastrowid or 0)
            finally:
                self._file.execute("COMMIT")

    def _settle_the_dead(self) -> None:
        """Count the reservations of processes that have ended as spent."""
        rows = self._file.execute("SELECT id, machine, pid, started, tokens, usd FROM holds").fetchall()
        for row, machine, pid, started, tokens, usd in rows:
            if machine == self._process.machine and not ProcessIdentity(machine, pid, started).alive:
                self._file.execute("DELETE FROM holds WHERE id = ?", (row,))
                self._file.execute("UPDATE spent SET tokens = tokens + ?, usd = usd + ?", (tokens, usd))

    def _read(self) -> None:
        self.spent_tokens, self.spent_usd = self._file.execute("SELECT tokens, usd FROM spent").fetchone()
        held = self._file.execute("SELECT total(tokens), total(usd) FROM holds").fetchone()
        self._held_tokens, self._held_usd = int(held[0]), held[1]

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        fix = "Check permissions and free disk space, or pass another --budget-file."
        return database_errors(BudgetFileError, f"Cannot use the budget file {self.path}", fix)
