"""The validator of this process: opened when it is first needed, shared by all tasks and threads."""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path

from engine.cores import usable_cores
from engine.tasks.phaser.validation.api_index import DEFAULT_PATH, ApiIndex
from engine.tasks.phaser.validation.validator import PhaserValidator

_open: dict[tuple[Path, bool], tuple[int, PhaserValidator]] = {}
_guard = threading.Lock()


def shared_validator(api_index: Path | None = None, *, runs: bool = True) -> PhaserValidator:
    """The validator with an index of Phaser's API; created at the first call, and again in a forked child.

    Args:
        api_index: the index; None for the default place.
        runs: whether programs will be run.

    Raises:
        ConfigurationError: Node.js, a package, Chromium or the index is not as it must be; with the fix.
    """
    path = (api_index or DEFAULT_PATH).resolve()
    with _guard:
        process, validator = _open.get((path, runs), (0, None))
        if validator is None or process != os.getpid():
            validator = PhaserValidator(ApiIndex.load(path), usable_cores(), runs=runs)
            atexit.register(validator.close)
            _open[path, runs] = (os.getpid(), validator)
        return validator
