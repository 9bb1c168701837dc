"""A SQLite file that several processes write at the same time."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

_BUSY_S = 60.0
_RETRY_S = 0.02


def open_shared_database(path: Path, schema: str, version: int) -> sqlite3.Connection:
    """Open a file in WAL mode, making it and its folder where they are not there.

    Every statement is a transaction of its own unless ``BEGIN`` says otherwise. A commit survives the death of
    the process at any moment; a power cut may cost the last ones, never the file (``synchronous=NORMAL``).
    The connection may be used from any thread, one at a time.

    Args:
        schema: statements that make the tables; each ``IF NOT EXISTS``, since two processes may come first.
        version: the format that this program writes; kept in ``user_version``.

    Raises:
        sqlite3.Error: it is no database, it cannot be read or written, or a newer program wrote it.
        OSError: its folder cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _switch_to_wal(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > version:
            raise sqlite3.DatabaseError(f"written by a newer version of this program (format {found})")
        if found < version:
            connection.executescript(f"BEGIN IMMEDIATE; {schema} PRAGMA user_version={version}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """The switch does not wait for others as statements do: it fails at once, so it is repeated here."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_S)
