import asyncio
import gc
import random
import warnings
from collections import Counter

import pytest
from aiohttp import web

from engine.errors import BudgetExceededError
from engine.llm.budget import Budget
from engine.llm.journal import ResponseJournal
from engine.llm.limits import ConcurrencyRule
from engine.records import Sampling
from tests.support.fault_server import FaultPlan, chat_app
from tests.support.llm_client import SECRET, VirtualClock, answer, ask, client_of, manager, texts


async def test_concurrency_grows_up_to_the_maximum_of_the_endpoint(journal):
    running, most = 0, []

    async def slow(request, handler):
        nonlocal running
        if request.method != "POST":  # on a busy machine the client asks for the server's metrics, too
            return await handler(request)
        running += 1
        most.append(running)
        await asyncio.sleep(0.05)
        running -= 1
        return await handler(request)

    for endpoint, expected in (({}, range(21, 120)), ({"max_concurrency": 7}, range(7, 8))):
        most.clear()
        app = chat_app(answer)
        app.middlewares.append(web.middleware(slow))
        async with client_of(app, journal, endpoint, concurrency=ConcurrencyRule(start=10)) as client:
            await asyncio.gather(*(client.sample(ask(f"{endpoint}{n}"), [0]) for n in range(120)))
            assert max(most) in expected
            [connection] = client._connections.values()
            assert connection.controller.limit in expected


class GatedServer:
    """Holds every request until :meth:`let_go`; ``arrived`` has their prompts in order of arrival."""

    def __init__(self):
        self.arrived, self._gates = [], []
        self._changed = asyncio.Event()
        self.app = chat_app(answer)

        @web.middleware
        async def hold(request, handler):
            self.arrived.append((await request.json())["messages"][-1]["content"])
            self._gates.append(gate := asyncio.Event())
            self._changed.set()
            await gate.wait()
            return await handler(request)

        self.app.middlewares.append(hold)

    async def has(self, count):
        """Wait for this number of requests."""
        while len(self.arrived) < count:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 60)

    def let_go(self, index):
        """Answer one request."""
        self._gates[index].set()


async def test_requests_about_replies_go_before_new_problems(journal):
    server = GatedServer()
    endpoint = {"max_concurrency": 2, "timeout_s": 60.0}
    async with client_of(server.app, journal, endpoint) as client:

        def start(name, purpose):
            return asyncio.create_task(client.sample(ask(name, purpose=purpose), [0]))

        tasks = [start(f"p{n}", "rollout") for n in range(4)]
        await server.has(2)
        tasks += [start("a0", "analysis"), start("a1", "judge")]
        for index in range(6):
            await server.has(min(6, 2 + index))
            server.let_go(index)
        await asyncio.gather(*tasks)
    assert server.arrived == ["p0", "p1", "a0", "a1", "p2", "p3"]


async def test_the_requests_per_minute_of_an_endpoint_hold_for_all_its_roles(journal):
    virtual = VirtualClock()
    options = {"clock": virtual.clock, "sleep": virtual.sleep}
    began = virtual.now
    async with client_of(chat_app(answer), journal, {"rpm": 4}, **options) as client:
        await asyncio.gather(*(client.sample(ask(f"q{n}", "g" if n % 2 else "twin"), [0]) for n in range(10)))
    assert 2 * 60 < virtual.now - began < 2 * 62


async def test_a_budget_is_never_exceeded_and_journal_hits_are_free(journal):
    app = chat_app(answer)
    budget = Budget(tokens=400)
    requests = [ask(f"q{n}", sampling=Sampling(max_tokens=20)) for n in range(50)]
    async with client_of(app, journal, budget=budget) as client:
        results = await asyncio.gather(*(client.sample(request, [0]) for request in requests), return_exceptions=True)
        kinds = Counter(type(result) for result in results)
        assert set(kinds) == {list, BudgetExceededError}
        counters = client.counters
        assert counters.prompt_tokens + counters.completion_tokens == budget.spent_tokens <= 400
        # A request uses 11 + 4 or 5 tokens and reserves 8 + 20 before it is sent.
        assert budget.spent_tokens > 400 - 28 - 28
        done = [request for request, result in zip(requests, results, strict=True) if isinstance(result, list)]
        sent = counters.requests_sent
        assert texts(await client.sample(done[0], [0])) == [texts(results[requests.index(done[0])])[0]]
        assert client.counters.requests_sent == sent == len(done)


def app_without_usage():
    async def chat(request):
        choice = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    return app


async def test_replies_without_usage_are_charged_their_upper_bound(journal):
    app, budget = app_without_usage(), Budget(tokens=400, usd=1.0)
    requests = [ask(f"q{n}", sampling=Sampling(max_tokens=20)) for n in range(30)]
    async with client_of(app, journal, {"price_in": 1.0, "price_out": 2.0}, budget=budget) as client:
        results = await asyncio.gather(*(client.sample(request, [0]) for request in requests), return_exceptions=True)
        counters = client.counters
    # A request of two bytes reserves 2 + 16 for the prompt and 20 for the reply, one of three bytes one more.
    assert [isinstance(result, list) for result in results] == [True] * 10 + [False] * 20
    assert budget.spent_tokens == 10 * 38
    assert budget.spent_usd == pytest.approx(10 * (18 + 2 * 20) / 1e6)
    assert (counters.prompt_tokens, counters.completion_tokens, counters.estimated) == (10 * 18, 10 * 20, 10)
    assert counters.cost_usd == pytest.approx(budget.spent_usd)


async def test_tokens_of_replies_without_usage_are_estimated_also_without_a_budget(journal):
    async with client_of(app_without_usage(), journal) as client:
        await client.sample(ask("q", sampling=Sampling(max_tokens=20), purpose="rollout"), [0])
        counters = client.counters
    for spent in (counters, counters.by_purpose["rollout"]):
        assert (spent.prompt_tokens, spent.completion_tokens, spent.estimated) == (17, 20, 1)


async def test_the_tokens_of_failed_attempts_are_counted(journal):
    plan = FaultPlan(seed=1, rate=1.0, kinds=["empty"], max_consecutive_per_request=2)
    budget = Budget(tokens=10_000)
    async with client_of(chat_app(answer, faults=plan), journal, budget=budget) as client:
        (reply,) = await client.sample(ask("q"), [0])
        usage = reply.completion.usage
        assert (usage.attempts, usage.prompt_tokens, usage.completion_tokens) == (3, 7 + 7 + 11, 3)
        assert client.counters.prompt_tokens == 25
        assert budget.spent_tokens == 28


async def test_cancelled_calls_leak_no_slot_and_lose_no_received_reply(journal):
    app = chat_app(answer, latency_s=0.05)
    rng = random.Random(6)
    async with client_of(app, journal, endpoint={"max_concurrency": 4}) as client:
        tasks = [asyncio.create_task(client.sample(ask(f"q{n}"), [0])) for n in range(30)]
        for _ in range(20):
            await asyncio.sleep(rng.uniform(0.0, 0.02))
            rng.choice(tasks).cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while client._in_flight:  # noqa: ASYNC110 - the server works on them, so their replies are kept
            await asyncio.sleep(0.01)
        assert client.counters.in_flight == 0
        finished = [n for n, task in enumerate(tasks) if not task.cancelled()]
        sent = client.counters.requests_sent
        for n in finished:
            assert texts(await client.sample(ask(f"q{n}"), [0])) == [f"q{n}/0"]
        assert finished
        assert client.counters.requests_sent == sent
        assert texts(await asyncio.wait_for(client.sample(ask("after"), [0]), 5)) == ["after/0"]


async def test_closing_leaves_no_connection_open(journal, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with client_of(chat_app(answer), journal) as client:
            await asyncio.gather(*(client.sample(ask(f"q{n}"), [0]) for n in range(30)))
        async with client_of(chat_app(answer), journal):
            pass
        with pytest.raises(RuntimeError, match="closed"):
            await client.sample(ask("late"), [0])
        gc.collect()
        await asyncio.sleep(0.05)
    assert "Unclosed" not in caplog.text
    assert "never retrieved" not in caplog.text


async def test_the_key_is_not_written_to_files_or_logs(tmp_path, caplog):
    caplog.set_level("DEBUG")
    journal = ResponseJournal(tmp_path / "journal.sqlite")
    app = chat_app(answer, api_key=SECRET)
    async with client_of(app, journal, {"max_concurrency": 2}) as client:
        assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
    wrong = manager("http://127.0.0.1:9/v1").endpoint("g")
    assert SECRET not in repr(wrong)
    journal.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert SECRET[:8].encode() not in stored
    assert SECRET[:8] not in caplog.text
