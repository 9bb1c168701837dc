"""When the journal of a folder stored its replies. It is opened read-only, so that a run is never kept waiting."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

NAME = "requests.sqlite"
_WAIT_S = 0.2


def moments_between(path: Path, start: float, end: float) -> list[float]:
    """The moments in seconds since 1970 at which replies were stored; empty if the journal cannot be read."""
    if not path.is_file():
        return []
    uri = f"{path.resolve().as_uri()}?mode=ro"
    sql = "SELECT stored_at FROM replies WHERE stored_at BETWEEN ? AND ?"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_WAIT_S)) as database:
            return [float(moment) for (moment,) in database.execute(sql, (start, end))]
    except (sqlite3.Error, TypeError, ValueError):
        return []
