"""A folder of this user for files that processes share."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from engine.errors import ConfigurationError


def user_folder() -> Path:
    """A temporary folder of this user for files that processes share.

    Raises:
        ConfigurationError: the folder exists and belongs to another user.
    """
    folder = Path(tempfile.gettempdir()) / f"scaffold-grpo-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise ConfigurationError(f"{folder} belongs to another user", fix="Set TMPDIR to a folder of your own.")
    return folder
