"""Long output on a terminal goes through a pager."""

from __future__ import annotations

import io
import os
import pydoc
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class _Page(io.StringIO):
    """Collects what is written for a terminal."""

    def isatty(self) -> bool:
        return True


@contextmanager
def paged(terminal: TextIO) -> Iterator[TextIO]:
    """A stream whose text is shown at the end: by ``$PAGER`` (default: less) if it is higher than the terminal.

    Args:
        terminal: where a text that fits is written.
    """
    page = _Page()
    try:
        yield page
    finally:
        text = page.getvalue()
        if text.count("\n") < shutil.get_terminal_size().lines:
            terminal.write(text)
            terminal.flush()
        else:
            os.environ.setdefault("LESS", "-FRX")  # colours are shown
            pydoc.pager(text)
