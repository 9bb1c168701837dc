"""Client: samples chat requests from OpenAI-compatible endpoints."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from engine.api_manager import ApiManager, Endpoint
from engine.llm.budget import Budget, Counters
from engine.llm.journal import ResponseJournal, request_keys
from engine.llm.limits import ConcurrencyRule
from engine.llm.notices import EndpointNotices
from engine.llm.replies import ended_in_thought
from engine.llm.requests import with_more_tokens
from engine.llm.retry import RetryPolicy
from engine.llm.sender import RequestSender, reply_of
from engine.records import ChatRequest, Reply

if TYPE_CHECKING:
    from engine.llm.batches import BatchCollector
    from engine.llm.connection import EndpointConnection


_log = logging.getLogger(__name__)

DRAIN_S = 60.0
"""Seconds for which a run that is stopped waits for the requests in flight."""


class LLMClient:
    """Samples chat requests. An async context manager, for one event loop.

    Args:
        manager: role -> endpoint.
        journal: stores every reply before it is used; None: nothing is stored.
        retry: how often and for how long a request is retried.
        budget: limits on tokens and money; unlimited by default.
        concurrency: how the number of requests in flight adapts; an endpoint's ``max_concurrency`` caps it.
        batch: send requests in batches, which takes up to a day at half the price; needs a journal.
        drain_s: how long :meth:`close` waits for requests in flight, whose replies it stores in the journal.
        clock: monotonic time in seconds; setting the clock of the machine changes nothing.
        sleep: as ``asyncio.sleep``.
        rng: for jitter.
    """

    def __init__(
        self,
        manager: ApiManager,
        *,
        journal: ResponseJournal | None = None,
        retry: RetryPolicy | None = None,
        budget: Budget | None = None,
        concurrency: ConcurrencyRule | None = None,
        batch: bool = False,
        drain_s: float = DRAIN_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._manager = manager
        self._rule = concurrency or ConcurrencyRule()
        self._drain_s = drain_s if journal is not None else 0.0
        self._connections: dict[tuple[object, ...], EndpointConnection] = {}
        self._in_flight: dict[str, asyncio.Task[dict[str, Reply]]] = {}
        """The requests that are being sent, by the keys of their samples."""
        self._sender = RequestSender(
            config_path=manager.path,
            journal=journal,
            retry=retry or RetryPolicy(),
            budget=budget or Budget(),
            notices=EndpointNotices(_log.warning, clock),
            clock=clock,
            sleep=sleep,
            rng=rng or random.Random(),  # noqa: S311 - jitter
        )
        self._batches: BatchCollector | None = None
        if batch and journal is not None:
            from engine.llm.batches import BatchCollector  # loads aiohttp

            self._batches = BatchCollector(self._sender, journal)
            self._sender.reply_of_batch = self._batches.reply

    async def __aenter__(self) -> LLMClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let requests in flight end and close the connections. The journal stays open.

        Requests are in flight here after an error, an exhausted budget or Ctrl-C ended their callers. The server works
        on them, so their replies are kept.
        """
        self._sender.cancel_scope.close()
        try:
            await self._drain()
        finally:
            if self._batches is not None:
                await self._batches.close()
            for connection in self._connections.values():
                await connection.transport.close()

    async def _drain(self) -> None:
        """Let the attempts in flight end, so that their replies are stored; cancel those that take longer."""
        tasks = set(self._in_flight.values())
        _cancel_once(tasks)
        try:
            if tasks:
                _, tasks = await asyncio.wait(tasks, timeout=0)
            if tasks and self._drain_s > 0:
                self._sender.notices.tell(
                    f"waiting for {len(tasks)} requests in flight, at most {self._drain_s:.0f} s, to keep their "
                    "replies (Ctrl-C again: do not wait)"
                )
                _, tasks = await asyncio.wait(tasks, timeout=self._drain_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def report_notices_to(self, tell: Callable[[str], None]) -> None:
        """Call ``tell`` with a line when an endpoint fails repeatedly. Without this, lines are logged as warnings."""
        self._sender.notices.tell = tell

    @property
    def counters(self) -> Counters:
        """The totals so far and the current state."""
        in_flight = [connection.in_flight for connection in self._connections.values()]
        return replace(self._sender.counters, in_flight=sum(in_flight))

    async def sample(self, request: ChatRequest, sample_indices: Sequence[int]) -> list[Reply]:
        """Draw samples of a request. Samples that are in the journal are not requested again.

        A sample whose tokens were used up while the model was thinking is drawn again with more of them.

        Args:
            request: the chat request.
            sample_indices: which samples to draw; an index is part of the journal key.

        Returns:
            one reply per index, in the order given. A call that failed permanently is a reply with outcome
            ``infra_fault``; a request that the server refuses for its content is a ``model_fault``. Neither raises.

        Raises:
            FatalEndpointError: the endpoint refuses every call; all other calls of this client raise it too.
            BudgetExceededError: the next request could exceed the budget.
            ConfigurationError: the role is not configured.
            JournalError: replies cannot be stored.
        """
        replies = await self._sample(request, sample_indices)
        thinking = {reply.sample_index for reply in replies if ended_in_thought(reply.completion)}
        while thinking and (longer := with_more_tokens(request)) is not None:
            limits = (request.sampling.max_tokens, longer.sampling.max_tokens)
            self._sender.notices.asks_for_more_tokens(self._manager.endpoint(request.role), *limits)
            drawn = {reply.sample_index: reply for reply in await self._sample(longer, sorted(thinking), is_extra=True)}
            refused = {index for index, reply in drawn.items() if reply.fault is not None and reply.fault.is_alone}
            replies = [
                drawn[reply.sample_index] if reply.sample_index in thinking - refused else reply for reply in replies
            ]
            thinking = {index for index in thinking - refused if ended_in_thought(drawn[index].completion)}
            request = longer
        return replies

    async def _sample(
        self, request: ChatRequest, sample_indices: Sequence[int], *, is_extra: bool = False
    ) -> list[Reply]:
        """As :meth:`sample`, with the limit of the request; an extra request may be refused."""
        sent: set[asyncio.Task[dict[str, Reply]]] = set()
        async with self._sender.cancel_scope.call():
            endpoint = self._manager.endpoint(request.role)
            keys = request_keys(request, endpoint.model, endpoint.extra_body, sample_indices, endpoint.api)
            missing = dict(zip(keys, sample_indices, strict=True))
            replies: dict[str, Reply] = {}
            try:
                while missing:
                    if self._sender.journal is not None:
                        stored = self._sender.journal.get_many(list(missing))
                        self._sender.counters.journal_hits += len(stored)
                        for key, completion in stored.items():
                            replies[key] = reply_of(missing.pop(key), completion)
                    shared = {self._in_flight[key] for key in missing if key in self._in_flight}
                    unsent = {key: index for key, index in missing.items() if key not in self._in_flight}
                    sent = self._start(endpoint, request, unsent, is_extra=is_extra) if unsent else set()
                    if sent or shared:
                        await asyncio.wait(sent | shared)
                    for task in sent | shared:
                        if task in sent or not (task.cancelled() or task.exception()):  # else they are asked for here
                            results = task.result()
                            replies |= {key: results[key] for key in results.keys() & missing}
                    missing = {key: index for key, index in missing.items() if key not in replies}
            finally:
                _cancel_once(sent)
        return [replies[key] for key in keys]

    def _start(
        self, endpoint: Endpoint, request: ChatRequest, samples: Mapping[str, int], *, is_extra: bool
    ) -> set[asyncio.Task[dict[str, Reply]]]:
        """Send requests for samples: one for consecutive indices if the endpoint supports ``n``, else one for each."""
        connection = self._connection(endpoint)
        chunks: list[dict[str, int]] = []
        for key, index in sorted(samples.items(), key=itemgetter(1)):
            if chunks and index - 1 in chunks[-1].values() and "n" not in connection.dropped:
                chunks[-1][key] = index
            else:
                chunks.append({key: index})
        tasks = set()
        for chunk in chunks:
            task = asyncio.create_task(self._sender.send(connection, endpoint, request, chunk, is_extra=is_extra))
            self._in_flight |= dict.fromkeys(chunk, task)
            task.add_done_callback(partial(self._ended, chunk))
            tasks.add(task)
        return tasks

    def _ended(self, keys: Iterable[str], task: asyncio.Task[dict[str, Reply]]) -> None:
        for key in keys:
            del self._in_flight[key]
        if not task.cancelled():
            task.exception()  # marked as retrieved: its caller may have been cancelled

    def _connection(self, endpoint: Endpoint) -> EndpointConnection:
        """The connection to an endpoint; roles with the same address, model, key and limits share one."""
        limits = (endpoint.max_concurrency, endpoint.rpm, endpoint.tpm, endpoint.timeout_s)
        key = endpoint.api_key.get_secret_value()
        name = (endpoint.base_url, endpoint.api, endpoint.model, key, limits, endpoint.never_send)
        if name not in self._connections:
            from engine.llm.connection import EndpointConnection  # loads aiohttp, which a resumed run may not need

            connection = EndpointConnection(
                endpoint, self._rule, self._sender.journal, self._sender.clock, self._sender.sleep
            )
            self._connections[name] = connection
        return self._connections[name]


def _cancel_once(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks that were not cancelled yet: a second time would end the attempt in flight, and lose its reply."""
    for task in tasks:
        if not task.cancelling():
            task.cancel()
