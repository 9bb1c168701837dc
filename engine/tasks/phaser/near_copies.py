"""Programs that differ only in names, numbers, texts, comments and layout."""

from __future__ import annotations

import hashlib
import re

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<text>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`(?:\\.|[^`\\])*`?)
    |(?P<number>0[xXbBoO][0-9a-fA-F_]+|[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)
    |(?P<member>\.\s*[A-Za-z_$][\w$]*)
    |(?P<name>[A-Za-z_$][\w$]*)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


def copy_hash(code: str) -> str:
    """A hash that near copies of a program share.

    Comments and space are left out. Numbers and texts are all alike. A name counts by the place where it first occurs,
    except after a dot, where it is mostly one of Phaser's.
    """
    names: dict[str, int] = {}
    digest = hashlib.sha256()
    for found in _TOKEN.finditer(code):
        kind, token = found.lastgroup, found[0]
        if kind == "skip":
            continue
        if kind == "name":
            token = f"n{names.setdefault(token, len(names))}"
        elif kind in ("text", "number"):
            token = str(kind)
        digest.update(token.encode(errors="replace") + b"\0")
    return digest.hexdigest()[:16]
