"""Wordings of a problem: a small grammar of alternatives, ``[a|b]``, nested as one likes, and slots, ``{name}``."""

from __future__ import annotations

import itertools

MAX_WORDINGS = 20_000


def expand(grammar: str) -> tuple[str, ...]:
    """All texts that a grammar gives, in the order of its alternatives.

    Args:
        grammar: text with alternatives in brackets; ``[a|b] c`` gives ``a c`` and ``b c``.

    Raises:
        ValueError: brackets that do not match, or more than ``MAX_WORDINGS`` texts.
    """
    texts, end = _alternatives(grammar, 0)
    if end != len(grammar):
        raise ValueError(f"a bracket is closed that was not opened: {grammar[:end][-30:]!r}")
    return tuple(dict.fromkeys(texts))


def _alternatives(grammar: str, at: int) -> tuple[list[str], int]:
    """The texts from ``at`` to the bracket that closes it (or the end), and where that is."""
    done: list[str] = []
    parts: list[list[str]] = []
    while at < len(grammar) and grammar[at] != "]":
        if grammar[at] == "[":
            inner, at = _alternatives(grammar, at + 1)
            if at == len(grammar):
                raise ValueError(f"a bracket is not closed: {grammar[:60]!r}")
            parts.append(inner)
            at += 1
        elif grammar[at] == "|":
            done += _joined(parts)
            parts = []
            at += 1
        else:
            end = next((i for i in range(at, len(grammar)) if grammar[i] in "[|]"), len(grammar))
            parts.append([grammar[at:end]])
            at = end
    return done + _joined(parts), at


def _joined(parts: list[list[str]]) -> list[str]:
    total = 1
    for choices in parts:
        total *= len(choices)
    if total > MAX_WORDINGS:
        raise ValueError(f"{total} wordings are more than {MAX_WORDINGS}")
    return ["".join(choice) for choice in itertools.product(*parts)]
