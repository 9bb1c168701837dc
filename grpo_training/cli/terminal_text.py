"""Text on its way to a terminal: from outside, or to a reader that may leave."""

from __future__ import annotations

import unicodedata
from typing import Any, TextIO

_INVISIBLE = ("Cc", "Cf", "Cs")


def harmless(text: str, keep: str = "") -> str:
    r"""The text with control and format characters and half surrogates written out (``\x1b``).

    Args:
        text: what a model, a file or a server wrote.
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


class LastingStream:
    """A text stream that a run can write to although whoever read it has left (``| head``): it goes on without.

    Args:
        stream: where the text goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_gone = False

    def write(self, text: str) -> int:
        """Write, or drop the text where nobody reads any more."""
        if not self._is_gone:
            try:
                return self._stream.write(text)
            except BrokenPipeError:
                self._is_gone = True
        return len(text)

    def flush(self) -> None:
        """Flush, as far as anybody reads."""
        if not self._is_gone:
            try:
                self._stream.flush()
            except BrokenPipeError:
                self._is_gone = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
