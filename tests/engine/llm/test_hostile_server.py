"""Everything against a server that bills, echoes, lies and dies. The server's own count is the judge."""

import asyncio

from engine.llm.retry import RetryPolicy
from engine.records import Outcome
from tests.support.hostile_server import ANSWERED, ECHOES, KINDS, HostileServer
from tests.support.llm_client import ask, client_of

QUICK = RetryPolicy(attempts=4, first_wait_s=0.01, max_wait_s=0.05)


def test_there_are_at_least_sixty_kinds_of_fault():
    assert len(KINDS) >= 60


async def test_each_kind_of_fault_ends_as_it_must_and_is_billed_no_more_than_it_must(journal):
    """Replies are those of a server without faults. Only work whose reply was unusable is billed twice."""
    server = HostileServer()
    kinds = {name: kind for name, kind in KINDS.items() if name not in ECHOES}
    async with client_of(server.app, journal, {"timeout_s": 0.7}, retry=QUICK) as client:
        assert (await client.sample(ask("fine"), [0]))[0].outcome is Outcome.OK
        replies = await asyncio.gather(*(client.sample(ask(f"{name} 1"), [0, 1]) for name in kinds))
        paid = server.billed.copy()
        again = await asyncio.gather(
            *(client.sample(ask(f"{name} 1"), [0, 1]) for name, kind in kinds.items() if kind.ends == ANSWERED)
        )
    assert server.billed == paid  # the journal has every answer
    assert len(again) > 50
    for (name, kind), pair in zip(kinds.items(), replies, strict=True):
        wanted = [f"{name} 1/0", f"{name} 1/1"] if kind.ends == ANSWERED else [None, None]
        assert [reply.outcome.value for reply in pair] == [kind.ends] * 2, name
        assert [reply.completion and reply.completion.text for reply in pair] == wanted, name
        assert paid[f"{name} 1"] == kind.bills, name
