"""Finished simulations, one JSON object a line, so that an evaluation that was stopped does not repeat them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.storage.append_log import AppendLog
from engine.storage.lines import LineReader
from engine.tasks.traffic.simulation.closed_loop import ClosedLoopResult

_FORMAT = 1


class RunLog:
    """The file of the finished simulations. A simulation is found again by everything that determines it.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._log = AppendLog(path)
        self._found: dict[str, ClosedLoopResult] = {}

    @contextmanager
    def open(self) -> Iterator[None]:
        """Read the file, and be its only writer for the length of the block.

        Raises:
            LockHeldError: another process is.
        """
        with self._log.hold():
            for line in LineReader(self._log.path).read(to_the_end=True):
                self._read(line.text)
            yield

    def find(self, facts: Mapping[str, Any]) -> ClosedLoopResult | None:
        """The simulation that was determined by these facts, as JSON values; None if there is none."""
        return self._found.get(_key(facts))

    def add(self, facts: Mapping[str, Any], result: ClosedLoopResult) -> None:
        """Store a finished simulation. From any thread."""
        line = {"format": _FORMAT, "key": _key(facts), "facts": facts, "result": asdict(result)}
        self._log.append(json.dumps(line, ensure_ascii=False).encode())
        self._found[_key(facts)] = result

    def _read(self, text: bytes) -> None:
        try:
            line = json.loads(text)
            if line["format"] != _FORMAT:
                return
            values = line["result"] | {"curve": [(time, count) for time, count in line["result"]["curve"]]}
            self._found[line["key"]] = ClosedLoopResult(**values)
        except (ValueError, KeyError, TypeError):
            return  # a damaged line: its simulation is run again


def _key(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]
