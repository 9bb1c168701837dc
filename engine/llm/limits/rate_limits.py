"""A ledger of an endpoint's limits for all processes: slots, requests and tokens per minute, usage totals.

Processes lease in blocks: a request needs no transaction, only an exchange about once a second does. The lease of
a process that died is reclaimed at the next exchange of another process.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from engine.api_manager import Endpoint
from engine.storage.process_identity import ProcessIdentity
from engine.storage.sqlite import SharedFileError, database_errors, open_shared_database

WINDOW_S = 60.0
MARGIN_S = 0.5
"""Requests count for this much longer than a minute: they do not all take the same time to reach the server."""
_LONGEST_PAUSE_S = 3600.0
"""A longer pause in the file was written before the machine was started again, or by an earlier version."""
_STALE_S = 60.0
_AHEAD_S = 0.1
"""Corrections may be ahead of the exchange by the width of their time slots."""
SLOT_S = 0.05
"""Uses are counted by slots of this length, so that the rows of a minute do not grow with its requests."""
_SCHEMA_VERSION = 2
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
DROP TABLE IF EXISTS grants;
CREATE TABLE IF NOT EXISTS uses (
    scope TEXT NOT NULL, slot INTEGER NOT NULL, requests INTEGER NOT NULL, tokens INTEGER NOT NULL,
    PRIMARY KEY (scope, slot)
) WITHOUT ROWID;
"""
_ADD_USE = """
INSERT INTO uses VALUES (?, ?, ?, ?) ON CONFLICT (scope, slot)
DO UPDATE SET requests = requests + excluded.requests, tokens = tokens + excluded.tokens
"""
_HOLDERS = """
SELECT machine, pid, started, demand, count(*), sum(holder < ?), sum(held) FROM holders WHERE scope = ?
GROUP BY machine, pid, started, demand
"""


class LedgerError(SharedFileError):
    """The ledger cannot be read or written."""


@dataclass(frozen=True)
class RateLimits:
    """The limits of an endpoint over all processes; None: unlimited."""

    max_concurrency: int | None = None
    rpm: int | None = None
    tpm: int | None = None

    @classmethod
    def of(cls, endpoint: Endpoint) -> RateLimits:
        """The limits of an endpoint."""
        most = endpoint.max_concurrency
        return cls(most and most + endpoint.extra_concurrency, endpoint.rpm, endpoint.tpm)

    @property
    def any(self) -> bool:
        """Whether there is at least one limit."""
        return self != RateLimits()


class Correction(NamedTuple):
    """A change of an earlier grant. It takes the grant's time, so both leave the one-minute window together."""

    granted_at: float
    requests: int
    tokens: int


@dataclass(frozen=True)
class LeaseRequest:
    """What a holder reports and asks for. Without demand, the holder's slots are returned.

    Args:
        holder: distinguishes the holders of one process.
        in_use: requests of this holder in flight.
        demand: slots that it could use now, including those in flight.
        requests: number of requests to grant.
        tokens: number of tokens to grant.
        min_tokens: grant no tokens if fewer than these are free.
        corrections: changes of earlier grants.
    """

    holder: str = ""
    in_use: int = 0
    demand: int = 0
    requests: int = 0
    tokens: int = 0
    min_tokens: int = 0
    corrections: tuple[Correction, ...] = ()


@dataclass
class Grant:
    """What a holder may use until its next exchange. The holder counts ``requests`` and ``tokens`` down.

    Args:
        slots: maximum number of requests in flight.
        requests: granted requests.
        tokens: granted tokens.
        granted_at: the time they count from, in seconds since the epoch.
        retry_in_s: seconds after which more requests may fit into the one-minute window.
        renew_in_s: seconds between the exchanges of an active holder that waits for nothing.
    """

    slots: int = 0
    requests: int = 0
    tokens: int = 0
    granted_at: float = 0.0
    retry_in_s: float = 0.0
    renew_in_s: float = 1.0


class RateLedger:
    """The ledger in one SQLite file. Every method is one short transaction and may be called from any thread.

    Args:
        path: the SQLite file; its folder is created. The file may be deleted while no run is active.
        clock: seconds, the same for all processes; by default since the machine was started, so that setting the
            clock of the machine changes nothing.
    """

    def __init__(self, path: Path, clock: Callable[[], float] | None = None) -> None:
        self.path = path
        self.clock = clock or machine_clock
        self._guard = threading.Lock()
        self._process = ProcessIdentity.current()
        self._holder_prefix = uuid.uuid4().hex
        with self._errors():
            self._connection = open_shared_database(path, _SCHEMA, _SCHEMA_VERSION)
            self._run("INSERT INTO salt SELECT ? WHERE NOT EXISTS (SELECT 1 FROM salt)", os.urandom(16))
            self._salt = bytes(self._run("SELECT value FROM salt")[0])

    def scope(self, endpoint: Endpoint) -> str:
        """The id of (address, model, key) in this ledger: a hash keyed by the file's salt, which hides the key."""
        return scope_id(endpoint, self._salt)

    def exchange(self, scope: str, limits: RateLimits, request: LeaseRequest) -> Grant:
        """Report usage and lease what is free.

        Slots are shared max-min fairly among the holders with demand; a holder above its share keeps its requests
        in flight and shrinks as they end. Any window of 60.5 s contains at most ``rpm`` granted requests and ``tpm``
        granted tokens; corrections move them from the time of the grant to the time of sending.

        Raises:
            LedgerError: the file cannot be used.
        """
        with self._errors(), self._guard:
            self._run("BEGIN IMMEDIATE")
            try:
                grant = self._grant(scope, limits, request)
                self._run("COMMIT")
            except BaseException:
                self._run("ROLLBACK")
                raise
        return grant

    def pause(self, scope: str, seconds: float) -> None:
        """Pause the endpoint in all processes for ``seconds``. A longer pause in place is kept."""
        if seconds > self.pause_left_s(scope):
            self._update_scope(scope, "not_before = ?", self.clock() + min(seconds, _LONGEST_PAUSE_S))

    def pause_left_s(self, scope: str) -> float:
        """Seconds until the end of the endpoint's pause; 0 without a pause."""
        left = float(self._read_scope(scope)[0]) - self.clock()
        return left if 0 < left <= _LONGEST_PAUSE_S else 0.0

    def add_spent(self, scope: str, tokens: int, usd: float) -> None:
        """Add to the endpoint's usage totals."""
        self._update_scope(scope, "tokens = tokens + ?, usd = usd + ?", tokens, usd)

    def spent(self, scope: str) -> tuple[int, float]:
        """Tokens and USD of all processes so far."""
        _, tokens, usd = self._read_scope(scope)
        return int(tokens), float(usd)

    def close(self) -> None:
        """Close the file."""
        with self._guard:
            self._connection.close()

    def _grant(self, scope: str, limits: RateLimits, request: LeaseRequest) -> Grant:
        now = self.clock()
        for granted_at, *counts in request.corrections:
            self._run(_ADD_USE, scope, _slot(granted_at), *counts)
        slots = self._lease_slots(scope, limits.max_concurrency, request, now)
        # Times in the future are of a clock that was set back, or of before the machine was started again.
        ahead = "FROM uses WHERE scope = ? AND slot > ?", scope, _slot(now + _AHEAD_S)
        later = self._run("SELECT total(requests), total(tokens) " + ahead[0], *ahead[1:])
        if any(later):
            self._run("DELETE " + ahead[0], *ahead[1:])
            self._run(_ADD_USE, scope, _slot(now), *map(int, later))
        window_s = WINDOW_S + MARGIN_S
        self._run("DELETE FROM uses WHERE scope = ? AND slot * ? <= ?", scope, SLOT_S, now - window_s)
        totals = "SELECT total(requests), total(tokens), min(slot) FROM uses WHERE scope = ?"
        used_requests, used_tokens, oldest = self._run(totals, scope)
        requests = _free(request.requests, limits.rpm, int(used_requests))
        tokens = _free(request.tokens, limits.tpm, int(used_tokens))
        if tokens < request.min_tokens:
            tokens = 0
        if requests or tokens:
            self._run(_ADD_USE, scope, _slot(now), requests, tokens)
        retry_in_s = max(0.0, (now if oldest is None else oldest * SLOT_S) + window_s - now)
        return Grant(slots, requests, tokens, now, retry_in_s)

    def _lease_slots(self, scope: str, total: int | None, request: LeaseRequest, now: float) -> int:
        me, name = self._process, f"{self._holder_prefix}/{request.holder}"
        self._run(
            "DELETE FROM holders WHERE scope = ? AND (holder = ? OR beat NOT BETWEEN ? AND ?)",
            *(scope, name, now - _STALE_S, now + _STALE_S),
        )
        alive = {me: True}
        held, others = 0, []
        for machine, pid, started, *counts, holding in self._connection.execute(_HOLDERS, (name, scope)).fetchall():
            process = ProcessIdentity(machine, pid, started)
            if process not in alive:
                alive[process] = machine != me.machine or process.alive
            if alive[process]:
                others.append(tuple(counts))
                held += holding
            else:
                self._run(
                    "DELETE FROM holders WHERE scope = ? AND machine = ? AND pid = ? AND started = ?", scope, *process
                )
        if total is None:
            return request.demand
        slots = max(0, min(fair_share(total, request.demand, others), total - held))
        if request.in_use or request.demand:
            row = (scope, name, *me, now, max(slots, request.in_use), request.demand)
            self._run("INSERT INTO holders VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *row)
        return slots

    def _update_scope(self, scope: str, assignment: str, *values: float) -> None:
        with self._errors(), self._guard:
            self._run("INSERT OR IGNORE INTO scopes (scope) VALUES (?)", scope)
            self._run(f"UPDATE scopes SET {assignment} WHERE scope = ?", *values, scope)  # noqa: S608 - constants

    def _read_scope(self, scope: str) -> tuple[Any, ...]:
        with self._errors(), self._guard:
            return self._run("SELECT not_before, tokens, usd FROM scopes WHERE scope = ?", scope) or (0.0, 0, 0.0)

    def _run(self, sql: str, *values: object) -> tuple[Any, ...]:
        """Execute one statement and return its first row, empty if there is none."""
        row: tuple[Any, ...] | None = self._connection.execute(sql, values).fetchone()
        return row or ()

    def _errors(self) -> AbstractContextManager[None]:
        fix = "Check permissions and free disk space. The file may be deleted while no run is active."
        return database_errors(LedgerError, f"Cannot use the rate ledger {self.path}", fix)


def fair_share(total: int, demand: int, others: Iterable[tuple[int, int, int]]) -> int:
    """The max-min fair share of one holder: no share exceeds its demand, and small demands are met in full.

    The remainder of an even division goes to the first by demand and name, so that all processes compute the same
    shares.

    Args:
        total: slots.
        demand: of this holder.
        others: demands of other holders: the demand, the number of holders, and how many of them come before this one
            by name. A demand may be there several times.
    """
    counts = {demand: 1}
    before = 0  # holders of the same demand
    for wanted, count, earlier in others:
        counts[wanted] = counts.get(wanted, 0) + count
        before += earlier if wanted == demand else 0
    left, holders = total, sum(counts.values())
    for wanted, count in sorted(counts.items()):
        if wanted * holders > left:
            share, remainder = divmod(left, holders)
            before += sum(count for one, count in counts.items() if wanted <= one < demand)
            return share + (before < remainder)
        if wanted == demand:
            break
        left, holders = left - wanted * count, holders - count
    return demand


def scope_id(endpoint: Endpoint, salt: bytes) -> str:
    """16 hex digits for (address, model, key): BLAKE2b keyed with ``salt``."""
    text = "\n".join((endpoint.base_url, endpoint.model, endpoint.api_key.get_secret_value()))
    return hashlib.blake2b(text.encode(), key=salt, digest_size=8).hexdigest()


def machine_clock() -> float:
    """Seconds since the machine was started, including the time in which it was suspended."""
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()


_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def _slot(time_s: float) -> int:
    """The slot of a time."""
    return math.ceil(time_s / SLOT_S - 1e-6)


def _free(wanted: int, limit: int | None, used: int) -> int:
    return wanted if limit is None else max(0, min(wanted, limit - used))
