"""What a client needs of its journal, its rate ledger and its budget.

On this machine these are :class:`~engine.llm.journal.ResponseJournal`,
:class:`~engine.llm.limits.rate_limits.RateLedger` and :class:`~engine.llm.limits.budget.Budget`; a worker of a cluster
reaches those of another machine (:mod:`engine.executor.remote_accounts`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from engine.records import Completion

if TYPE_CHECKING:
    import asyncio

    from engine.api_manager import Endpoint
    from engine.llm.limits.budget import Hold
    from engine.llm.limits.rate_limits import Grant, LeaseRequest, RateLimits


class Entry(NamedTuple):
    """A completion to be stored."""

    key: str
    completion: Completion


class Journal(Protocol):
    """Stores replies by request key, and what is known about endpoints."""

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """The stored completions by key."""

    def put(self, key: str, completion: Completion) -> asyncio.Future[Completion]:
        """Store a completion.

        The future has the completion that is stored, and ends when it is on disk.
        """

    def capabilities(self, base_url: str, model: str, max_age_s: float) -> dict[str, Any]:
        """What is known about an endpoint; empty if it is unknown or too old."""

    def remember_capabilities(self, base_url: str, model: str, facts: dict[str, Any]) -> None:
        """Store what is known about an endpoint."""


class Ledger(Protocol):
    """Shares the rate limits and the pauses of endpoints among processes."""

    clock: Callable[[], float]

    def scope(self, endpoint: Endpoint) -> str:
        """The id of an endpoint in the ledger."""

    def exchange(self, scope: str, limits: RateLimits, request: LeaseRequest) -> Grant:
        """Return what is left of a grant and take another."""

    def pause(self, scope: str, seconds: float) -> None:
        """Let no process send anything to the endpoint for a while."""

    def pause_left_s(self, scope: str) -> float:
        """Seconds until the end of a pause."""

    def add_spent(self, scope: str, tokens: int, usd: float) -> None:
        """Record what requests have cost."""


class Purse(Protocol):
    """Reserves the highest possible cost of an attempt before it is sent."""

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""

    async def hold(self, tokens: int, usd: float | None) -> Hold:
        """Reserve; waits while other attempts hold the rest.

        Raises:
            BudgetExceededError: the attempt could exceed a limit.
            ConfigurationError: a limit in USD, and no prices.
        """

    def settle(self, hold: Hold, tokens: int, usd: float | None) -> None:
        """Release a reservation and record what the attempt cost."""
