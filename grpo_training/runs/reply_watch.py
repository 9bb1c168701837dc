"""Reports during a run that many replies are cut off or cannot be read, or that they are longer than estimated."""

from __future__ import annotations

from collections.abc import Callable

from engine.records import Completion

_SHARE = 0.2
_FEWEST = 20
"""Replies from which on the share counts."""
_COMPACT = "compact"
_LONGER = 2
"""Replies of so many times the tokens that the estimate assumed are reported."""
_FEW_TOKENS, _FEW_SHARE = 16, 8
"""A reply that is cut off after so few tokens, or an eighth of the limit, has met the end of the context."""


def tokens_of(completion: Completion) -> int:
    """Completion tokens of a reply; of several in one request they are shares, so that an empty one counts as one."""
    is_empty = not completion.text and not completion.reasoning
    return 1 if is_empty else completion.usage.completion_tokens


class ReplyWatch:
    """Counts replies, and reports once when more than a fifth of them is cut off or unreadable, or when they are long.

    Args:
        style: prompt style of the run.
        max_tokens: of the run; None: the server's limit.
        tell: gets what is told.
        planned: replies that the run asks for; 0: they are not known.
        cost_usd: of tokens that the model writes.
    """

    def __init__(
        self,
        style: str,
        max_tokens: int | None,
        tell: Callable[[str], None],
        planned: int = 0,
        cost_usd: Callable[[int], float | None] = lambda tokens: None,
    ) -> None:
        self._style, self._max_tokens, self._tell = style, max_tokens, tell
        self._planned, self._cost_usd, self._tokens = planned, cost_usd, 0
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
        self._tokens += tokens
        if self._replies == _FEWEST and self._planned > _FEWEST:
            self._tell_of_length(self._tokens / _FEWEST)
        if self._has_told or self._replies < _FEWEST or self._bad <= _SHARE * self._replies:
            return
        self._has_told = True
        limit = "the server's limit" if self._max_tokens is None else f"--max-tokens {self._max_tokens}"
        advice = [] if self._style == _COMPACT else ["--prompts compact"]
        advice += ["a larger --max-tokens"] if self._cut_off else []
        advice += ["a longer context of the server (num_ctx of Ollama)"] if self._full else []
        reasons = f"{self._cut_off} were cut off at {limit}, {self._unreadable} could not be read"
        if self._full:
            reasons += f", {self._full} ended after a few tokens as the context of the server was full"
        self._tell(
            f"⚠ {self._bad} of {self._replies} replies cannot be used whole: {reasons}; "
            f"try {' or '.join(advice) or 'a larger model'}"
        )

    def _tell_of_length(self, mean: float) -> None:
        """Report what all replies come to if those so far have many more tokens than the estimate assumed."""
        from grpo_training.runs.estimate import TOKENS_OF_REPLY, rounded  # a short run does not come here

        if mean <= _LONGER * TOKENS_OF_REPLY:
            return
        expected = round(mean * self._planned)
        cost = self._cost_usd(expected)
        price = "" if cost is None else f", {cost:.2f} USD"
        self._tell(
            f"A reply has {mean:,.0f} tokens so far, and the estimate assumed {TOKENS_OF_REPLY}: about "
            f"{rounded(expected)} tokens in all {self._planned:,} replies{price}"
        )
