"""The servers of a role: each request goes to one that works, and a server that fails is taken out for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.llm.retry import RetryAction, RetryDecision

if TYPE_CHECKING:
    from engine.api_manager import Endpoint
    from engine.llm.connection import EndpointConnection

_FAILURES = 2
"""A server is taken out after this many failures without a reply between them; at once if it cannot be reached."""
_COUNTED = (RetryAction.RETRY, RetryAction.SLOW_DOWN, RetryAction.STOP)


@dataclass(frozen=True)
class Server:
    """One endpoint of a role, and the connection to it."""

    endpoint: Endpoint
    connection: EndpointConnection


class ServerPool:
    """The servers of one role. With a single server it is never taken out.

    Args:
        servers: at least one.
        clock: monotonic time in seconds.
    """

    def __init__(self, servers: Sequence[Server], clock: Callable[[], float]) -> None:
        self.servers = servers
        self._clock = clock

    @property
    def reached(self) -> bool:
        """Whether any server was reached since the start."""
        return any(server.connection.reached for server in self.servers)

    def pick(self) -> Server:
        """The server that will probably reply first: by load and time per reply. If all are out, the next to return."""
        if len(self.servers) == 1:
            return self.servers[0]
        now = self._clock()
        usable = [server for server in self.servers if self._is_usable(server, now)]
        if not usable:
            return min(self.servers, key=lambda server: (server.connection.health.refused, _returns_at(server)))
        paces = [server.connection.health.pace_s(now) for server in usable]
        best = min((pace for pace in paces if pace is not None), default=1.0)  # an unknown server may be the best

        def expected_wait(server: Server) -> float:
            pace = server.connection.health.pace_s(now)
            return (server.connection.health.load + 1) * max(1e-3, best if pace is None else pace)

        return min(usable, key=expected_wait)

    def should_move(self, server: Server) -> bool:
        """Whether a request that is assigned to ``server`` should go to another one."""
        if len(self.servers) == 1:
            return False
        now = self._clock()
        if now >= _returns_at(server):
            return False
        return any(self._is_usable(other, now) for other in self.servers if other is not server)

    def failed(self, server: Server, decision: RetryDecision) -> str:
        """Record a failed attempt.

        Returns:
            a message if the server was taken out, else an empty text.
        """
        if len(self.servers) == 1 or decision.action not in _COUNTED:
            return ""
        health, now = server.connection.health, self._clock()
        health.refused = health.refused or decision.action is RetryAction.STOP
        if now < health.out_until:  # sent before it was taken out, or because all servers are out
            return ""
        health.failures += 1
        if not (health.refused or decision.code == "connection" or health.failures >= _FAILURES):
            return ""
        seconds = health.take_out(now)
        others = sum(self._is_usable(other, now) for other in self.servers)
        return f"no requests to {server.endpoint.shown_url} for {seconds:.0f} s; {others} other servers in use"

    def all_refuse(self) -> bool:
        """Whether no server is left that might take requests."""
        return all(server.connection.health.refused for server in self.servers)

    def _is_usable(self, server: Server, now: float) -> bool:
        """After a failure, one request at a time tests whether a server works again."""
        if now < _returns_at(server):
            return False
        return not server.connection.health.out_until or not server.connection.health.load


def _returns_at(server: Server) -> float:
    return max(server.connection.health.out_until, server.connection.paused_until)
