"""Stores every reply before it is used, so that no reply is requested twice.

One SQLite file in WAL mode, shared by any number of processes. One writer thread per process commits the replies
that arrived during its last commit in one transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.llm.quirks import is_failed_finish
from engine.records import ChatRequest, Completion
from engine.storage.sqlite import SharedFileError, database_errors, open_shared_database

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, completion TEXT NOT NULL, stored_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS abilities (
    base_url TEXT NOT NULL, model TEXT NOT NULL, facts TEXT NOT NULL, learnt_at REAL NOT NULL,
    PRIMARY KEY (base_url, model)
);
"""
_BATCHES = """
CREATE TABLE IF NOT EXISTS batches (
    file_id TEXT PRIMARY KEY, batch_id TEXT, base_url TEXT NOT NULL, requests TEXT NOT NULL
)
"""
"""Not part of the schema above: files of earlier versions get this table when they are opened."""
_FORGET_ANSWERED = """
DELETE FROM batches WHERE NOT EXISTS (
    SELECT 1 FROM json_each(requests) WHERE NOT EXISTS (SELECT 1 FROM replies WHERE replies.key = json_each.value)
)
"""
_LINGER_S = 0.002
_MAX_ROWS = 500
"""Maximum number of rows in one statement."""
_UNREADABLE = "Cannot read the response journal"
_NOT_STORED = "Cannot write the response journal; the last replies are not stored"


class JournalError(SharedFileError):
    """The journal cannot be read or written. Replies that were not acknowledged may not be stored."""


def request_keys(
    request: ChatRequest, model: str, extra_body: dict[str, Any], sample_indices: Iterable[int], api: str = "chat"
) -> list[str]:
    """The journal keys of samples of a request: one SHA-256 in hex per index.

    The key covers everything that determines the reply: model, messages, images, sampling, json_schema, extra_body, the
    API unless it is the chat API, and the sample index. Role, purpose, address (a local server may move to another
    port) and API key are not part of it.
    Sampling fields with their default value are left out, so that new fields of ``Sampling`` do not change old keys.
    """
    hashed: dict[str, Any] = {
        "extra_body": extra_body,
        "json_schema": request.json_schema,
        "messages": [[message.role, message.content] for message in request.messages],
        "model": model,
        "sampling": request.sampling.model_dump(exclude_defaults=True),
    }
    if request.images:  # so that the keys of other requests stay the same
        hashed["images"] = [hashlib.sha256(image.encode()).hexdigest() for image in request.images]
    if request.body is not None:
        hashed["body"] = request.body
    if api != "chat":
        hashed["api"] = api
    text = json.dumps(hashed, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    common = text.encode("utf-8", "surrogatepass")
    return [hashlib.sha256(b"%b\n%d" % (common, index)).hexdigest() for index in sample_indices]


@dataclass(frozen=True)
class NotedBatch:
    """A batch of requests whose replies are not all in the journal.

    Args:
        base_url: where it was submitted, as it may be stored.
        file_id: the provider's name of the file of requests.
        requests: custom id of each request -> journal key of its first sample.
        batch_id: the provider's name of the batch; None: it may not be submitted yet.
    """

    base_url: str
    file_id: str
    requests: Mapping[str, str]
    batch_id: str | None = None


@dataclass(slots=True)
class _Row:
    """One reply to be written, and the future of its caller. When it is written, ``completion`` is what is stored."""

    key: str
    completion: Completion
    text: str
    future: asyncio.Future[Completion]


class ResponseJournal:
    """A journal in one SQLite file. Acknowledged replies survive a crash of the process.

    Args:
        path: the SQLite file; its folder is created.

    Raises:
        JournalError: the file cannot be opened or is not a journal.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard = threading.Lock()
        self._wake = threading.Event()
        self._queue: list[_Row] = []
        self._closed = False
        with self._errors("Cannot open the response journal"):
            self._reader = open_shared_database(path, _SCHEMA, _SCHEMA_VERSION)
            self._writing = open_shared_database(path, _SCHEMA, _SCHEMA_VERSION)
            self._reader.execute(_BATCHES)
        self._inode = path.stat().st_ino
        self._thread = threading.Thread(target=self._write_forever, name="response-journal", daemon=True)
        self._thread.start()

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """The stored completions for ``keys``. A row that cannot be parsed or is of a failed call counts as absent.

        In WAL mode readers do not wait for writers, so this reads on the caller's thread.

        Raises:
            JournalError: the file cannot be read.
        """
        found: dict[str, Completion] = {}
        for start in range(0, len(keys), _MAX_ROWS):
            with self._errors(_UNREADABLE), self._guard:
                found |= _select(self._reader, keys[start : start + _MAX_ROWS])
        return found

    def put(self, key: str, completion: Completion) -> asyncio.Future[Completion]:
        """Queue a completion for writing; it is stored even if the caller is cancelled while waiting.

        Args:
            key: of the request and the sample.
            completion: the reply.

        Returns:
            a future that is done when the completion is stored. Its result is the stored completion: this one, or
            the one that another process stored first. It raises JournalError if the completion cannot be stored.
        """
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        row = _Row(key, completion, completion.model_dump_json(exclude_defaults=True), future)
        with self._guard:
            if self._closed:
                raise JournalError(f"The response journal is closed: {self.path}")
            self._queue.append(row)
        self._wake.set()
        return future

    def capabilities(self, base_url: str, model: str, max_age_s: float) -> dict[str, Any]:
        """The capabilities of an endpoint stored in the last ``max_age_s`` seconds; empty if none can be read."""
        sql = "SELECT CAST(facts AS BLOB) FROM abilities WHERE base_url = ? AND model = ? AND learnt_at >= ?"
        with self._errors(_UNREADABLE), self._guard:
            row = self._reader.execute(sql, (base_url, model, time.time() - max_age_s)).fetchone()
        try:
            facts = json.loads(row[0]) if row else {}
        except (ValueError, TypeError, RecursionError):  # a damaged row: what it said is learnt again
            return {}
        return facts if isinstance(facts, dict) else {}

    def remember_capabilities(self, base_url: str, model: str, facts: dict[str, Any]) -> None:
        """Store the capabilities of an endpoint (a JSON object). Rare, so it commits immediately."""
        sql = "INSERT OR REPLACE INTO abilities VALUES (?, ?, ?, ?)"
        with self._errors("Cannot write the response journal"), self._guard:
            self._reader.execute(sql, (base_url, model, json.dumps(facts, sort_keys=True), time.time()))

    def noted_batches(self, base_url: str) -> list[NotedBatch]:
        """The batches at an address, without those whose replies are all stored; these are forgotten."""
        sql = "SELECT base_url, file_id, requests, batch_id FROM batches WHERE base_url = ?"
        with self._errors(_UNREADABLE), self._guard:
            self._reader.execute(_FORGET_ANSWERED)
            rows = self._reader.execute(sql, (base_url,)).fetchall()
        return [NotedBatch(url, file_id, json.loads(requests), batch_id) for url, file_id, requests, batch_id in rows]

    def note_batch(self, batch: NotedBatch) -> None:
        """Store or replace the note of a batch; without requests it is forgotten."""
        row = (batch.file_id, batch.batch_id, batch.base_url, json.dumps(dict(batch.requests)))
        with self._errors("Cannot write the response journal"), self._guard:
            self._reader.execute("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?)", row)
            self._reader.execute(_FORGET_ANSWERED)

    def close(self) -> None:
        """Write the queued replies, then close the file. May be called twice."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
        self._wake.set()
        self._thread.join()
        self._reader.close()
        self._writing.close()

    def _write_forever(self) -> None:
        while True:
            self._wake.wait()
            # Collect more replies for this commit: each statement costs a turn at the interpreter lock.
            time.sleep(_LINGER_S)
            with self._guard:
                self._wake.clear()
                batch, self._queue = self._queue, []
                closed = self._closed
            for start in range(0, len(batch), _MAX_ROWS):
                self._write(batch[start : start + _MAX_ROWS])
            if closed:
                return

    def _write(self, rows: list[_Row]) -> None:
        """Store rows in one statement, which is one transaction, and resolve their futures."""
        now = time.time()
        values = [value for row in rows for value in (row.key, row.text, now)]
        marks = ",".join(["(?,?,?)"] * len(rows))
        sql = f"INSERT OR IGNORE INTO replies VALUES {marks}"  # noqa: S608 - marks only
        failure: JournalError | None = None
        try:
            with self._errors(_NOT_STORED):
                cursor = self._writing.execute(sql, values)
                if not self.path.exists() or self.path.stat().st_ino != self._inode:  # what is written is lost
                    raise OSError("the file was deleted or moved while it was in use, or replaced by another one")
                if cursor.rowcount < len(rows):  # another process stored a reply for the same key first
                    self._use_stored(rows)
        except JournalError as error:
            failure = error
        for row in rows:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so there is no waiting caller
                row.future.get_loop().call_soon_threadsafe(_resolve, row, failure)

    def _use_stored(self, rows: Sequence[_Row]) -> None:
        """Replace the completions of rows by those that are already stored."""
        stored = _select(self._writing, [row.key for row in rows])
        for row in rows:
            if row.key in stored:
                row.completion = stored[row.key]
            else:  # an unreadable row would make every later reply unreadable too
                sql = "INSERT OR REPLACE INTO replies VALUES (?, ?, ?)"
                self._writing.execute(sql, (row.key, row.text, time.time()))

    def _errors(self, what: str) -> contextlib.AbstractContextManager[None]:
        fix = (
            "Check permissions and free disk space, then run the same command again. "
            "A damaged file may be moved away; its replies are then requested again."
        )
        return database_errors(JournalError, f"{what}: {self.path}", fix)


def _select(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, Completion]:
    """The stored completions with these keys.

    Without those that cannot be read, and those of failed calls, as earlier versions stored. Rows are read as bytes:
    SQLite itself refuses text that is not UTF-8, and with it the other rows of a statement.
    """
    marks = ",".join("?" * len(keys))
    sql = f"SELECT key, CAST(completion AS BLOB) FROM replies WHERE key IN ({marks})"  # noqa: S608 - marks only
    found = {}
    for key, text in connection.execute(sql, keys):
        with contextlib.suppress(ValidationError):
            completion = Completion.model_validate_json(text)
            if not is_failed_finish(completion.finish_reason):
                found[key] = completion
    return found


def _resolve(row: _Row, error: JournalError | None) -> None:
    """Tell the caller that a row is stored, or why not. A future that is done is that of a cancelled caller."""
    if error is None and not row.future.done():
        row.future.set_result(row.completion)
    elif error is not None and not row.future.done():
        row.future.set_exception(error)
        row.future.exception()  # marked as retrieved, to avoid a warning if no caller awaits it
