"""Remove what a text from a model could use to change how it is shown: control characters and invisible ones."""

from __future__ import annotations

import unicodedata

_REMOVED = ("Cc", "Cf", "Cs", "Co", "Cn")
_LINES = str.maketrans({"\r": "\n", "\x0b": "\n", "\x0c": "\n", "\x85": "\n", "\u2028": "\n", "\u2029": "\n"})


def without_control_characters(text: str) -> str:
    """The text without control and format characters and lone surrogates; tabs and line breaks (as ``\\n``) stay."""
    if text.replace("\n", "").replace("\t", "").isprintable():  # most texts; what is removed is not printable
        return text
    text = text.replace("\r\n", "\n").translate(_LINES)
    return "".join(
        character for character in text if character in "\n\t" or unicodedata.category(character) not in _REMOVED
    )


def as_one_line(text: str) -> str:
    """The text without control characters, its line breaks and tabs as single spaces."""
    if text.isascii() and text.isprintable():
        return text
    return " ".join(without_control_characters(text).replace("\t", " ").split("\n"))
