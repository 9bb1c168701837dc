"""Stores every reply before it is used, so that no reply is requested twice.

One SQLite file in WAL mode, shared by any number of processes. A reply is committed at once, which takes less than a
tenth of a millisecond: in this mode a commit does not wait for the disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.errors import ScaffoldError
from engine.llm.quirks import is_failed_finish
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
_MAX_ROWS = 500
"""Maximum number of rows in one statement."""
_UNREADABLE = "Cannot read the response journal"
_NOT_STORED = "Cannot write the response journal; the last reply is not stored"


class JournalError(ScaffoldError, OSError):
    """The journal cannot be read or written. Replies that were not acknowledged may not be stored."""

    exit_code = 2


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


class ResponseJournal:
    """A journal in one SQLite file. Acknowledged replies survive a crash of the process.

    Args:
        path: the SQLite file; its folder is created.

    Raises:
        JournalError: the file cannot be opened or is not a journal.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._errors("Cannot open the response journal"):
            self._database = open_shared_database(path, _SCHEMA, _SCHEMA_VERSION)
            self._database.execute(_BATCHES)
        self._inode = path.stat().st_ino

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """The stored completions for ``keys``.

        Without those that cannot be read, and those of failed calls, as earlier versions stored. Rows are read as
        bytes: SQLite itself refuses text that is not UTF-8, and with it the other rows of a statement.

        Raises:
            JournalError: the file cannot be read.
        """
        completions = {}
        for start in range(0, len(keys), _MAX_ROWS):
            chunk = keys[start : start + _MAX_ROWS]
            marks = ",".join("?" * len(chunk))
            sql = f"SELECT key, CAST(completion AS BLOB) FROM replies WHERE key IN ({marks})"  # noqa: S608 - marks only
            with self._errors(_UNREADABLE):
                rows = self._database.execute(sql, chunk).fetchall()
            for key, text in rows:
                with contextlib.suppress(ValidationError):
                    completion = Completion.model_validate_json(text)
                    if not is_failed_finish(completion.finish_reason):
                        completions[key] = completion
        return completions

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """What is put in the block is stored with one commit, all or nothing. Nothing may wait in it."""
        with self._errors(_NOT_STORED):
            self._database.execute("BEGIN IMMEDIATE")
            with self._database:
                yield

    async def put(self, key: str, completion: Completion) -> Completion:
        """Store a completion.

        Args:
            key: of the request and the sample.
            completion: the reply.

        Returns:
            the stored completion: this one, or the one that another process stored first.

        Raises:
            JournalError: it cannot be stored.
        """
        row = (key, completion.model_dump_json(exclude_defaults=True), time.time())
        with self._errors(_NOT_STORED):
            is_new = self._database.execute("INSERT OR IGNORE INTO replies VALUES (?, ?, ?)", row).rowcount
            if not self.path.exists() or self.path.stat().st_ino != self._inode:  # what is written is lost
                raise OSError("the file was deleted or moved while it was in use, or replaced by another one")
            if not is_new and (stored := self.get_many([key])):
                return stored[key]
            if not is_new:  # an unreadable row would make every later reply unreadable too
                self._database.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", row)
        return completion

    def capabilities(self, base_url: str, model: str, max_age_s: float) -> dict[str, Any]:
        """The capabilities of an endpoint stored in the last ``max_age_s`` seconds; empty if none can be read."""
        sql = "SELECT CAST(facts AS BLOB) FROM abilities WHERE base_url = ? AND model = ? AND learnt_at >= ?"
        with self._errors(_UNREADABLE):
            row = self._database.execute(sql, (base_url, model, time.time() - max_age_s)).fetchone()
        try:
            facts = json.loads(row[0]) if row else {}
        except (ValueError, TypeError, RecursionError):  # a damaged row: what it said is learnt again
            return {}
        return facts if isinstance(facts, dict) else {}

    def remember_capabilities(self, base_url: str, model: str, facts: dict[str, Any]) -> None:
        """Store the capabilities of an endpoint (a JSON object). Rare, so it commits immediately."""
        sql = "INSERT OR REPLACE INTO abilities VALUES (?, ?, ?, ?)"
        with self._errors("Cannot write the response journal"):
            self._database.execute(sql, (base_url, model, json.dumps(facts, sort_keys=True), time.time()))

    def noted_batches(self, base_url: str) -> list[NotedBatch]:
        """The batches at an address, without those whose replies are all stored; these are forgotten."""
        sql = "SELECT base_url, file_id, requests, batch_id FROM batches WHERE base_url = ?"
        with self._errors(_UNREADABLE):
            self._database.execute(_FORGET_ANSWERED)
            rows = self._database.execute(sql, (base_url,)).fetchall()
        return [NotedBatch(url, file_id, json.loads(requests), batch_id) for url, file_id, requests, batch_id in rows]

    def note_batch(self, batch: NotedBatch) -> None:
        """Store or replace the note of a batch; without requests it is forgotten."""
        row = (batch.file_id, batch.batch_id, batch.base_url, json.dumps(dict(batch.requests)))
        with self._errors("Cannot write the response journal"):
            self._database.execute("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?)", row)
            self._database.execute(_FORGET_ANSWERED)

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._database.close()

    @contextlib.contextmanager
    def _errors(self, failure: str) -> Iterator[None]:
        """Raise what SQLite or the disk reports in the block as an error of the journal."""
        try:
            yield
        except (sqlite3.Error, OSError, MemoryError) as error:
            fix = (
                "Check permissions and free disk space, then run the same command again. "
                "A damaged file may be moved away; its replies are then requested again."
            )
            raise JournalError(f"{failure}: {self.path}", why=str(error), fix=fix) from error
