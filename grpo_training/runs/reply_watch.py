"""Warns while a run goes on when many replies of the model are cut off or cannot be read."""

from __future__ import annotations

from collections.abc import Callable

from engine.records import Completion

_SHARE = 0.2
_FEWEST = 20
"""Replies from which on the share counts."""
_COMPACT = "compact"
_FEW_TOKENS, _FEW_SHARE = 16, 8
"""A reply that is cut off after so few tokens, or an eighth of the limit, has met the end of the context."""


def tokens_of(completion: Completion) -> int:
    """Completion tokens of a reply; of several in one request they are shares, so that an empty one counts as one."""
    is_empty = not completion.text and not completion.reasoning
    return 1 if is_empty else completion.usage.completion_tokens


class ReplyWatch:
    """Counts replies, and warns once when more than a fifth of them is cut off or unreadable.

    Args:
        style: prompt style of the run.
        max_tokens: of the run; None: the server's limit.
        tell: gets the warning.
    """

    def __init__(self, style: str, max_tokens: int | None, tell: Callable[[str], None]) -> None:
        self._style, self._max_tokens, self._tell = style, max_tokens, tell
        self._replies = self._cut_off = self._full = self._unreadable = self._bad = 0
        self._has_told = False

    def add(self, *, is_cut_off: bool, is_unreadable: bool, tokens: int = 0) -> None:
        """Count one reply; ``tokens`` are those of the reply, 0 if they are not known."""
        few = _FEW_TOKENS if self._max_tokens is None else self._max_tokens // _FEW_SHARE
        is_full = is_cut_off and 0 < tokens <= few
        self._replies += 1
        self._full += is_full
        self._cut_off += is_cut_off and not is_full
        self._unreadable += is_unreadable
        self._bad += is_cut_off or is_unreadable
        if self._has_told or self._replies < _FEWEST or self._bad <= _SHARE * self._replies:
            return
        self._has_told = True
        limit = "the server's limit" if self._max_tokens is None else f"--max-tokens {self._max_tokens}"
        advice = [] if self._style == _COMPACT else ["--prompts compact"]
        advice += ["a larger --max-tokens"] if self._cut_off else []
        advice += ["a longer context of the server (num_ctx of Ollama)"] if self._full else []
        what = f"{self._cut_off} were cut off at {limit}, {self._unreadable} could not be read"
        if self._full:
            what += f", {self._full} ended after a few tokens as the context of the server was full"
        self._tell(
            f"⚠ {self._bad} of {self._replies} replies cannot be used whole: {what}; "
            f"try {' or '.join(advice) or 'a larger model'}"
        )
