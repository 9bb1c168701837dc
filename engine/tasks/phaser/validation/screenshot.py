"""Pictures of programs that ran in a browser."""

from __future__ import annotations

import base64
from pathlib import Path

from engine.storage.append_log import replace_file


def write_screenshot(path: Path, content: str) -> None:
    """Write a picture; its folder is made if needed.

    Args:
        path: the file.
        content: ``Validation.screenshot``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, base64.b64decode(content))
