"""One request for samples of a prompt: its server, its attempts so far, and what it has reserved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.api_manager import Endpoint
from engine.llm.retry import RetryAction, RetryDecision
from engine.llm.servers import Server, ServerPool
from engine.llm.tally import Spent
from engine.llm.trouble import describe
from engine.llm.wire.requests import CHAT, optional_names
from engine.records import ChatRequest, Completion, Fault, Outcome, Reply

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
    that failed attempts reported. ``permit``, ``hold`` and ``largest`` (the highest possible prompt and completion
    tokens) are of the present attempt.
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
        """The optional parameters that the next attempt sends."""
        return optional_names(self.request, len(self.samples), self.connection.capabilities)

    @property
    def proven(self) -> bool:
        """Whether the endpoint has already answered a request with these parameters."""
        return self.connection.capabilities.proven >= {CHAT, *self.parameters}

    @property
    def kind(self) -> tuple[object, ...]:
        """Requests of one kind take comparable times."""
        return self.request.role, self.request.purpose, len(self.samples)

    @property
    def n_unsupported(self) -> bool:
        """Whether the call needs ``n`` and the endpoint does not support it."""
        return len(self.samples) > 1 and "n" in self.connection.capabilities.dropped

    def failed(self, decision: RetryDecision) -> dict[str, Reply]:
        """The replies of a call that failed permanently."""
        outcome = Outcome.MODEL_FAULT if decision.action is RetryAction.REJECT else Outcome.INFRA_FAULT
        is_infra = outcome is Outcome.INFRA_FAULT
        message = describe(self.endpoint, decision, answered=True) if is_infra else decision.message
        fault = Fault(kind=decision.code, message=message)
        return {s.key: Reply(sample_index=s.index, outcome=outcome, fault=fault) for s in self.samples}


def reply_of(index: int, completion: Completion) -> Reply:
    """The reply for a completion. An empty completion of the provider's content filter is a model fault."""
    if completion.finish_reason == "content_filter" and not completion.text:
        fault = Fault(kind="content_filter", message="the provider's content filter withheld the reply")
        return Reply(sample_index=index, outcome=Outcome.MODEL_FAULT, completion=completion, fault=fault)
    return Reply(sample_index=index, outcome=Outcome.OK, completion=completion)
