"""A server that works is waited for; one that says nothing is given up after timeout_s."""

import asyncio

import pytest
from aiohttp import web

from engine.llm import server_progress, trouble
from engine.llm.cancellation import running_timeout
from engine.llm.limits.concurrency import AdaptiveConcurrency, ConcurrencyRule
from engine.llm.retry import RetryPolicy
from engine.llm.wire.server_metrics import ServerMetrics, metrics_url, read_metrics
from engine.records import Outcome, Sampling
from tests.support.fault_server import chat_app
from tests.support.llm_client import VirtualClock, answer, ask, client_of, texts
from tests.support.slow_server import PAGE, SlowServer

ONCE = RetryPolicy(attempts=1)


async def test_a_server_whose_tokens_increase_is_waited_for_beyond_the_timeout():
    server = SlowServer(seconds=4.0)
    async with client_of(server.app, endpoint={"timeout_s": 1.5}, retry=ONCE) as client:
        assert texts(await client.sample(ask("q"), [0])) == ["q"]
        assert (client.counters.requests_sent, client.counters.retries) == (1, 0)


async def test_requests_in_the_queue_of_a_working_server_are_waited_for():
    """The last of six waits for 4.8 s, three times the timeout."""
    server = SlowServer(seconds=0.8)
    async with client_of(server.app, endpoint={"timeout_s": 1.5}, retry=ONCE) as client:
        replies = await asyncio.gather(*(client.sample(ask(f"q{n}"), [0]) for n in range(6)))
    assert [reply.outcome for [reply] in replies] == [Outcome.OK] * 6


@pytest.mark.parametrize(
    "server", [{"has_page": False}, {"is_stuck": True}], ids=["no page", "its counters stand still"]
)
async def test_a_server_that_shows_no_progress_is_given_up_after_the_timeout(server):
    slow = SlowServer(seconds=2.0, **server)
    loop = asyncio.get_running_loop()
    async with client_of(slow.app, endpoint={"timeout_s": 0.6}, retry=ONCE, drain_s=0.0) as client:
        began = loop.time()
        [reply] = await client.sample(ask("q"), [0])
        assert (reply.outcome, reply.fault.kind) == (Outcome.INFRA_FAULT, "timeout")
        assert loop.time() - began < 1.8


async def test_a_reply_to_another_request_is_progress_of_a_server_with_a_queue_only():
    outcomes = {}
    for queues in (True, False):
        server = SlowServer(seconds=0.5, has_page=False)
        endpoint = {"timeout_s": 1.2, "queues_requests": queues}  # the third of four replies comes after 1.5 s
        async with client_of(server.app, endpoint=endpoint, retry=ONCE) as client:
            replies = await asyncio.gather(*(client.sample(ask(f"q{n}"), [0]) for n in range(4)))
        outcomes[queues] = {reply.outcome for [reply] in replies}
    assert outcomes == {True: {Outcome.OK}, False: {Outcome.OK, Outcome.INFRA_FAULT}}


async def test_the_expected_time_is_told_instead_of_silence(monkeypatch):
    monkeypatch.setattr(trouble, "_SILENT_S", 0.8)
    monkeypatch.setattr(server_progress, "_WATCH_AFTER_S", 0.05)
    monkeypatch.setattr(server_progress, "_POLL_S", 0.1)
    told = []
    async with client_of(SlowServer(seconds=1.5).app, endpoint={"timeout_s": 60.0}) as client:
        client.report_trouble_to(told.append)
        calls = [client.sample(ask(f"q{n}", sampling=Sampling(max_tokens=40)), [0]) for n in range(3)]
        await asyncio.gather(*calls)
    first = told[0]
    assert first.startswith("http://127.0.0.1:")
    # 20 tokens in 1.5 s; three sequences with at most 40 tokens each.
    assert " is working: " in first
    assert "1 sequences run there and 2 wait; about 0:00:" in first
    assert not any("no reply" in line for line in told)


async def test_requests_in_flight_follow_what_the_server_works_on(monkeypatch):
    """The server holds two sequences. Of 20 slots, three are left, and no request is lost."""
    monkeypatch.setattr(server_progress, "_WATCH_AFTER_S", 0.05)
    monkeypatch.setattr(server_progress, "_POLL_S", 0.05)
    server = SlowServer(seconds=0.2, sequences=2)
    async with client_of(server.app) as client:
        calls = [asyncio.create_task(client.sample(ask(f"q{n}"), [0])) for n in range(40)]
        await asyncio.sleep(0.1)
        assert client.counters.in_flight == 20
        await asyncio.gather(*calls[:24])
        assert client.counters.in_flight <= 4
        replies = await asyncio.gather(*calls)
    assert texts([reply for [reply] in replies]) == [f"q{n}" for n in range(40)]


async def test_a_server_that_answers_at_once_is_never_asked_for_its_page():
    server = SlowServer(seconds=0.01)
    async with client_of(server.app) as client:
        for n in range(20):
            await client.sample(ask(f"q{n}"), [0])
    assert server.looks == 0


@pytest.mark.parametrize(
    ("in_flight", "running", "waiting", "limit"),
    [
        (100, 60, 40, 75),  # 60 of its own and a quarter more
        (100, 240, 160, 75),  # four samples a request
        (100, 90, 10, 100),  # a quarter may wait
        (50, 10, 40, 13),
        (3, 1, 400, 1),
        (100, 0, 100, 100),  # nothing is known yet
    ],
)
def test_the_limit_after_a_queue(in_flight, running, waiting, limit):
    controller = AdaptiveConcurrency(ConcurrencyRule(start=100))
    controller.server_queues(in_flight, running, waiting)
    assert controller.limit == limit


def test_the_page_of_vllm_is_read_and_others_are_not():
    page = PAGE.format(running=3, waiting=2, tokens=1.5e4)
    assert read_metrics(page) == ServerMetrics(11.0, 15000.0, 3, 2)
    two_engines = page + page.replace('engine="0"', 'engine="1"')
    assert read_metrics(two_engines) == ServerMetrics(22.0, 30000.0, 6, 4)
    assert read_metrics("process_cpu_seconds_total 5.0\n") is None
    assert read_metrics("<html>vllm:generation_tokens_total 1</html>") is None


@pytest.mark.parametrize(
    ("base_url", "page"),
    [
        ("http://localhost:8129/v1", "http://localhost:8129/metrics"),
        ("https://host/team/v1?key=a", "https://host/team/metrics"),
        ("http://host", "http://host/metrics"),
    ],
)
def test_the_page_is_beside_the_api(base_url, page):
    assert metrics_url(base_url) == page


async def test_a_timeout_is_counted_anew_while_there_is_progress():
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError):
        async with running_timeout(0.1, lambda: began + 0.3 - loop.time()):
            await asyncio.sleep(5)
    assert 0.29 <= loop.time() - began < 2


async def test_the_wait_for_a_slot_is_not_taken_from_the_time_for_retries():
    """One request at a time, each of 200 s; the second, which has waited for as long, fails once."""
    virtual, asked = VirtualClock(), []
    app = chat_app(answer)

    @web.middleware
    async def slow(request, handler):
        asked.append(await request.json())
        virtual.now += 200.0
        return web.Response(status=503) if len(asked) == 2 else await handler(request)

    app.middlewares.append(slow)
    options = {"retry": RetryPolicy(total_s=300.0), "clock": virtual.clock, "sleep": virtual.sleep}
    async with client_of(app, endpoint={"max_concurrency": 1, "timeout_s": 60.0}, **options) as client:
        replies = await asyncio.gather(client.sample(ask("first"), [0]), client.sample(ask("second"), [0]))
    assert texts([reply for [reply] in replies]) == ["first/0", "second/0"]
    assert len(asked) == 3
