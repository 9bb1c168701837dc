"""When the journal of a folder stored its replies. It is opened read-only, so that a run is never kept waiting."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

NAME = "requests.sqlite"
_MOST_KEYS = 500
_WAIT_S = 0.2
_LATEST = 1e11
"""A later moment is none: the journal is damaged."""


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The journal for the length of a block, to read."""
    uri = f"{path.resolve().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_WAIT_S)) as database:
        yield database


def moments_between(path: Path, start: float, end: float) -> list[float]:
    """The moments in seconds since 1970 at which replies were stored; empty if the journal cannot be read."""
    sql = "SELECT key, stored_at FROM replies WHERE stored_at BETWEEN ? AND ?"
    return [moment for _, moment in _moments(path, sql, (start, end))]


def moments_of(path: Path, keys: Sequence[str]) -> dict[str, float]:
    """Request key -> the moment at which its reply was stored; without those that the journal does not have."""
    wanted = [key for key in dict.fromkeys(keys) if key][:_MOST_KEYS]
    marks = ",".join("?" * len(wanted))
    sql = f"SELECT key, stored_at FROM replies WHERE key IN ({marks})"  # noqa: S608 - marks only
    return {key: moment for key, moment in _moments(path, sql, wanted) if 0 < moment < _LATEST}


def _moments(path: Path, sql: str, parameters: Sequence[float | str]) -> list[tuple[str, float]]:
    """Key and moment of each row; none if the journal cannot be read."""
    if not path.is_file():
        return []
    try:
        with opened(path) as database:
            return [(str(key), float(moment)) for key, moment in database.execute(sql, parameters)]
    except (sqlite3.Error, TypeError, ValueError):
        return []
