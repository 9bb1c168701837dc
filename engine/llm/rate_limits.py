"""One ledger of an endpoint's limits for all processes: slots, requests and tokens per minute, money.

Processes lease in blocks: a request costs no transaction, an exchange about once a second does. A lease of a
process that died is taken back at the next exchange of any other.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.api_manager import Endpoint
from engine.errors import ScaffoldError
from engine.storage.sqlite import open_shared_database

WINDOW_S = 60.0
_STALE_S = 60.0
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS salt (value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS scopes (
    scope TEXT PRIMARY KEY, not_before REAL NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0, usd REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS holders (
    scope TEXT NOT NULL, holder TEXT NOT NULL, machine TEXT NOT NULL, pid INTEGER NOT NULL,
    started TEXT NOT NULL, beat REAL NOT NULL, held INTEGER NOT NULL, demand INTEGER NOT NULL,
    PRIMARY KEY (scope, holder)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS grants (
    scope TEXT NOT NULL, granted_at REAL NOT NULL, requests INTEGER NOT NULL, tokens INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS grants_by_time ON grants (scope, granted_at);
"""


class LedgerError(ScaffoldError, OSError):
    """The ledger cannot be read or written."""

    exit_code = 2

    def __str__(self) -> str:  # OSError would print its errno fields instead
        return "\n".join(part for part in (self.what, self.why, self.fix) if part)


@dataclass(frozen=True)
class Limits:
    """What an endpoint allows over all processes; None: no limit of ours."""

    max_concurrency: int | None = None
    rpm: int | None = None
    tpm: int | None = None

    @classmethod
    def of(cls, endpoint: Endpoint) -> Limits:
        """The limits of an endpoint."""
        return cls(endpoint.max_concurrency, endpoint.rpm, endpoint.tpm)

    @property
    def any(self) -> bool:
        """Whether there is anything to share."""
        return self != Limits()


@dataclass(frozen=True)
class LeaseRequest:
    """What a holder asks for at an exchange.

    Args:
        holder: tells the holders of one process apart.
        in_use: requests of this holder in flight.
        demand: slots it could use now, those in flight included.
        requests: sends that it wants to be granted.
        tokens: tokens that it wants to be granted.
        least_tokens: fewer than these are of no use, so none are granted then.
        corrections: (granted_at, requests, tokens) to add to earlier grants; negative: not used.
    """

    holder: str = ""
    in_use: int = 0
    demand: int = 0
    requests: int = 0
    tokens: int = 0
    least_tokens: int = 0
    corrections: tuple[tuple[float, int, int], ...] = ()


@dataclass(frozen=True)
class Grant:
    """What a process may do until the next exchange.

    Args:
        slots: requests in flight at most.
        requests: sends granted now.
        tokens: tokens granted now.
        granted_at: the moment they count from; corrections name it.
        retry_in_s: seconds after which a request that was not granted may fit into the minute.
    """

    slots: int
    requests: int
    tokens: int
    granted_at: float
    retry_in_s: float


class RateLedger:
    """The ledger's file. Every method is one short transaction and may be called from any thread.

    Args:
        path: the SQLite file; its folder is made. It may be deleted when no process runs.
        clock: seconds since the epoch, the same for all processes.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        self._guard = threading.Lock()
        self._identity = _Identity.of_this_process()
        try:
            self._connection = open_shared_database(path, _SCHEMA, _SCHEMA_VERSION)
            self._salt = self._make_salt()
        except (sqlite3.Error, OSError) as error:
            raise self._error(error) from error

    def scope(self, endpoint: Endpoint) -> str:
        """A short id of (address, model, key) that does not tell the key: a hash keyed by this file's salt."""
        return scope_id(endpoint, self._salt)

    def exchange(self, scope: str, limits: Limits, need: LeaseRequest) -> Grant:
        """Report, and lease what is free.

        Slots are shared max-min fairly among the processes that want some; a process above its share keeps
        what is in flight and shrinks as it ends. Requests and tokens are counted over the last minute exactly:
        any window of 60 s holds at most ``rpm`` and ``tpm`` of what was granted.

        Raises:
            LedgerError: the file cannot be used.
        """
        try:
            with self._guard, closing(self._connection.cursor()) as cursor:
                cursor.execute("BEGIN IMMEDIATE")
                try:
                    grant = self._exchange(cursor, scope, limits, need)
                    cursor.execute("COMMIT")
                except BaseException:
                    cursor.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            raise self._error(error) from error
        return grant

    def leave(self, scope: str, corrections: tuple[tuple[float, int, int], ...] = (), holder: str = "") -> None:
        """Give back every slot of a holder of this process."""
        name = self._identity.name_of(holder)
        self._run("DELETE FROM holders WHERE scope = ? AND holder = ?", (scope, name))
        for granted_at, requests, tokens in corrections:
            self._run("INSERT INTO grants VALUES (?, ?, ?, ?)", (scope, granted_at, requests, tokens))

    def push_back(self, scope: str, not_before: float) -> None:
        """Let no process ask this endpoint before ``not_before`` (seconds since the epoch)."""
        sql = (
            "INSERT INTO scopes (scope, not_before) VALUES (?, ?) "
            "ON CONFLICT (scope) DO UPDATE SET not_before = max(not_before, excluded.not_before)"
        )
        self._run(sql, (scope, not_before))

    def not_before(self, scope: str) -> float:
        """The moment before which nobody asks this endpoint; 0 where there is none."""
        row = self._run("SELECT not_before FROM scopes WHERE scope = ?", (scope,))
        return float(row[0]) if row else 0.0

    def add_spent(self, scope: str, tokens: int, usd: float) -> None:
        """Add to the endpoint's totals."""
        sql = (
            "INSERT INTO scopes (scope, tokens, usd) VALUES (?, ?, ?) "
            "ON CONFLICT (scope) DO UPDATE SET tokens = tokens + excluded.tokens, usd = usd + excluded.usd"
        )
        self._run(sql, (scope, tokens, usd))

    def spent(self, scope: str) -> tuple[int, float]:
        """Tokens and USD of all processes so far."""
        row = self._run("SELECT tokens, usd FROM scopes WHERE scope = ?", (scope,))
        return (int(row[0]), float(row[1])) if row else (0, 0.0)

    def close(self) -> None:
        """Close the file."""
        with self._guard:
            self._connection.close()

    # -------------------------------------------------------------- inside a transaction

    def _exchange(self, cursor: sqlite3.Cursor, scope: str, limits: Limits, need: LeaseRequest) -> Grant:
        now = self._clock()
        cursor.executemany(
            "INSERT INTO grants VALUES (?, ?, ?, ?)",
            [(scope, at, requests, tokens) for at, requests, tokens in need.corrections],
        )
        slots = self._lease_slots(cursor, scope, limits.max_concurrency, need, now)
        cursor.execute("DELETE FROM grants WHERE scope = ? AND granted_at <= ?", (scope, now - WINDOW_S))
        row = cursor.execute(
            "SELECT total(requests), total(tokens), min(granted_at) FROM grants WHERE scope = ?", (scope,)
        ).fetchone()
        oldest = now if row[2] is None else row[2]
        requests = _granted(need.requests, limits.rpm, int(row[0]))
        tokens = _granted(need.tokens, limits.tpm, int(row[1]))
        if tokens < need.least_tokens:
            tokens = 0
        if requests or tokens:
            cursor.execute("INSERT INTO grants VALUES (?, ?, ?, ?)", (scope, now, requests, tokens))
        return Grant(slots, requests, tokens, now, max(0.0, oldest + WINDOW_S - now))

    def _lease_slots(
        self, cursor: sqlite3.Cursor, scope: str, total: int | None, need: LeaseRequest, now: float
    ) -> int:
        me = self._identity
        name = me.name_of(need.holder)
        others: dict[str, tuple[int, int]] = {}
        rows = cursor.execute(
            "SELECT holder, machine, pid, started, beat, held, demand FROM holders WHERE scope = ?", (scope,)
        ).fetchall()
        for holder, machine, pid, started, beat, held, demand in rows:
            if holder == name:
                continue
            if beat < now - _STALE_S or (machine == me.machine and not _alive(pid, started)):
                cursor.execute("DELETE FROM holders WHERE scope = ? AND holder = ?", (scope, holder))
            else:
                others[holder] = (held, demand)
        if total is None:
            return need.demand
        demands = {holder: demand for holder, (_, demand) in others.items()}
        share = fair_shares(total, {**demands, name: need.demand})[name]
        free = total - sum(held for held, _ in others.values())
        slots = max(0, min(share, free))
        cursor.execute(
            "INSERT OR REPLACE INTO holders VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (scope, name, me.machine, me.pid, me.started, now, max(slots, need.in_use), need.demand),
        )
        return slots

    # -------------------------------------------------------------- the file

    def _make_salt(self) -> bytes:
        sql = "INSERT INTO salt SELECT ? WHERE NOT EXISTS (SELECT 1 FROM salt)"
        self._connection.execute(sql, (os.urandom(16),))
        row = self._connection.execute("SELECT value FROM salt").fetchone()
        return bytes(row[0])

    def _run(self, sql: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
        try:
            with self._guard:
                row: tuple[Any, ...] | None = self._connection.execute(sql, values).fetchone()
                return row
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> LedgerError:
        return LedgerError(
            f"The rate ledger cannot be used: {self.path}",
            why=str(error),
            fix="Free disk space or mend the folder's permissions; the file may be deleted when no run is on.",
        )


# ------------------------------------------------------------------ pure parts


def fair_shares(total: int, demands: Mapping[str, int]) -> dict[str, int]:
    """Max-min fair shares of ``total`` slots: nobody gets more than it asks, small demands are met in full.

    What is left over of an even division goes to the first by name, so that all processes compute the same.
    """
    shares: dict[str, int] = {}
    left = total
    ordered = sorted(demands, key=lambda name: (demands[name], name))
    for position, name in enumerate(ordered):
        share = min(demands[name], -(-left // (len(ordered) - position)) if left > 0 else 0)
        shares[name] = share
        left -= share
    return shares


def scope_id(endpoint: Endpoint, salt: bytes) -> str:
    """16 hex digits for (address, model, key), by BLAKE2b keyed with ``salt``."""
    text = "\n".join((endpoint.base_url, endpoint.model, endpoint.api_key.get_secret_value()))
    return hashlib.blake2b(text.encode(), key=salt, digest_size=8).hexdigest()


def _granted(wanted: int, limit: int | None, used: int) -> int:
    return wanted if limit is None else max(0, min(wanted, limit - used))


@dataclass(frozen=True)
class _Identity:
    """Who holds a lease; enough to see whether that process is still there."""

    ledger: str
    machine: str
    pid: int
    started: str

    def name_of(self, holder: str) -> str:
        """The name in the file of a holder of this process."""
        return f"{self.ledger}/{holder}"

    @classmethod
    def of_this_process(cls) -> _Identity:
        pid = os.getpid()
        try:  # process ids mean something only within one namespace of one machine
            namespace = os.readlink("/proc/self/ns/pid")
        except OSError:
            namespace = ""
        machine = f"{socket.gethostname()}/{namespace}"
        return cls(uuid.uuid4().hex, machine, pid, _start_time(pid))


def _start_time(pid: int) -> str:
    """When a process began, in the kernel's ticks; empty where that cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _alive(pid: int, started: str) -> bool:
    """Whether that very process runs; a reused process id has another start time."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not started or _start_time(pid) in (started, "")
