"""The journal, the rate ledger and the budget in a worker: they call the shared accounts of the run.

:class:`AccountsClient` makes the calls, and is the journal. A call costs more than what it asks for, so what is asked
for at the same time travels in one call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.api_manager import Endpoint
from engine.errors import ScaffoldError
from engine.executor.accounts import Found, Settlement
from engine.llm.interfaces import Entry
from engine.llm.limits.budget import Hold
from engine.llm.limits.rate_limits import Grant, LeaseRequest, RateLimits, machine_clock
from engine.records import Completion

_PAUSES_FOR_S = 0.25
"""Pauses of endpoints are read again after this time. A request reads its stored replies and the pauses together."""
_POLL_S, _LONGEST_POLL_S = 0.1, 1.0
"""Seconds between the questions of a worker that waits for budget."""


class Handle(Protocol):
    """Calls the methods of an object in another process; picklable."""

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method; the future of its result."""


def _value(result: Any) -> Any:
    """The result of a call; raises it if it is an error."""
    if isinstance(result, ScaffoldError):
        raise result
    return result


async def _value_of(call: Future[Any]) -> Any:
    """As :func:`_value`, in an event loop. If the caller is cancelled, the call still ends on its own."""
    return _value(await asyncio.shield(asyncio.wrap_future(call)))


@dataclass
class AccountsClient:
    """The calls of one worker, or of the process that started the run, to the shared accounts; also its journal.

    For one event loop.

    Args:
        accounts: the handle of :class:`SharedAccounts`.
        worker: name of this worker.
    """

    accounts: Handle
    worker: str
    pauses: dict[str, float] = field(default_factory=dict)
    """When the pauses of endpoints end, by scope and in monotonic time, as last heard."""
    heard_at: float = -_PAUSES_FOR_S
    _entries: list[tuple[Entry, asyncio.Future[Completion]]] = field(default_factory=list)
    _settled: list[Settlement] = field(default_factory=list)
    _pending: set[asyncio.Future[Any]] = field(default_factory=set)

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method and wait for its result."""
        return _value(self.send(method, *arguments).result())

    def send(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method; the future of its result, or of an error that it raised."""
        return self.accounts.call("answer", method, *arguments)

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """As in the protocol of a journal. Blocks for one call to the other process."""
        asked_at = time.monotonic()
        found: Found = self.ask("stored", list(keys))
        self.pauses = {scope: asked_at + left for scope, left in found.pauses.items() if left > 0}
        self.heard_at = asked_at
        return found.completions

    def put(self, key: str, completion: Completion) -> asyncio.Future[Completion]:
        """As in the protocol of a journal. The completions of one reply travel in one call, with what it cost."""
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._send_soon()
        self._entries.append((Entry(key, completion), future))
        return future

    def capabilities(self, base_url: str, model: str, max_age_s: float) -> dict[str, Any]:
        """As in the protocol of a journal."""
        facts: dict[str, Any] = self.ask("capabilities", base_url, model, max_age_s)
        return facts

    def remember_capabilities(self, base_url: str, model: str, facts: dict[str, Any]) -> None:
        """As in the protocol of a journal; does not wait."""
        self.send("remember_capabilities", base_url, model, facts)

    def settle(self, settlement: Settlement) -> None:
        """Release a reservation; does not wait."""
        self._send_soon()
        self._settled.append(settlement)

    def _send_soon(self) -> None:
        if not self._entries and not self._settled:
            asyncio.get_running_loop().call_soon(self._send)

    async def drain(self) -> None:
        """Wait until everything is stored and released. The event loop may be stopped afterwards."""
        while self._entries or self._settled or self._pending:
            await asyncio.sleep(0)  # what is collected is sent
            if self._pending:
                await asyncio.wait(self._pending)

    def _send(self) -> None:
        entries, settled = self._entries, self._settled
        self._entries, self._settled = [], []
        call = self.send("record", self.worker, [entry for entry, _ in entries], settled)
        sent = asyncio.ensure_future(_value_of(call))
        self.keep(sent)
        sent.add_done_callback(lambda done: _resolve(entries, done))

    def keep(self, work: asyncio.Future[Any]) -> None:
        """Let :meth:`drain` wait for this too."""
        self._pending.add(work)
        work.add_done_callback(self._pending.discard)


def _resolve(
    entries: Sequence[tuple[Entry, asyncio.Future[Completion]]],
    done: asyncio.Future[list[Completion | None]],
) -> None:
    """Give each future what is stored, or the error of the call."""
    error = asyncio.CancelledError() if done.cancelled() else done.exception()
    for number, (entry, future) in enumerate(entries):
        if future.done():  # its caller was cancelled
            continue
        if error is None:
            future.set_result(done.result()[number] or entry.completion)
        elif isinstance(error, asyncio.CancelledError):
            future.cancel()
        else:
            future.set_exception(error)
            future.exception()  # marked as retrieved: the caller waits for the first of them only


class RemoteLedger:
    """The rate ledger in a worker. Its clock is that of the other machine, to within the time of one call.

    Args:
        client: to the shared accounts.
    """

    def __init__(self, client: AccountsClient) -> None:
        self._client = client
        before = machine_clock()
        there = float(client.ask("clock"))
        ahead = there - (before + machine_clock()) / 2
        self.clock = lambda: machine_clock() + ahead

    def scope(self, endpoint: Endpoint) -> str:
        """As in the protocol."""
        return str(self._client.ask("scope", endpoint))

    def exchange(self, scope: str, limits: RateLimits, request: LeaseRequest) -> Grant:
        """As in the protocol."""
        grant: Grant = self._client.ask("exchange", self._client.worker, scope, limits, request)
        return grant

    def pause(self, scope: str, seconds: float) -> None:
        """As in the protocol."""
        self._client.ask("pause", scope, seconds)

    def pause_left_s(self, scope: str) -> float:
        """As in the base; at most a moment old."""
        now = time.monotonic()
        if now - self._client.heard_at < _PAUSES_FOR_S:
            return max(0.0, self._client.pauses.get(scope, 0.0) - now)
        return float(self._client.ask("pause_left_s", scope))

    def add_spent(self, scope: str, tokens: int, usd: float) -> None:
        """As in the protocol."""
        self._client.ask("add_spent", scope, tokens, usd)


class RemoteBudget:
    """The budget in a worker, or in the process that started the run. For one event loop.

    Args:
        client: to the shared accounts.
        usd: the limit in USD; only whether there is one matters here.
        tokens: the limit on tokens, likewise.
    """

    def __init__(self, client: AccountsClient, usd: float | None, tokens: int | None) -> None:
        self.limited = usd is not None or tokens is not None
        self._client = client
        self._wanted: list[tuple[int, float | None, asyncio.Future[Hold]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def hold(self, tokens: int, usd: float | None) -> Hold:
        """As in the protocol. Attempts that start together are asked for in one call, and wait in their order."""
        future: asyncio.Future[Hold] = asyncio.get_running_loop().create_future()
        self._wanted.append((tokens, usd, future))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask())
            self._client.keep(self._asking)
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled() and future.exception() is None:  # reserved just before the cancellation
                self.settle(future.result(), 0, 0.0)
            raise

    def settle(self, hold: Hold, tokens: int, usd: float | None) -> None:
        """As in the base; does not wait."""
        self._client.settle(Settlement(hold.row, tokens, usd))

    async def _ask(self) -> None:
        """Reserve what is wanted. What is reserved after its caller was cancelled is given back."""
        wait_s = _POLL_S
        while self._wanted:
            asked = [one for one in self._wanted if not one[2].cancelled()]
            try:
                amounts = [(tokens, usd) for tokens, usd, _ in asked]
                numbers = await _value_of(self._client.send("hold", self._client.worker, amounts)) if asked else []
            except Exception as error:  # noqa: BLE001 - of the first; the others are asked for again
                if not asked[0][2].done():
                    asked[0][2].set_exception(error)
                self._wanted = self._wanted[self._wanted.index(asked[0]) + 1 :]
                continue
            for number, (tokens, usd, future) in zip(numbers, asked, strict=False):
                hold = Hold(tokens, usd or 0.0, number)
                if future.done():
                    self.settle(hold, 0, 0.0)
                else:
                    future.set_result(hold)
            self._wanted = [one for one in self._wanted if not one[2].done()]
            if numbers:
                wait_s = _POLL_S
            elif asked:
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_POLL_S)
