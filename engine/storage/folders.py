"""Folders that are replaced as a whole."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from engine.storage.append_log import named_if_full


def replace_folder(folder: Path, write: Callable[[Path], object], check: Callable[[], object]) -> None:
    """Fill a new folder and give it the name of ``folder``. If that fails, ``folder`` stays as it was.

    Args:
        folder: the destination; its parent is made if needed.
        write: makes the folder that it is given, and fills it.
        check: raises an error if what has the name of ``folder`` may not be replaced. Called before ``write`` and after
            it, as another process may have made the folder meanwhile.

    Raises:
        OSError: it cannot be written; the error of a full disk names ``folder``.
    """
    check()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with named_if_full(folder), tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}.") as temporary:
        new, earlier = Path(temporary) / "new", Path(temporary) / "earlier"
        write(new)
        check()
        if folder.exists():
            folder.rename(earlier)
        try:
            new.rename(folder)
        except BaseException:
            if earlier.exists():
                earlier.rename(folder)
            raise
