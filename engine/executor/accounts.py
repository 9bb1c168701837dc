"""What all workers of a run share, kept in one place: stored replies, rate limits, and the budget.

:class:`SharedAccounts` runs beside the process that started the run and opens its files. The other classes stand for
the journal, the ledger and the budget in a worker, and call it through a handle.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from engine.errors import ScaffoldError
from engine.llm.journal import ResponseJournal
from engine.llm.limits.budget import Budget, Hold
from engine.llm.limits.rate_limits import Grant, LeaseRequest, RateLedger, machine_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from engine.api_manager import ApiManager, Endpoint
    from engine.llm.limits.rate_limits import Limits
    from engine.records import Completion

_MOST_NOTES = 1000


class Handle(Protocol):
    """Calls the methods of an object in another process; picklable."""

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method; the future of its result."""


class SharedAccounts:
    """The journal, the ledger and the budget of a run. For one event loop.

    A reply is stored here before the worker that asked for it uses it, so that it is not lost with the worker. Errors
    are returned, not raised: :func:`_value` raises them in the worker.

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
        self._leases: dict[str, dict[tuple[str, str], Limits]] = {}
        self._next_hold = 0
        self._notes: list[str] = []
        self._noted = asyncio.Condition()
        self._is_closed = False

    async def set_endpoints(self, manager: ApiManager) -> None:
        """Give the endpoints with their keys, which are kept in memory only."""
        self._manager = manager

    async def endpoints(self) -> ApiManager | None:
        """The endpoints with their keys."""
        return self._manager

    async def stored(self, keys: Sequence[str]) -> dict[str, Completion]:
        """The stored completions of these keys."""
        return self._journal.get_many(keys)

    async def store(self, entries: Sequence[tuple[str, Completion]]) -> list[Completion] | ScaffoldError:
        """Store completions by key; what is stored, which is an earlier one where there was one with the key."""
        try:
            return await asyncio.gather(*(self._journal.put(key, completion) for key, completion in entries))
        except ScaffoldError as error:
            return error

    async def capabilities(self, base_url: str, model: str, max_age_s: float) -> dict[str, Any]:
        """As :meth:`ResponseJournal.capabilities`."""
        return self._journal.capabilities(base_url, model, max_age_s)

    async def remember_capabilities(self, base_url: str, model: str, facts: dict[str, Any]) -> None:
        """As :meth:`ResponseJournal.remember_capabilities`."""
        self._journal.remember_capabilities(base_url, model, facts)

    async def scope(self, endpoint: Endpoint) -> str:
        """As :meth:`RateLedger.scope`."""
        return self._ledger.scope(endpoint)

    async def clock(self) -> float:
        """The time of the ledger's clock."""
        return self._ledger.clock()

    async def exchange(self, worker: str, scope: str, limits: Limits, request: LeaseRequest) -> Grant | ScaffoldError:
        """As :meth:`RateLedger.exchange`, for a worker."""
        held = self._leases.setdefault(worker, {})
        if request.demand or request.in_use:
            held[scope, request.holder] = limits
        else:
            held.pop((scope, request.holder), None)
        try:
            return await asyncio.to_thread(self._ledger.exchange, scope, limits, request)
        except ScaffoldError as error:
            return error

    async def pause(self, scope: str, seconds: float) -> None:
        """As :meth:`RateLedger.pause`."""
        await asyncio.to_thread(self._ledger.pause, scope, seconds)

    async def pause_left_s(self, scope: str) -> float:
        """As :meth:`RateLedger.pause_left_s`."""
        return self._ledger.pause_left_s(scope)

    async def add_spent(self, scope: str, tokens: int, usd: float) -> None:
        """As :meth:`RateLedger.add_spent`."""
        await asyncio.to_thread(self._ledger.add_spent, scope, tokens, usd)

    async def hold(self, worker: str, tokens: int, usd: float | None) -> int | ScaffoldError:
        """As :meth:`Budget.hold`, for a worker; the number of the reservation."""
        try:
            hold = await self._budget.hold(tokens, usd)
        except ScaffoldError as error:
            return error
        self._next_hold += 1
        self._holds.setdefault(worker, {})[self._next_hold] = hold
        return self._next_hold

    async def settle(self, worker: str, number: int, tokens: int, usd: float | None) -> None:
        """As :meth:`Budget.settle`, for a worker."""
        hold = self._holds.get(worker, {}).pop(number, None)
        if hold is not None:  # None: the worker counted as lost, and its reservations as spent
            self._budget.settle(hold, tokens, usd)

    async def spent(self) -> tuple[int, float]:
        """Tokens and USD that count as spent."""
        return self._budget.spent_tokens, self._budget.spent_usd

    async def lost(self, worker: str) -> None:
        """Give up a worker that ended: its reservations count as spent, as they were in flight; its slots are free."""
        for hold in self._holds.pop(worker, {}).values():
            self._budget.settle(hold, hold.tokens, hold.usd)
        for (scope, holder), limits in self._leases.pop(worker, {}).items():
            await asyncio.to_thread(self._ledger.exchange, scope, limits, LeaseRequest(holder=holder))

    async def tell(self, text: str) -> None:
        """Take a line for the person who started the run. Many workers may say the same; it is displayed once."""
        if text not in self._notes and len(self._notes) < _MOST_NOTES:
            async with self._noted:
                self._notes.append(text)
                self._noted.notify_all()

    async def notes(self, seen: int) -> list[str]:
        """The lines after the first ``seen`` ones; waits until there is one. None after the end."""
        async with self._noted:
            await self._noted.wait_for(lambda: len(self._notes) > seen or self._is_closed)
        return self._notes[seen:]

    async def close(self) -> None:
        """Close the files, and end :meth:`notes`."""
        async with self._noted:
            self._is_closed = True
            self._noted.notify_all()
        self._journal.close()
        self._ledger.close()
        self._budget.close()


def _value(result: Any) -> Any:
    """The result of a call; raises it if it is an error."""
    if isinstance(result, ScaffoldError):
        raise result
    return result


async def _await(future: Future[Any]) -> Any:
    """The result of a call. If the caller is cancelled, the call still ends on its own."""
    return _value(await asyncio.shield(asyncio.wrap_future(future)))


def _resolve(futures: Sequence[asyncio.Future[Any]], done: asyncio.Future[list[Any]]) -> None:
    """Give each future its part of a list, or the error of the call."""
    error = asyncio.CancelledError() if done.cancelled() else done.exception()
    for number, future in enumerate(futures):
        if future.done():  # its caller was cancelled
            continue
        if error is None:
            future.set_result(done.result()[number])
        elif isinstance(error, asyncio.CancelledError):
            future.cancel()
        else:
            future.set_exception(error)


# The three classes below take the places of their bases in a client. They override every public method, and have
# nothing of the state of their bases, whose files are not on this machine.


class RemoteJournal(ResponseJournal):
    """The journal in a worker. For one event loop.

    Args:
        accounts: the handle of :class:`SharedAccounts`.
    """

    def __init__(self, accounts: Handle) -> None:
        self._accounts = accounts
        self._unsent: list[tuple[str, Completion, asyncio.Future[Completion]]] = []

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """As in the base. Blocks for one call to the other process."""
        found: dict[str, Completion] = _value(self._accounts.call("stored", list(keys)).result())
        return found

    def put(self, key: str, completion: Completion) -> asyncio.Future[Completion]:
        """As in the base. The completions of one reply travel in one call."""
        loop = asyncio.get_running_loop()
        if not self._unsent:
            loop.call_soon(self._send)
        future: asyncio.Future[Completion] = loop.create_future()
        self._unsent.append((key, completion, future))
        return future

    def _send(self) -> None:
        entries, self._unsent = self._unsent, []
        call = self._accounts.call("store", [(key, completion) for key, completion, _ in entries])
        sent = asyncio.ensure_future(_await(call))
        sent.add_done_callback(lambda done: _resolve([future for _, _, future in entries], done))

    def capabilities(self, base_url: str, model: str, max_age_s: float) -> dict[str, Any]:
        """As in the base."""
        facts: dict[str, Any] = self._accounts.call("capabilities", base_url, model, max_age_s).result()
        return facts

    def remember_capabilities(self, base_url: str, model: str, facts: dict[str, Any]) -> None:
        """As in the base; does not wait."""
        self._accounts.call("remember_capabilities", base_url, model, facts)

    def close(self) -> None:
        """Nothing: the journal stays open for the other workers."""


class RemoteLedger(RateLedger):
    """The rate ledger in a worker. Its clock is that of the other machine, to within the time of one call.

    Args:
        accounts: the handle of :class:`SharedAccounts`.
        worker: name of this worker.
    """

    def __init__(self, accounts: Handle, worker: str) -> None:
        self._accounts, self._worker = accounts, worker
        before = machine_clock()
        there = float(accounts.call("clock").result())
        ahead = there - (before + machine_clock()) / 2
        self.clock = lambda: machine_clock() + ahead

    def scope(self, endpoint: Endpoint) -> str:
        """As in the base."""
        return str(self._accounts.call("scope", endpoint).result())

    def exchange(self, scope: str, limits: Limits, request: LeaseRequest) -> Grant:
        """As in the base."""
        grant: Grant = _value(self._accounts.call("exchange", self._worker, scope, limits, request).result())
        return grant

    def pause(self, scope: str, seconds: float) -> None:
        """As in the base."""
        self._accounts.call("pause", scope, seconds).result()

    def pause_left_s(self, scope: str) -> float:
        """As in the base."""
        return float(self._accounts.call("pause_left_s", scope).result())

    def add_spent(self, scope: str, tokens: int, usd: float) -> None:
        """As in the base."""
        self._accounts.call("add_spent", scope, tokens, usd).result()

    def close(self) -> None:
        """Nothing: the ledger stays open for the other workers."""


class RemoteBudget(Budget):
    """The budget in a worker, or in the process that started the run.

    Args:
        accounts: the handle of :class:`SharedAccounts`.
        worker: name of this worker.
        usd: the limit in USD; only whether there is one matters here.
        tokens: the limit on tokens, likewise.
    """

    def __init__(self, accounts: Handle, worker: str, usd: float | None, tokens: int | None) -> None:
        super().__init__(usd, tokens)
        self._accounts, self._worker = accounts, worker

    async def hold(self, tokens: int, usd: float | None) -> Hold:
        """As in the base."""
        asked = asyncio.ensure_future(_await(self._accounts.call("hold", self._worker, tokens, usd)))
        try:
            return Hold(tokens, usd or 0.0, await asyncio.shield(asked))
        except asyncio.CancelledError:  # what is reserved after this moment is given back
            asked.add_done_callback(lambda done: self._give_back(done, tokens, usd))
            raise

    def _give_back(self, asked: asyncio.Future[int], tokens: int, usd: float | None) -> None:
        if not asked.cancelled() and asked.exception() is None:
            self.settle(Hold(tokens, usd or 0.0, asked.result()), 0, 0.0)

    def settle(self, hold: Hold, tokens: int, usd: float | None) -> None:
        """As in the base; does not wait."""
        self._accounts.call("settle", self._worker, hold.row, tokens, usd)
