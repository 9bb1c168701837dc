"""What all workers of a run share, kept in one place: stored replies, rate limits, and the budget.

:class:`SharedAccounts` runs beside the process that started the run and opens its files. ``remote_accounts.py`` has
what stands for the journal, the ledger and the budget in a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from engine.api_manager import ApiManager, Endpoint
from engine.errors import IncompleteRunError, ScaffoldError
from engine.llm.interfaces import Entry
from engine.llm.journal import ResponseJournal
from engine.llm.limits.budget import Budget, Hold
from engine.llm.limits.rate_limits import Grant, LeaseRequest, RateLedger, RateLimits
from engine.records import Completion

_MOST_NOTES = 1000
_EXCHANGE_S, _LONGEST_RENEW_S = 0.02, 20.0
"""Workers exchange with the ledger less often the more they are, all together once in 0.02 s, each once in 20 s."""
_RETRY_S = 0.005
"""The same for workers whose requests wait for the limits: all together once in 0.005 s."""

_OF_JOURNAL = ("capabilities", "remember_capabilities")
_OF_LEDGER = ("clock", "pause", "pause_left_s", "add_spent")
"""Their methods that workers call as they are."""


class Found(NamedTuple):
    """The stored completions by key, and the seconds for which endpoints are paused by scope."""

    completions: dict[str, Completion]
    pauses: dict[str, float]


class Settlement(NamedTuple):
    """What an attempt cost: the number of its reservation, tokens and USD."""

    number: int
    tokens: int
    usd: float | None


class SharedAccounts:
    """The journal, the ledger and the budget of a run. Its methods are called one at a time.

    A reply is stored here before the worker that asked for it uses it, so that it is not lost with the worker.

    Args:
        journal: file of the journal.
        ledger: file of the rate ledger.
        open_budget: opens the budget of the run; picklable.
    """

    def __init__(self, journal: Path, ledger: Path, open_budget: Callable[[], Budget]) -> None:
        self._journal = ResponseJournal(journal)
        self._ledger = RateLedger(ledger)
        self._budget = open_budget()
        self._manager: ApiManager | None = None
        self._holds: dict[str, dict[int, Hold]] = {}
        self._leases: dict[str, dict[tuple[str, str], RateLimits]] = {}
        self._lost: set[str] = set()
        self._scopes: set[str] = set()
        self._next_hold = 0
        self._notes: list[str] = []

    def answer(self, method: str, *arguments: Any) -> Any:
        """What a method of these accounts, of the journal or of the ledger returns to a worker.

        An error that a person is to read is returned too, as Ray wraps what is raised. The worker raises it.
        """
        owner = self._ledger if method in _OF_LEDGER else self._journal if method in _OF_JOURNAL else self
        try:
            return getattr(owner, method)(*arguments)
        except ScaffoldError as error:
            return error

    def set_endpoints(self, manager: ApiManager) -> None:
        """Give the endpoints with their keys, which are kept in memory only."""
        self._manager = manager

    def endpoints(self) -> ApiManager | None:
        """The endpoints with their keys."""
        return self._manager

    def stored(self, keys: Sequence[str]) -> Found:
        """The stored completions of these keys, and the pauses of all endpoints."""
        pauses = {scope: self._ledger.pause_left_s(scope) for scope in self._scopes}
        return Found(self._journal.get_many(keys), pauses)

    def record(self, worker: str, entries: Sequence[Entry], settled: Sequence[Settlement]) -> list[Completion | None]:
        """Store completions by key, and release reservations of a worker; each also where the other fails.

        Returns:
            for each completion the earlier one that is stored with its key; None: this one is stored.
        """
        try:
            stored = self._journal.put_many(entries) if entries else []
        finally:
            for settlement in settled:
                hold = self._holds.get(worker, {}).pop(settlement.number, None)
                if hold is not None:  # None: the worker counted as lost, and its reservations as spent
                    self._budget.settle(hold, settlement.tokens, settlement.usd)
        return [None if kept is sent.completion else kept for kept, sent in zip(stored, entries, strict=True)]

    def scope(self, endpoint: Endpoint) -> str:
        """As :meth:`RateLedger.scope`."""
        scope = self._ledger.scope(endpoint)
        self._scopes.add(scope)
        return scope

    def exchange(self, worker: str, scope: str, limits: RateLimits, request: LeaseRequest) -> Grant:
        """As :meth:`RateLedger.exchange`, for a worker."""
        self._check(worker)
        held = self._leases.setdefault(worker, {})
        if request.demand or request.in_use:
            held[scope, request.holder] = limits
        else:
            held.pop((scope, request.holder), None)
        grant = self._ledger.exchange(scope, limits, request)
        workers = len(self._leases)
        grant.renew_in_s = max(grant.renew_in_s, min(_EXCHANGE_S * workers, _LONGEST_RENEW_S))
        grant.retry_in_s = max(grant.retry_in_s, _RETRY_S * workers)
        return grant

    def hold(self, worker: str, wanted: Sequence[tuple[int, float | None]]) -> list[int]:
        """Reserve the costs of attempts for a worker, in their order, up to the first that has to wait.

        Args:
            worker: its name.
            wanted: tokens and USD of each attempt, as in :meth:`Budget.hold`.

        Returns:
            the numbers of the reservations.

        Raises:
            ScaffoldError: the first attempt cannot be reserved.
        """
        self._check(worker)
        numbers: list[int] = []
        for tokens, usd in wanted:
            try:
                hold = self._budget.try_hold(tokens, usd)
            except ScaffoldError:
                if not numbers:
                    raise
                break
            if hold is None:
                break
            self._next_hold += 1
            self._holds.setdefault(worker, {})[self._next_hold] = hold
            numbers.append(self._next_hold)
        return numbers

    def spent(self) -> tuple[int, float]:
        """Tokens and USD that count as spent."""
        return self._budget.spent_tokens, self._budget.spent_usd

    def lost(self, worker: str) -> None:
        """Give up a worker that ended: its reservations count as spent, as they were in flight; its slots are free.

        Calls of it that arrive later reserve nothing. Its replies are stored.
        """
        self._lost.add(worker)
        for hold in self._holds.pop(worker, {}).values():
            self._budget.settle(hold, hold.tokens, hold.usd)
        for (scope, holder), limits in self._leases.pop(worker, {}).items():
            self._ledger.exchange(scope, limits, LeaseRequest(holder=holder))

    def tell(self, text: str) -> None:
        """Take a line for the person who started the run. Many workers may say the same; it is displayed once."""
        if text not in self._notes and len(self._notes) < _MOST_NOTES:
            self._notes.append(text)

    def notes(self, seen: int) -> list[str]:
        """The lines after the first ``seen`` ones."""
        return self._notes[seen:]

    def close(self) -> None:
        """Close the files."""
        self._journal.close()
        self._ledger.close()
        self._budget.close()

    def _check(self, worker: str) -> None:
        if worker in self._lost:
            raise IncompleteRunError("This worker was given up", why="The command had lost the connection to it.")
