"""One request for samples of a prompt: its server, its attempts so far, and what it has reserved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.api_manager import Endpoint
from engine.llm.retry import RetryDecision
from engine.llm.servers import Server, ServerPool
from engine.llm.tally import Spent
from engine.llm.trouble import describe
from engine.llm.wire.requests import CHAT, optional_names
from engine.records import REFUSED_REQUEST, ChatRequest, Completion, Fault, Outcome, Reply

if TYPE_CHECKING:
    from engine.llm.connection import EndpointConnection
    from engine.llm.limits.budget import Hold
    from engine.llm.limits.rate_lease import Permit


@dataclass(frozen=True)
class Sample:
    """One sample of a request: its index and its journal key."""

    index: int
    key: str


@dataclass
class PendingCall:
    """A request for samples with consecutive indices, and the totals of its attempts so far.

    ``server`` is the one of ``pool`` that gets the next attempt; ``is_urgent``: a problem that was asked already waits
    for this request; ``unreached`` counts the failed attempts before any server was reached; ``wasted`` are the tokens
    that failed attempts reported; ``answers_before`` counts the replies of the server before the last attempt.
    ``permit``, ``hold`` and ``largest`` (the highest possible prompt and completion tokens) are of the present attempt.
    """

    pool: ServerPool
    server: Server
    request: ChatRequest
    samples: Sequence[Sample]
    is_urgent: bool
    attempts: int = 0
    failures: int = 0
    is_last: bool = False
    unreached: int = 0
    wasted: Spent = field(default_factory=Spent)
    latency_s: float = 0.0
    first_sent_at: float | None = None
    answers_before: int = 0
    permit: Permit | None = None
    hold: Hold | None = None
    largest: tuple[int, int] = (0, 0)

    @property
    def connection(self) -> EndpointConnection:
        """The connection to the server."""
        return self.server.connection

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of the server."""
        return self.server.endpoint

    def move(self) -> bool:
        """Assign the request to the best server now; whether that is another one."""
        server = self.pool.pick()
        if server is self.server:
            return False
        self.connection.health.load -= len(self.samples)
        self.server = server
        self.connection.health.load += len(self.samples)
        return True

    @property
    def parameters(self) -> frozenset[str]:
        """The optional parts that the next attempt sends."""
        return optional_names(self.request, self.endpoint, len(self.samples), self.connection.capabilities)

    @property
    def proven(self) -> bool:
        """Whether the endpoint has already answered a request with these parts."""
        return self.connection.capabilities.proven >= {CHAT, *self.parameters}

    @property
    def kind(self) -> tuple[object, ...]:
        """Requests of one kind take comparable times."""
        return self.request.role, self.request.purpose, len(self.samples)

    @property
    def n_unsupported(self) -> bool:
        """Whether the call needs ``n`` and the endpoint does not support it."""
        return len(self.samples) > 1 and "n" in self.connection.capabilities.dropped

    def failed(self, decision: RetryDecision, *, is_alone: bool) -> dict[str, Reply]:
        """The replies of a call that failed permanently; ``is_alone``: the endpoint answers other requests."""
        kind = REFUSED_REQUEST if is_alone else decision.code
        fault = Fault(kind=kind, message=describe(self.endpoint, decision, answered=True))
        return {s.key: Reply(sample_index=s.index, outcome=Outcome.INFRA_FAULT, fault=fault) for s in self.samples}

    def suspect(self, decision: RetryDecision) -> str:
        """The JSON schema, if a request with it fails again with status 500, and others were answered; else empty."""
        proven = self.connection.capabilities.proven
        is_new = CHAT in proven and "response_format" in self.parameters - proven
        return "response_format" if is_new and self.failures and decision.code == "http_500" else ""


def reply_of(index: int, completion: Completion) -> Reply:
    """The reply for a completion. An empty completion of the provider's content filter is a model fault."""
    if completion.finish_reason == "content_filter" and not completion.text:
        fault = Fault(kind="content_filter", message="the provider's content filter withheld the reply")
        return Reply(sample_index=index, outcome=Outcome.MODEL_FAULT, completion=completion, fault=fault)
    return Reply(sample_index=index, outcome=Outcome.OK, completion=completion)
