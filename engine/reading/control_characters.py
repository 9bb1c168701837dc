"""Remove what a text from a model could use to change how it is shown: control characters and invisible ones."""

from __future__ import annotations

import re
import unicodedata

_REMOVED = ("Cc", "Cf", "Cs", "Co", "Cn")
_LINES = str.maketrans({"\r": "\n", "\x0b": "\n", "\x0c": "\n", "\x85": "\n", "\u2028": "\n", "\u2029": "\n"})
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]+[\ufe0e\ufe0f]*"
    r"|(?<![^\w\s\ufe00-\ufe0f])[\ufe0e\ufe0f]+(?!\u20e3)"
)
"""Fillers, joiners and variation selectors, which are marks and letters by their category. After a sign a selector
chooses how it is drawn, and stays."""
_MARK = (
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u06d6-\u06dc\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
_FLOOD = re.compile(f"({_MARK}{{8}}){_MARK}+")
"""More marks on one letter than any script has: they would be drawn over the lines above and below."""


def without_control_characters(text: str) -> str:
    """The text without characters that cannot be seen and lone surrogates; tabs and line breaks (as ``\\n``) stay.

    Of the marks on one letter, eight stay.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    if not text.replace("\n", "").replace("\t", "").isprintable():  # what is removed of most texts is not printable
        text = text.replace("\r\n", "\n").translate(_LINES)
        text = "".join(sign for sign in text if sign in "\n\t" or unicodedata.category(sign) not in _REMOVED)
    return _FLOOD.sub(r"\1", _UNSEEN.sub("", text))


def as_one_line(text: str) -> str:
    """The text without control characters, its line breaks and tabs as single spaces."""
    if text.isascii() and text.isprintable():
        return text
    return " ".join(without_control_characters(text).replace("\t", " ").split("\n"))
