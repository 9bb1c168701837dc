"""What the rest of the house asks: a request and its sample indices become replies."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from engine.api_manager import ApiManager, Endpoint
from engine.llm.budget import Budget
from engine.llm.cancellation import CancelScope
from engine.llm.concurrency import ConcurrencyRule
from engine.llm.connection import EndpointConnection
from engine.llm.journal import ResponseJournal, request_keys
from engine.llm.rate_limits import Limits, RateLedger, scope_id
from engine.llm.retry import RetryPolicy
from engine.llm.sender import RequestSender, Sample, reply_of
from engine.records import ChatRequest, Reply


@dataclass(frozen=True)
class Counters:
    """A snapshot for the progress panel. Tokens and money cover every attempt that reported them.

    ``cost_usd`` is None where no endpoint that was used has prices; ``waiting`` counts requests that queue for
    a slot, a pause or a back-off.
    """

    in_flight: int = 0
    waiting: int = 0
    retries: int = 0
    rate_limited: int = 0
    requests_sent: int = 0
    journal_hits: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    concurrency_limit: int = 0


class LLMClient:
    """Asks models. An async context manager, for one event loop.

    Args:
        manager: role -> endpoint.
        journal: stores every reply before it is used; None: nothing is stored (tests, throw-away calls).
        ledger: shares limits and pauses with other processes; None: this process is alone.
        retry: how often and how long a request is tried.
        budget: the ceiling; no limits by default.
        concurrency: how the number of requests in flight adapts; an endpoint's ``max_concurrency`` caps it.
        probe_patience_s: how long others wait for the first request that shows what an endpoint can do.
        clock: seconds since the epoch.
        sleep: as ``asyncio.sleep``.
        rng: for jitter.
    """

    def __init__(
        self,
        manager: ApiManager,
        *,
        journal: ResponseJournal | None = None,
        ledger: RateLedger | None = None,
        retry: RetryPolicy | None = None,
        budget: Budget | None = None,
        concurrency: ConcurrencyRule | None = None,
        probe_patience_s: float = 10.0,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._manager, self._journal, self._ledger = manager, journal, ledger
        self._rule = concurrency or ConcurrencyRule()
        self._clock, self._sleep = clock, sleep
        self._salt = os.urandom(16)
        self._connections: dict[tuple[str, Limits, float, tuple[str, ...]], EndpointConnection] = {}
        self._by_role: dict[str, list[tuple[Endpoint, EndpointConnection]]] = {}
        self._asked: Counter[EndpointConnection] = Counter()
        self._in_flight: dict[str, asyncio.Future[Reply | None]] = {}
        self._switch = CancelScope()
        self._sender = RequestSender(
            config_path=manager.path,
            journal=journal,
            retry=retry or RetryPolicy(),
            budget=budget or Budget(),
            probe_patience_s=probe_patience_s,
            switch=self._switch,
            clock=clock,
            sleep=sleep,
            rng=rng or random.Random(),  # noqa: S311 - jitter
        )

    async def __aenter__(self) -> LLMClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections, give leases back, book what was spent. The journal and the ledger stay open."""
        self._switch.close()
        for connection in self._connections.values():
            await connection.close()

    @property
    def counters(self) -> Counters:
        """What was done so far, and what is under way."""
        tally = self._sender.tally
        in_flight = sum(connection.in_flight for connection in self._connections.values())
        return Counters(
            in_flight=in_flight,
            waiting=max(0, tally.asking - in_flight),
            retries=tally.retries,
            rate_limited=tally.rate_limited,
            requests_sent=tally.requests_sent,
            journal_hits=tally.journal_hits,
            prompt_tokens=tally.prompt_tokens,
            completion_tokens=tally.completion_tokens,
            cost_usd=tally.cost_usd,
            concurrency_limit=sum(connection.controller.limit for connection in self._connections.values()),
        )

    # -------------------------------------------------------------- one call

    async def sample(self, request: ChatRequest, sample_indices: Sequence[int]) -> list[Reply]:
        """Draw some samples of a request; those that the journal holds cost nothing.

        Args:
            request: what is asked.
            sample_indices: which samples; part of their journal keys.

        Returns:
            one reply an index, in the order asked. A call that failed for good is a reply of outcome
            ``infra_fault``; what the server refuses for its content is a ``model_fault``. Neither raises.

        Raises:
            FatalEndpointError: the endpoint refuses every call; all other calls of this client raise it too.
            BudgetExceededError: the next request could pass the budget.
            ConfigurationError: the role is not configured.
            JournalError: replies cannot be stored.
        """
        async with self._switch.call():
            return await self._sample(request, sample_indices)

    async def _sample(self, request: ChatRequest, indices: Sequence[int]) -> list[Reply]:
        servers = self._servers(request.role)
        keys = request_keys(request, servers[0][0].model, servers[0][0].extra_body, indices)
        wanted = dict(zip(keys, indices, strict=True))
        replies: dict[str, Reply] = {}
        if self._journal is not None:
            for key, completion in self._journal.get_many(list(wanted)).items():
                replies[key] = reply_of(wanted[key], completion)
            self._sender.tally.journal_hits += len(replies)
        while len(replies) < len(wanted):
            open_keys = [key for key in wanted if key not in replies]
            others = {key: self._in_flight[key] for key in open_keys if key in self._in_flight}
            mine = [
                Sample(wanted[key], key, asyncio.get_running_loop().create_future())
                for key in open_keys
                if key not in others
            ]
            endpoint, connection = min(servers, key=lambda server: self._asked[server[1]])
            await self._draw_all(connection, endpoint, request, mine)
            flights = {**others, **{sample.key: sample.reply for sample in mine}}
            for key, flight in flights.items():
                reply = flight.result() if flight.done() else await asyncio.shield(flight)
                if reply is not None:  # None: whoever asked was cancelled, so it is asked again
                    replies[key] = reply
        return [replies[key] for key in keys]

    async def _draw_all(
        self, connection: EndpointConnection, endpoint: Endpoint, request: ChatRequest, samples: list[Sample]
    ) -> None:
        """Draw samples of one call, neighbours together; others that want them meanwhile share the flight."""
        if not samples:
            return
        self._in_flight.update((sample.key, sample.reply) for sample in samples)
        self._asked[connection] += len(samples)
        try:
            runs = _neighbours(samples)
            await _all_of([self._draw(connection, endpoint, request, run) for run in runs])
        finally:
            self._asked[connection] -= len(samples)
            for sample in samples:
                del self._in_flight[sample.key]
                if not sample.reply.done():
                    sample.reply.set_result(None)

    async def _draw(
        self, connection: EndpointConnection, endpoint: Endpoint, request: ChatRequest, samples: list[Sample]
    ) -> None:
        """Draw neighbouring samples: in one request where the endpoint can, what is left one by one."""
        if len(samples) > 1 and "n" not in connection.capabilities.dropped:
            await self._sender.ask(connection, endpoint, request, samples)
            samples = [sample for sample in samples if not sample.reply.done()]
        while samples:
            await _all_of([self._sender.ask(connection, endpoint, request, [sample]) for sample in samples])
            samples = [sample for sample in samples if not sample.reply.done()]

    # -------------------------------------------------------------- the whole client

    def _servers(self, role: str) -> list[tuple[Endpoint, EndpointConnection]]:
        """A role's endpoints and the connections to them."""
        if role not in self._by_role:
            self._by_role[role] = [(endpoint, self._connection(endpoint)) for endpoint in self._manager.endpoints(role)]
        return self._by_role[role]

    def _connection(self, endpoint: Endpoint) -> EndpointConnection:
        """The connection to an endpoint; roles with the same address, model, key and limits share one."""
        scope = self._ledger.scope(endpoint) if self._ledger else scope_id(endpoint, self._salt)
        name = (scope, Limits.of(endpoint), endpoint.timeout_s, endpoint.never_send)
        if name not in self._connections:
            rule = replace(self._rule, maximum=endpoint.max_concurrency or self._rule.maximum)
            self._connections[name] = EndpointConnection(
                endpoint, scope, rule, self._journal, self._ledger, self._clock, self._sleep
            )
        return self._connections[name]


def _neighbours(samples: list[Sample]) -> list[list[Sample]]:
    """Runs of consecutive indices: what one request with ``n`` and one seed can draw."""
    runs: list[list[Sample]] = []
    for sample in sorted(samples, key=lambda sample: sample.index):
        if runs and sample.index == runs[-1][-1].index + 1:
            runs[-1].append(sample)
        else:
            runs.append([sample])
    return runs


async def _all_of(parts: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all to their end, then raise the first error: what the others were paid for is not thrown away."""
    if len(parts) == 1:
        await parts[0]
        return
    for result in await asyncio.gather(*parts, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
