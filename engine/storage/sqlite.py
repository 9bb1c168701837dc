"""SQLite files that several processes write concurrently."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

_BUSY_S = 60.0
_RETRY_S = 0.02


def open_shared_database(path: Path, schema: str, version: int) -> sqlite3.Connection:
    """Open a database in WAL mode; create the file and its folder if they do not exist.

    Every statement is a transaction of its own unless ``BEGIN`` is used. A commit survives a crash of the process; a
    power failure may lose the last commits but does not damage the file (``synchronous=NORMAL``). The connection may
    be used from any thread, by one thread at a time.

    Args:
        path: the database file.
        schema: statements that create the tables, each with ``IF NOT EXISTS``: two processes may run them.
        version: format version that this program writes; stored in ``user_version``.

    Raises:
        sqlite3.Error: the file is not a database, cannot be read or written, or has a newer format.
        OSError: the folder cannot be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _switch_to_wal(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        stored = connection.execute("PRAGMA user_version").fetchone()[0]
        if stored > version:
            raise sqlite3.DatabaseError(f"written by a newer version of this program (format {stored})")
        if stored < version:
            connection.executescript(f"BEGIN IMMEDIATE; {schema} PRAGMA user_version={version}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Enable WAL. This statement does not wait for locks as others do, so it is repeated."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            return
