"""Folders that are written atomically: after a crash, what has the name of a folder is whole."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from safetensors import SafetensorError

from engine.errors import ScaffoldError, first_line

_UNFINISHED = ".unfinished"


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Fill a temporary folder beside ``folder`` and rename it.

    Args:
        folder: the destination. An existing folder is removed just before the renaming: an earlier start of the same
            training wrote it.
        write: fills the folder that it is given.

    Raises:
        ScaffoldError: it cannot be written; no partial folder is left.
    """
    unfinished = folder.with_name(folder.name + _UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    with none_if_failed(unfinished, folder):
        write(unfinished)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


@contextlib.contextmanager
def none_if_failed(unfinished: Path, folder: Path) -> Iterator[None]:
    """Remove ``unfinished`` if the block, which fills it, ends with an error.

    Args:
        unfinished: the folder that is being filled.
        folder: the destination, for the message.

    Raises:
        ScaffoldError: it cannot be written.
    """
    try:
        yield
    except BaseException as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        # Of a full disk, torch raises a RuntimeError and tokenizers an Exception of no type.
        is_full = isinstance(error, OSError | RuntimeError | SafetensorError) or type(error) is Exception
        if is_full and not isinstance(error, ScaffoldError):
            raise ScaffoldError(
                f"Cannot write {folder}",
                why=first_line(error),
                fix="Free disk space and run the same command again. No partial folder was left.",
            ) from error
        raise


def repair_folders(run_dir: Path) -> None:
    """After a crash: remove unfinished folders."""
    for unfinished in run_dir.glob(f"*{_UNFINISHED}"):
        shutil.rmtree(unfinished, ignore_errors=True)
