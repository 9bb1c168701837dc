"""What the requests of a client have used."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Spent:
    """Tokens and cost of the requests for one purpose.

    ``estimated`` counts the replies without usage: their tokens are the most that they may have used.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    estimated: int = 0

    @property
    def estimate_note(self) -> str:
        """What of the tokens is an estimate, to be printed after them; empty if nothing is."""
        if not self.estimated:
            return ""
        return f"; an estimate, at the most, as {self.estimated:,} of the replies came without usage"

    def add(self, prompt_tokens: int, completion_tokens: int, cost_usd: float | None, *, estimated: int = 0) -> None:
        """Add attempts; ``cost_usd`` is None without prices."""
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens
        self.estimated += estimated
        if cost_usd is not None:
            self.cost_usd = cost_usd + (self.cost_usd or 0.0)


@dataclass
class Counters(Spent):
    """Totals over all requests of a client. Tokens and cost include failed attempts that reported them.

    ``by_purpose`` has the parts: generation, analysis, ... A snapshot for displays also has the number of requests in
    flight.
    """

    retries: int = 0
    rate_limited: int = 0
    requests_sent: int = 0
    journal_hits: int = 0
    in_flight: int = 0
    by_purpose: dict[str, Spent] = field(default_factory=dict)
