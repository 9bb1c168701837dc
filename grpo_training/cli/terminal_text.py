"""Text for terminals: control characters made visible, lines that fit, and streams whose reader may exit."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
import unicodedata
from typing import Any, TextIO

_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 group, 2 groups."""
    return f"{number} {noun}" + "s" * (number != 1)


def harmless(text: str, keep: str = "") -> str:
    r"""Escape control and format characters, separators of lines, and lone surrogates (``\x1b``).

    Args:
        text: text from a model, a file or a server.
        keep: control characters to leave, such as a newline.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"\\x{ord(character):02x}"
        if unicodedata.category(character) in _INVISIBLE and character not in keep
        else character
        for character in text
    )


def shortened(name: str, width: int) -> str:
    """A name of at most ``width`` characters; a longer one is cut in the middle, as its ends tell names apart."""
    if len(name) <= width:
        return name
    begin = (width - 1) // 2
    return f"{name[:begin]}…{name[len(name) - (width - 1 - begin) :]}"


def say(text: str, stream: TextIO | None = None) -> None:
    """Print text that a model, a file or a server may have written, on stdout by default. Line breaks are kept."""
    print(harmless(text, keep="\n\t"), file=stream or sys.stdout, flush=True)


def fitted(line: str) -> str:
    """A line of text for the terminal's width: broken between words, and continued below its last column.

    Two spaces or more begin a column.
    """
    width = shutil.get_terminal_size().columns
    columns = [match.end() for match in re.finditer(r"(?:^|(?<=\S) ) +(?=\S)", line)]
    below = " " * max((column for column in columns if column < width / 2), default=0)
    lines = textwrap.wrap(line, width, subsequent_indent=below, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


class LastingStream:
    """A text stream that drops its output after its reader has exited (``| head``), so that the run continues.

    Args:
        stream: the stream to write to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_gone = False

    def write(self, text: str) -> int:
        """Write the text, or drop it if the reader has exited."""
        if not self._is_gone:
            try:
                return self._stream.write(text)
            except BrokenPipeError:
                self._is_gone = True
        return len(text)

    def flush(self) -> None:
        """Flush, unless the reader has exited."""
        if not self._is_gone:
            try:
                self._stream.flush()
            except BrokenPipeError:
                self._is_gone = True

    def __eq__(self, other: object) -> bool:
        """Whether both write to the same stream, so that ``tqdm`` knows which bars a line would run into."""
        return self._stream == getattr(other, "_stream", other)

    def __hash__(self) -> int:
        return hash(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
