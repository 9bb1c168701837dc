"""What all workers of a run share, kept in one place: stored replies, rate limits, and the budget.

:class:`SharedAccounts` runs beside the process that started the run and opens its files. ``remote_accounts.py`` has
what stands for the journal, the ledger and the budget in a worker.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from engine.api_manager import ApiManager, Endpoint
from engine.errors import IncompleteRunError, ScaffoldError
from engine.llm.interfaces import Entry
from engine.llm.journal import ResponseJournal
from engine.llm.limits.budget import Budget, Hold
from engine.llm.limits.rate_limits import Grant, LeaseRequest, RateLedger, RateLimits
from engine.records import Completion

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_MOST_NOTES = 1000
_EXCHANGE_S, _LONGEST_RENEW_S = 0.02, 20.0
"""Workers exchange with the ledger less often the more they are, all together once in 0.02 s, each once in 20 s."""
_RETRY_S = 0.005
"""The same for workers whose requests wait for the limits: all together once in 0.005 s."""


class Found(NamedTuple):
    """The stored completions by key, and the seconds for which endpoints are paused by scope."""

    completions: dict[str, Completion]
    pauses: dict[str, float]


class Settlement(NamedTuple):
    """What an attempt cost: the number of its reservation, tokens and USD."""

    number: int
    tokens: int
    usd: float | None


def _returns_errors(
    method: Callable[Concatenate[SharedAccounts, _Arguments], _Result],
) -> Callable[Concatenate[SharedAccounts, _Arguments], _Result | ScaffoldError]:
    """A method that returns an error that a person is to read, as Ray wraps what is raised."""

    @functools.wraps(method)
    def call(
        accounts: SharedAccounts, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> _Result | ScaffoldError:
        try:
            return method(accounts, *args, **kwargs)
        except ScaffoldError as error:
            return error

    return call


class SharedAccounts:
    """The journal, the ledger and the budget of a run. Its methods are called one at a time.

    A reply is stored here before the worker that asked for it uses it, so that it is not lost with the worker. Errors
    are returned, not raised: the worker raises them.

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

    def set_endpoints(self, manager: ApiManager) -> None:
        """Give the endpoints with their keys, which are kept in memory only."""
        self._manager = manager

    def endpoints(self) -> ApiManager | None:
        """The endpoints with their keys."""
        return self._manager

    @_returns_errors
    def stored(self, keys: Sequence[str]) -> Found:
        """The stored completions of these keys, and the pauses of all endpoints."""
        pauses = {scope: self._ledger.pause_left_s(scope) for scope in self._scopes}
        return Found(self._journal.get_many(keys), pauses)

    @_returns_errors
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

    @_returns_errors
    def capabilities(self, base_url: str, model: str, max_age_s: float) -> dict[str, Any]:
        """As :meth:`ResponseJournal.capabilities`."""
        return self._journal.capabilities(base_url, model, max_age_s)

    @_returns_errors
    def remember_capabilities(self, base_url: str, model: str, facts: dict[str, Any]) -> None:
        """As :meth:`ResponseJournal.remember_capabilities`."""
        self._journal.remember_capabilities(base_url, model, facts)

    @_returns_errors
    def scope(self, endpoint: Endpoint) -> str:
        """As :meth:`RateLedger.scope`."""
        scope = self._ledger.scope(endpoint)
        self._scopes.add(scope)
        return scope

    def clock(self) -> float:
        """The time of the ledger's clock."""
        return self._ledger.clock()

    @_returns_errors
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

    @_returns_errors
    def pause(self, scope: str, seconds: float) -> None:
        """As :meth:`RateLedger.pause`."""
        self._ledger.pause(scope, seconds)

    @_returns_errors
    def pause_left_s(self, scope: str) -> float:
        """As :meth:`RateLedger.pause_left_s`."""
        return self._ledger.pause_left_s(scope)

    @_returns_errors
    def add_spent(self, scope: str, tokens: int, usd: float) -> None:
        """As :meth:`RateLedger.add_spent`."""
        self._ledger.add_spent(scope, tokens, usd)

    @_returns_errors
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
