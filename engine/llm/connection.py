"""The connection to one endpoint: HTTP pool, concurrency slots, pauses and known capabilities."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from engine.api_manager import Endpoint
from engine.llm.journal import ResponseJournal
from engine.llm.limits import AdaptiveConcurrency, ConcurrencyRule, MinuteLimits, Use
from engine.llm.quirks import OPTIONAL
from engine.llm.replies import ChatResponse
from engine.llm.requests import format_of
from engine.llm.retry import RequestContext, RetryDecision
from engine.llm.transport import Transport, classify_exception

_CAPABILITIES_AGE_S = 7 * 86400.0
_KNOWN_START = 64
"""Initial limit if the endpoint has a ``max_concurrency`` and it is not smaller."""
_DEFAULT_COMPLETION_TOKENS = 2048


class EndpointConnection:
    """The state that one client keeps for one endpoint. For one event loop.

    Args:
        endpoint: gives address, key and limits; roles that share these share the connection.
        rule: parameters of the adaptive concurrency, for an endpoint without ``max_concurrency``.
        journal: stores the endpoint's capabilities; may be None.
        clock: monotonic time in seconds.
        sleep: as ``asyncio.sleep``.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        rule: ConcurrencyRule,
        journal: ResponseJournal | None,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        if (most := endpoint.max_concurrency) is not None:  # it is known to take so many
            rule = ConcurrencyRule(max(rule.start, min(most, _KNOWN_START)), most)
        self.endpoint = endpoint
        self.controller = AdaptiveConcurrency(rule)
        self.transport = Transport(endpoint, rule.maximum)
        self.answers = 0
        self.reports_finish = False
        self.reached = False
        self.first_sent_at = 0.0
        self.in_flight = 0
        self.testing = asyncio.Lock()
        self.failed_test: int | None = None
        self._journal, self._clock, self._sleep = journal, clock, sleep
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._queue: deque[asyncio.Future[None]] = deque()
        self._paused_until = 0.0
        self._longest_completion = 0
        self._completion_sum = 0
        self._completion_count = 0
        self._rates = MinuteLimits(endpoint.rpm, endpoint.tpm, clock, sleep) if endpoint.rpm or endpoint.tpm else None
        api = format_of(endpoint)
        # What one API of a server refuses, another one may take.
        self._address = endpoint.shown_url + (api.path if endpoint.api != "chat" else "")
        facts = journal.capabilities(self._address, endpoint.model, _CAPABILITIES_AGE_S) if journal else {}
        self.proven: set[str] = set()
        """The optional parts of requests that the endpoint answered."""
        dropped = facts.get("dropped")
        known = set(OPTIONAL).intersection(map(str, dropped)) if isinstance(dropped, list) else set()
        self.dropped = known | set(endpoint.never_send) | api.lacks
        """The parts that it refused or ignored; they are not sent again."""

    async def acquire(self, tokens: int, *, is_urgent: bool = False) -> Use:
        """Wait for a slot, for the end of a pause and for the limits per minute.

        Args:
            tokens: estimated tokens of the request; they count towards ``tpm``.
            is_urgent: whether the request gets a slot before those that are not.

        Returns:
            what to pass to :meth:`release`.
        """
        if self.in_flight < self.controller.limit and not self._urgent and not self._queue:
            self.in_flight += 1
        else:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            (self._urgent if is_urgent else self._queue).append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():  # the slot was assigned before the cancellation
                    self.release()
                raise
        self.controller.sent(self.in_flight)
        try:
            while (seconds := self._paused_until - self._clock()) > 0:
                await self._sleep(seconds)
            return await self._rates.acquire(tokens) if self._rates else Use(self._clock(), tokens)
        except BaseException:
            self.release()
            raise

    def release(self, use: Use | None = None, tokens: int = 0) -> None:
        """Return the slot of a finished request and count the tokens that it used."""
        self.in_flight -= 1
        for queue in (self._urgent, self._queue):
            while queue and self.in_flight < self.controller.limit:
                waiter = queue.popleft()
                if not waiter.done():
                    self.in_flight += 1
                    waiter.set_result(None)
        if self._rates is not None and use is not None:
            self._rates.correct(use, tokens)

    def pause(self, seconds: float) -> None:
        """Send nothing to this endpoint for ``seconds``. A longer pause in place is kept."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    def record_reply(self, response: ChatResponse, names: frozenset[str], samples: int) -> None:
        """Record what a reply shows.

        Args:
            response: the reply.
            names: names of the optional parts that were sent.
            samples: how many samples were asked for.
        """
        self.controller.succeeded(self._clock())
        if "n" in names and len(response.choices) < samples:
            names -= {"n"}
            self.drop_parameter("n")
        self.answers += 1
        self.reports_finish |= any(choice and choice.finish_reason is not None for choice in response.choices)
        self.proven |= names
        tokens, choices = response.completion_tokens, len(response.choices)
        self._completion_sum += tokens
        self._completion_count += choices
        self._longest_completion = max(self._longest_completion, -(-tokens // choices))

    def drop_parameter(self, name: str) -> bool:
        """Record that the endpoint refuses or ignores this part of requests; whether that was not known."""
        is_new = name not in self.dropped
        self.dropped.add(name)
        if self._journal is not None:
            facts = {"dropped": sorted(self.dropped)}
            self._journal.remember_capabilities(self._address, self.endpoint.model, facts)
        return is_new

    def expected_completion_tokens(self, max_tokens: int | None) -> int:
        """Expected tokens of one sample: the mean so far, at most ``max_tokens``."""
        if not self._completion_count:
            return max_tokens or _DEFAULT_COMPLETION_TOKENS
        mean = -(-self._completion_sum // self._completion_count)
        return mean if max_tokens is None else min(mean, max_tokens)

    def largest_completion_tokens(self, max_tokens: int | None) -> int:
        """Upper bound for one sample: ``max_tokens``; without it the largest completion so far."""
        return max_tokens or self._longest_completion or _DEFAULT_COMPLETION_TOKENS

    def classify(self, error: Exception, optional: frozenset[str], max_tokens: int | None) -> RetryDecision | None:
        """Classify an exception of :attr:`transport`; None for one that is no failure of the request.

        Args:
            error: the exception.
            optional: names of the optional parts that were sent.
            max_tokens: the limit that was sent, if any.
        """
        return classify_exception(error, RequestContext(optional, max_tokens, self.answers > 0, time.time()))
