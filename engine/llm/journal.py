"""Nothing that was paid for is paid for twice: every reply is stored before anyone uses it.

One SQLite file in WAL mode, shared by any number of processes. One writer thread a process commits what has
gathered while its last commit ran, so that many replies share one transaction.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.errors import ScaffoldError
from engine.records import ChatRequest, Completion
from engine.storage.sqlite import open_shared_database

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, completion TEXT NOT NULL, stored_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS abilities (
    base_url TEXT NOT NULL, model TEXT NOT NULL, facts TEXT NOT NULL, learnt_at REAL NOT NULL,
    PRIMARY KEY (base_url, model)
);
"""
_LINGER_S = 0.002
_ROWS_A_STATEMENT = 500


class JournalError(ScaffoldError, OSError):
    """The journal cannot be read or written. What was not acknowledged is not stored."""

    exit_code = 2

    def __str__(self) -> str:  # OSError would print its errno fields instead
        return "\n".join(part for part in (self.what, self.why, self.fix) if part)


def request_keys(
    request: ChatRequest, model: str, extra_body: dict[str, Any], sample_indices: Iterable[int]
) -> list[str]:
    """The journal's keys of some samples of a request: sha256 in hex, one for each index.

    The key covers model, messages, sampling, json_schema, extra_body and the sample index: what decides the
    reply. It leaves out the role and the purpose (the same call is the same call), the address (a
    local server on another port must not be paid again) and the API key. Fields that stand at their default
    are left out too, so that a field that is added to ``Sampling`` one day does not change old keys.
    """
    asked = {
        "extra_body": extra_body,
        "json_schema": request.json_schema,
        "messages": [[message.role, message.content] for message in request.messages],
        "model": model,
        "sampling": request.sampling.model_dump(exclude_defaults=True),
    }
    text = json.dumps(asked, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    common = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    keys = []
    for index in sample_indices:
        digest = common.copy()
        digest.update(b"\n%d" % index)
        keys.append(digest.hexdigest())
    return keys


class _Entry:
    """One reply on its way to the disk, and who waits for it."""

    __slots__ = ("completion", "future", "key", "loop", "text")

    def __init__(self, key: str, completion: Completion) -> None:
        self.key = key
        self.completion = completion
        self.text = completion.model_dump_json(exclude_defaults=True)
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Completion] = self.loop.create_future()


class ResponseJournal:
    """The journal of one file.

    What was acknowledged survives the death of the process at any moment.

    Args:
        path: the SQLite file; its folder is made.

    Raises:
        JournalError: the file cannot be opened or is no journal.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard = threading.Lock()
        self._wake = threading.Event()
        self._queue: list[_Entry] = []
        self._closed = False
        try:
            self._reader = open_shared_database(path, _SCHEMA, _SCHEMA_VERSION)
            self._writing = open_shared_database(path, _SCHEMA, _SCHEMA_VERSION)
        except (sqlite3.Error, OSError) as error:
            raise self._error("cannot be opened", error) from error
        self._thread = threading.Thread(target=self._write_forever, name="request-journal", daemon=True)
        self._thread.start()

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """The stored completions among ``keys``. A row that cannot be read counts as absent.

        Reading never waits for a writer (WAL), so it is done right here, on the caller's thread.

        Raises:
            JournalError: the file cannot be read.
        """
        found: dict[str, Completion] = {}
        for start in range(0, len(keys), _ROWS_A_STATEMENT):
            part = keys[start : start + _ROWS_A_STATEMENT]
            marks = ",".join("?" * len(part))
            sql = f"SELECT key, completion FROM replies WHERE key IN ({marks})"  # noqa: S608 - marks only
            try:
                with self._guard:
                    rows = self._reader.execute(sql, part).fetchall()
            except sqlite3.Error as error:
                raise self._error("cannot be read", error) from error
            for key, text in rows:
                completion = _decode(text)
                if completion is not None:
                    found[key] = completion
        return found

    def put(self, key: str, completion: Completion) -> asyncio.Future[Completion]:
        """Store a completion. The future is done when it is stored.

        The entry is on its way when this returns: a caller that is cancelled while it waits loses nothing.

        Returns:
            what the journal holds now: this completion, or the one that another process stored first.
            The future raises JournalError where it could not be stored.
        """
        entry = _Entry(key, completion)
        with self._guard:
            if self._closed:
                raise JournalError(f"The request journal is closed: {self.path}")
            self._queue.append(entry)
        self._wake.set()
        return entry.future

    def capabilities(self, base_url: str, model: str, max_age_s: float) -> dict[str, Any]:
        """What was learnt about an endpoint in the last ``max_age_s`` seconds; empty where nothing was."""
        sql = "SELECT facts FROM abilities WHERE base_url = ? AND model = ? AND learnt_at >= ?"
        try:
            with self._guard:
                row = self._reader.execute(sql, (base_url, model, time.time() - max_age_s)).fetchone()
        except sqlite3.Error as error:
            raise self._error("cannot be read", error) from error
        facts = json.loads(row[0]) if row else {}
        return facts if isinstance(facts, dict) else {}

    def remember_capabilities(self, base_url: str, model: str, facts: dict[str, Any]) -> None:
        """Store what an endpoint can do (a JSON object). Rare, so it commits at once."""
        sql = "INSERT OR REPLACE INTO abilities VALUES (?, ?, ?, ?)"
        try:
            with self._guard:
                self._reader.execute(sql, (base_url, model, json.dumps(facts, sort_keys=True), time.time()))
        except sqlite3.Error as error:
            raise self._error("cannot be written", error) from error

    def close(self) -> None:
        """Write what is queued, then close the file. May be called twice."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
        self._wake.set()
        self._thread.join()
        self._reader.close()
        self._writing.close()

    # -------------------------------------------------------------- the writer

    def _write_forever(self) -> None:
        while True:
            self._wake.wait()
            # A moment for others to join the commit. They would wait for the next one otherwise, and each
            # statement costs this thread a turn at the interpreter's lock.
            time.sleep(_LINGER_S)
            with self._guard:
                self._wake.clear()
                batch, self._queue = self._queue, []
                closed = self._closed
            for start in range(0, len(batch), _ROWS_A_STATEMENT):
                self._write(batch[start : start + _ROWS_A_STATEMENT])
            if closed:
                return

    def _write(self, batch: list[_Entry]) -> None:
        """Store a batch by one statement, which is one transaction, and tell those who wait."""
        now = time.time()
        values = [value for entry in batch for value in (entry.key, entry.text, now)]
        marks = ",".join(["(?,?,?)"] * len(batch))
        try:
            cursor = self._writing.execute(
                f"INSERT OR IGNORE INTO replies VALUES {marks}",  # noqa: S608 - marks only
                values,
            )
            if cursor.rowcount < len(batch):  # another process asked the same: its reply came first and stays
                self._take_over(batch)
        except (sqlite3.Error, MemoryError) as error:
            _tell(batch, self._error("cannot be written; the last replies are not stored", error))
        else:
            _tell(batch, None)

    def _take_over(self, batch: list[_Entry]) -> None:
        marks = ",".join("?" * len(batch))
        sql = f"SELECT key, completion FROM replies WHERE key IN ({marks})"  # noqa: S608 - marks only
        stored = dict(self._writing.execute(sql, [entry.key for entry in batch]).fetchall())
        for entry in batch:
            first = _decode(stored.get(entry.key, ""))
            if first is not None:
                entry.completion = first
            else:  # a row that nobody can read any more would hide every later reply
                mend = "INSERT OR REPLACE INTO replies VALUES (?, ?, ?)"
                self._writing.execute(mend, (entry.key, entry.text, time.time()))

    def _error(self, what: str, error: Exception) -> JournalError:
        return JournalError(
            f"The request journal {what}: {self.path}",
            why=str(error),
            fix="Free disk space or mend the folder's permissions, then give the same command again. "
            "A damaged file may be moved away: its replies are then paid for again.",
        )


def _decode(text: str) -> Completion | None:
    try:
        return Completion.model_validate_json(text)
    except ValidationError:
        return None


def _tell(batch: list[_Entry], error: JournalError | None) -> None:
    """Wake the waiting, once per event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[_Entry]] = {}
    for entry in batch:
        loops.setdefault(entry.loop, []).append(entry)
    for loop, entries in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, entries, error)
        except RuntimeError:  # the loop is closed: nobody waits any more, and the reply is stored
            continue


def _resolve(entries: list[_Entry], error: JournalError | None) -> None:
    for entry in entries:
        if entry.future.done():  # its caller was cancelled
            continue
        if error is None:
            entry.future.set_result(entry.completion)
        else:
            entry.future.set_exception(error)
            entry.future.exception()  # whoever waits raises it; nobody else need hear of it
