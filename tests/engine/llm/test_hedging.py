"""A request that takes unusually long is sent a second time: the first reply counts, and both are paid for."""

import asyncio
import contextlib
import sqlite3

import pytest
from aiohttp import web

from engine.llm.hedging import LatencyRecord, first_success
from engine.llm.limits.budget import Budget
from engine.records import Sampling
from tests.support.fault_server import chat_app
from tests.support.llm_client import answer, ask, client_of, texts

KIND = ("generator_1", "rollout", 1)


def test_the_quantile_is_known_after_twenty_replies():
    record = LatencyRecord()
    for seconds in range(1, 20):
        record.add(KIND, float(seconds))
    assert record.quantile(KIND, 0.9) is None
    for seconds in (20, 21):
        record.add(KIND, float(seconds))
    assert record.quantile(KIND, 0.5) == pytest.approx(11.0)
    assert record.quantile(KIND, 0.9) == pytest.approx(19.0)
    assert record.quantile(("other",), 0.9) is None


def test_old_replies_are_forgotten():
    record = LatencyRecord()
    for seconds in [100.0] * 300 + [1.0] * 256:
        record.add(KIND, seconds)
    assert record.quantile(KIND, 0.99) == 1.0


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ("reply", None, "reply 1"),
        ("never", "reply", "reply 2"),
        ("never fails later", "reply", "reply 2"),
        ("late reply", "failure", "reply 1"),
        ("late reply", "error", "reply 1"),
        ("late failure", "late reply", "reply 2"),
        ("late failure", "failure", "failure 1"),
        ("late failure", "error", "failure 1"),
    ],
)
async def test_the_first_success_counts(first, second, result):
    """``late``: after the second try has begun, and later than a try without that word."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def attempt(kind, number):
        if number == 2:
            begun.set()
        try:
            if kind.startswith("never"):
                await asyncio.Event().wait()
            if kind.startswith("late"):
                await begun.wait()
                for _ in range(10 if number == 1 else 20):
                    await asyncio.sleep(0)
            if kind == "error":
                raise RuntimeError("no budget")
            return f"{kind.split()[-1]} {number}"
        finally:
            if number == 1:
                ended.set()

    async def sleep(seconds):
        assert seconds == 3.0
        if first == "reply":
            await asyncio.Event().wait()

    task = asyncio.create_task(attempt(first, 1))
    got = await first_success(task, lambda: attempt(second, 2), lambda text: text.startswith("reply"), 3.0, sleep)
    assert got == result
    assert task.done()
    assert begun.is_set() == (second is not None)


class StragglingServer:
    """Answers at once, but never the first request for each prompt in ``stragglers``; lists what it receives."""

    def __init__(self, *stragglers):
        self.received = []
        self.app = chat_app(answer)

        @web.middleware
        async def hold(request, handler):
            prompt = (await request.json())["messages"][-1]["content"]
            self.received.append(prompt)
            if prompt in stragglers and self.received.count(prompt) == 1:
                await asyncio.Event().wait()
            return await handler(request)

        self.app.middlewares.append(hold)


async def warm(client):
    """The replies that the quantile needs."""
    await asyncio.gather(*(client.sample(ask(f"w{n}", sampling=Sampling(max_tokens=20)), [0]) for n in range(20)))


async def test_a_straggler_is_sent_again_and_the_journal_keeps_one_reply(journal):
    server = StragglingServer("slow")
    async with client_of(server.app, journal, {"timeout_s": 60.0}, hedge=0.5) as client:
        await warm(client)
        before = client.counters.hedged
        assert texts(await client.sample(ask("slow"), [0])) == ["slow/0"]
        assert client.counters.hedged - before == 1
        assert server.received.count("slow") == 2
        assert client.counters.in_flight == 0
        assert texts(await client.sample(ask("slow"), [0])) == ["slow/0"]
        assert server.received.count("slow") == 2
    with contextlib.closing(sqlite3.connect(journal.path)) as file:
        rows = file.execute("SELECT count(*) FROM replies WHERE completion LIKE '%slow/0%'").fetchone()
    assert rows == (1,)


async def test_without_the_option_no_request_is_sent_twice(journal):
    server = StragglingServer("slow")
    async with client_of(server.app, journal, {"timeout_s": 0.3}) as client:
        await warm(client)
        assert texts(await client.sample(ask("slow"), [0])) == ["slow/0"]  # after the time limit, as a retry
        assert client.counters.hedged == 0
        assert client.counters.retries == len(server.received) - 21 >= 1  # 20 to warm up, and this one


async def test_the_request_that_is_given_up_is_charged_what_it_reserved(journal):
    """11 + 6 tokens of the reply, and 7 + 20 that the straggler may have used."""
    server = StragglingServer("slow")
    budget = Budget(tokens=10_000)
    async with client_of(server.app, journal, {"timeout_s": 60.0}, hedge=0.5, budget=budget) as client:
        await warm(client)
        request = ask("slow", sampling=Sampling(max_tokens=20))
        reserved = []
        hold = budget.hold

        async def noted(tokens, usd):
            reserved.append(tokens)
            return await hold(tokens, usd)

        budget.hold = noted
        before = budget.spent_tokens
        await client.sample(request, [0])
        assert len(reserved) == 2
        assert budget.spent_tokens - before == 11 + len("slow/0") + reserved[0]


async def test_a_budget_that_allows_no_second_request_does_not_end_the_first(journal):
    """The first request is answered after the second was refused for the budget."""
    asked_twice = asyncio.Event()
    app = chat_app(answer)

    @web.middleware
    async def hold(request, handler):
        if (await request.json())["messages"][-1]["content"] == "slow":
            await asked_twice.wait()
        return await handler(request)

    app.middlewares.append(hold)
    budget = Budget(tokens=100_000)
    async with client_of(app, journal, {"timeout_s": 60.0}, hedge=0.5, budget=budget) as client:
        await warm(client)
        take, holds = budget.hold, []

        async def only_once(tokens, usd):
            holds.append(tokens)
            if len(holds) == 2:
                budget.tokens = budget.spent_tokens
                asyncio.get_running_loop().call_soon(asked_twice.set)
            return await take(tokens, usd)

        budget.hold = only_once
        assert texts(await client.sample(ask("slow", sampling=Sampling(max_tokens=20)), [0])) == ["slow/0"]
        assert client.counters.hedged == 0
