"""The marker of a complete run: a start that finds everything as the run left it has nothing to read and to ask."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.storage.append_log import replace_file


class CompletionMarker:
    """A file beside the results of a run. It counts only as long as the run's inputs and files are the same.

    A file is the same if its size, the time of its last change and its place on the disk are: a copied or changed one
    is read again. The file may be deleted at any time.

    Args:
        path: the marker.
        run: the id of the run, which stands for its configuration.
        inputs: what else the run depends on, as a JSON value.
        files: those that the run reads or writes.
    """

    def __init__(self, path: Path, run: str, inputs: Any, files: Sequence[Path]) -> None:
        self._path, self._run, self._inputs, self._files = path, run, inputs, files

    def report(self) -> dict[str, Any] | None:
        """What :meth:`write` was given; None if there is no marker, or something has changed since."""
        try:
            stored = json.loads(self._path.read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        if not isinstance(stored, dict) or stored.get("state") != self._state():
            return None
        report = stored.get("report")
        return report if isinstance(report, dict) else None

    def write(self, report: dict[str, Any]) -> None:
        """Write the marker with the report of the run, as JSON values."""
        content = {"state": self._state(), "report": report}
        replace_file(self._path, json.dumps(content, ensure_ascii=False, indent=1).encode(errors="replace") + b"\n")

    def _state(self) -> str:
        state = [self._run, self._inputs, [_status(path) for path in self._files]]
        return hashlib.sha256(json.dumps(state).encode()).hexdigest()


def _status(path: Path) -> list[Any]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return [path.name]
    return [path.name, status.st_size, status.st_mtime_ns, status.st_ino]
