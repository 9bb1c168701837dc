"""Answers as they are written in Chinese: full-width forms, and the letters of several choices."""

from __future__ import annotations

import re

_FULL_WIDTH = {0x3000: " ", **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}}
_CHOICES = re.compile(r"[A-H](?:[\s,;、&和及与]*[A-H])*")
_AND = re.compile(r"(?<![A-Za-z])and(?![A-Za-z])", re.IGNORECASE)


def half_width(text: str) -> str:
    """A text whose full-width letters, digits and signs are ASCII."""
    return text.translate(_FULL_WIDTH)


def read_choices(text: str) -> frozenset[str] | None:
    """The letters of the choices that a text names, each once: A、C, ``AC``, ``(A) and (C)``; None if it names none."""
    letters = re.sub(r"[()\[\]{}【】*_`\"'“”.。$]|\\(?:text|mathrm|boxed)", " ", _AND.sub(",", half_width(text)))
    letters = letters.upper().strip()
    found = re.findall("[A-H]", letters) if _CHOICES.fullmatch(letters) else []
    return frozenset(found) if found and len(set(found)) == len(found) else None
