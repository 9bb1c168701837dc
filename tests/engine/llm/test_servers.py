"""A list of servers is as good as its best one."""

import asyncio
import contextlib

import pytest

from engine.errors import FatalEndpointError
from engine.llm import server_health
from engine.llm.client import LLMClient
from engine.llm.retry import RetryPolicy
from tests.support.fault_server import serve
from tests.support.hostile_server import HostileServer
from tests.support.llm_client import ask, manager, refusing_url, texts

QUICK = RetryPolicy(attempts=4, first_wait_s=0.05, max_wait_s=0.1)
REQUESTS = 60


async def ask_all(client, name="q", slots=12):
    """Many requests, some at a time."""
    free = asyncio.Semaphore(slots)

    async def one(text):
        async with free:
            assert texts(await client.sample(ask(text), [0])) == [f"{text}/0"]

    await asyncio.gather(*(one(f"fine {name}{n}") for n in range(REQUESTS)))


@contextlib.asynccontextmanager
async def addresses(*apps, dead=0):
    async with contextlib.AsyncExitStack() as stack:
        refused = [stack.enter_context(refusing_url()) for _ in range(dead)]
        yield [*refused, *[await stack.enter_async_context(serve(app)) for app in apps]]


@contextlib.asynccontextmanager
async def client_of(journal, *hosts, retry=QUICK):
    apps = [host.app for host in hosts]
    async with addresses(*apps) as urls, LLMClient(manager(urls), journal=journal, retry=retry) as client:
        yield client


def refusing(status):
    server = HostileServer()
    server.refuse_from, server.refusal = 0, status
    return server


BAD = {
    "unauthorised": lambda: refusing(401),
    "without the model": lambda: refusing(404),
    "without credit": lambda: refusing(402),
    "failing": lambda: refusing(503),
    "overloaded": lambda: refusing(429),
    "no chat API": lambda: HostileServer(kind="html"),
    "breaking connections": lambda: HostileServer(kind="reset"),
    "not HTTP": lambda: HostileServer(kind="not_http"),
}


@pytest.mark.parametrize("kind", [*BAD, "not running", "stalling"])
async def test_one_bad_server_of_three_is_taken_out(kind, journal, caplog):
    good = HostileServer(0.01), HostileServer(0.01)
    bad = [] if kind == "not running" else [HostileServer(20.0) if kind == "stalling" else BAD[kind]()]
    async with addresses(*[server.app for server in (*bad, *good)], dead=kind == "not running") as urls:
        entry = manager(urls, timeout_s=1.0 if kind == "stalling" else 10.0)
        async with LLMClient(entry, journal=journal, retry=QUICK, probe_patience_s=0.1, drain_s=0) as client:
            await ask_all(client)
            retries = client.counters.retries
            await ask_all(client, "r")
            assert client.counters.retries - retries <= 6
    counted = good[0].billed + good[1].billed
    assert len(counted) == 2 * REQUESTS
    assert set(counted.values()) == {1}
    assert "no requests to http://127.0.0.1" in caplog.text


async def test_a_slow_server_gets_few_requests(journal):
    slow, fast = HostileServer(0.4), HostileServer(0.01)
    async with client_of(journal, slow, fast) as client:
        await ask_all(client)
        await ask_all(client, "r")
    assert sum(slow.billed.values()) < 0.2 * sum(fast.billed.values())


async def test_a_server_that_works_again_is_used_again(journal, monkeypatch):
    monkeypatch.setattr(server_health, "_LONGEST_OUT_S", 0.2)
    first, second = refusing(503), HostileServer(0.02)
    async with (
        addresses(first.app, second.app) as urls,
        LLMClient(manager(urls), journal=journal, retry=QUICK) as client,
    ):
        await ask_all(client)
        assert not first.billed
        first.refuse_from = None
        await asyncio.sleep(0.3)
        await ask_all(client, "r")
    assert len(first.billed) > 5


async def test_the_run_stops_only_when_all_servers_refuse(journal):
    first, second = refusing(401), HostileServer()
    async with (
        addresses(first.app, second.app) as urls,
        LLMClient(manager(urls), journal=journal, retry=QUICK) as client,
    ):
        await ask_all(client)
        second.refuse_from, second.refusal = 0, 401
        with pytest.raises(FatalEndpointError, match="refused the API key"):
            await ask_all(client, "r")


async def test_requests_wait_for_a_server_if_all_are_out(journal, monkeypatch):
    monkeypatch.setattr(server_health, "_FIRST_OUT_S", 0.1)
    both = refusing(503), refusing(503)
    async with client_of(journal, *both, retry=RetryPolicy(30, 20.0, 0.05, 0.1)) as client:
        asking = asyncio.create_task(ask_all(client))
        await asyncio.sleep(0.5)
        both[1].refuse_from = None
        await asyncio.wait_for(asking, 10)
    assert len(both[1].billed) == REQUESTS
