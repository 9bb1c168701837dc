import asyncio
import time

import pytest
from aiohttp import web

from engine.errors import ConfigurationError, FatalEndpointError
from engine.llm.client import LLMClient
from engine.llm.limits import ConcurrencyRule
from engine.llm.retry import RetryPolicy
from engine.records import Outcome, Sampling
from tests.support.fault_server import (
    FATAL_KINDS,
    INFRA_KINDS,
    FaultPlan,
    chat_app,
    fault_middleware,
)
from tests.support.llm_client import SECRET, VirtualClock, answer, ask, client_of, manager, texts


async def run_all(app, journal, count=80, **options):
    options = {"endpoint": {"timeout_s": 2.0}, **options}
    async with client_of(app, journal, **options) as client:
        calls = [client.sample(ask(f"q{n}", sampling=Sampling(seed=5)), [0, 1, 2]) for n in range(count)]
        return await asyncio.gather(*calls), client.counters


async def test_with_a_third_of_all_attempts_failing_the_replies_equal_those_of_a_clean_run(journal):
    clean, _ = await run_all(chat_app(answer), None)
    plan = FaultPlan(seed=12, rate=0.3, stall_s=4.0)
    faulty, counters = await run_all(chat_app(answer, faults=plan), journal)
    assert set(plan.injected) == set(INFRA_KINDS)  # every kind occurred
    assert [texts(replies) for replies in faulty] == [texts(replies) for replies in clean]
    assert {reply.outcome for replies in faulty for reply in replies} == {Outcome.OK}
    assert counters.retries == sum(plan.injected.values())
    again, counters = await run_all(chat_app(answer), journal)  # the stored replies are the returned ones
    assert again == faulty
    assert counters.requests_sent == 0


@pytest.mark.parametrize("kind", INFRA_KINDS)
async def test_an_infrastructure_fault_never_becomes_a_completion(kind, journal):
    plan = FaultPlan(seed=1, rate=1.0, kinds=[kind], max_consecutive_per_request=99, stall_s=1.0)
    policy = RetryPolicy(attempts=3, first_wait_s=0.001)
    endpoint = {"timeout_s": 0.05 if kind == "stall" else 5.0}
    async with client_of(chat_app(answer, faults=plan), journal, endpoint, retry=policy) as client:
        for indices in ([0], [0, 1, 2]):
            replies = await client.sample(ask("q"), indices)
            assert {reply.outcome for reply in replies} == {Outcome.INFRA_FAULT}
            assert all(reply.completion is None and reply.fault.kind for reply in replies)
        assert client.counters.requests_sent == 6
        assert client.counters.in_flight == 0


async def test_a_reply_cut_off_at_max_tokens_is_returned(journal):
    plan = FaultPlan(seed=1, rate=1.0, kinds=["length"], max_consecutive_per_request=99)
    async with client_of(chat_app(answer, faults=plan), journal) as client:
        (reply,) = await client.sample(ask("question"), [0])
    assert (reply.outcome, reply.completion.text, reply.completion.finish_reason) == (Outcome.OK, "que", "length")


@pytest.mark.parametrize("kind", FATAL_KINDS)
@pytest.mark.parametrize("mid_run", [False, True])
async def test_a_fatal_refusal_ends_all_calls_immediately(kind, mid_run, journal):
    """Some calls wait for replies that take 30 s, some for a slot, some for the first request."""
    plan = FaultPlan(seed=1, rate=0.0, kinds=[kind], max_consecutive_per_request=10**9)
    app = chat_app(answer, latency_s=30.0)
    app.middlewares.append(fault_middleware(plan))
    rule = ConcurrencyRule(start=200 if mid_run else 20)
    options = {"endpoint": {"timeout_s": 60.0}, "concurrency": rule, "drain_s": 0.1}
    async with client_of(app, journal, **options) as client:
        plan.rate = 0.0 if mid_run else 1.0
        calls = [asyncio.create_task(client.sample(ask(f"q{n}"), [0, 1])) for n in range(190)]
        while mid_run and client.counters.in_flight < 190:  # noqa: ASYNC110 - bounded by the test's time limit
            await asyncio.sleep(0.01)
        plan.rate = 1.0
        began = time.monotonic()
        calls += [asyncio.create_task(client.sample(ask(f"p{n}", role="twin"), [0])) for n in range(100)]
        errors = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 15)
        assert time.monotonic() - began < 10.0
        assert {type(error) for error in errors} == {FatalEndpointError}
        with pytest.raises(FatalEndpointError) as caught:
            await client.sample(ask("later"), [0])
    assert client.counters.in_flight == 0
    message = str(caught.value)
    assert "api_config.json" in message
    assert "http://127.0.0.1" in message
    assert message.startswith(("g: ", "twin: "))
    assert SECRET[:6] not in message
    assert SECRET[-6:] not in message
    assert caught.value.exit_code == 2


async def test_a_refused_prompt_does_not_stop_the_run(journal):
    @web.middleware
    async def refuse(request, handler):
        body = await request.json()
        if "filtered" in body["messages"][0]["content"]:
            error = {"message": "The response was filtered", "code": "content_filter"}
            return web.json_response({"error": error}, status=400)
        if "odd" in body["messages"][0]["content"]:
            return web.json_response({"error": {"message": "no"}}, status=400)
        return await handler(request)

    app = chat_app(answer)
    app.middlewares.append(refuse)
    async with client_of(app, journal) as client:
        assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
        (blocked,) = await client.sample(ask("filtered"), [0])
        (odd,) = await client.sample(ask("odd"), [0])
        assert texts(await client.sample(ask("p"), [0])) == ["p/0"]
    for reply, words in ((blocked, "The response was filtered"), (odd, "HTTP 400: no")):
        assert (reply.outcome, reply.fault.is_alone) == (Outcome.INFRA_FAULT, True)  # open, never scored
        assert reply.fault.message.endswith(words)


async def test_a_request_that_a_proxy_finds_too_large_is_not_scored(journal):
    async def refuse(request):
        return web.Response(status=413, text="<html><h1>413 Request Entity Too Large</h1>nginx</html>")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", refuse)
    async with client_of(app, journal) as client:
        [reply] = await client.sample(ask("q"), [0])
        assert (reply.outcome, reply.fault.kind) == (Outcome.INFRA_FAULT, "http_413")
        assert client.counters.requests_sent == 1


@pytest.mark.parametrize("status", [300, 304, 307])
async def test_a_redirect_without_a_place_does_not_end_a_working_run(status, journal):
    app, odd = chat_app(answer), []

    @web.middleware
    async def redirect(request, handler):
        if b"odd" in await request.read() and not odd:
            odd.append(status)
            return web.Response(status=status)
        return await handler(request)

    app.middlewares.append(redirect)
    async with client_of(app, journal) as client:
        assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
        assert texts(await client.sample(ask("odd"), [0])) == ["odd/0"]
    assert odd == [status]


async def test_a_filtered_reply_is_a_model_fault_also_from_the_journal(journal):
    async def filtered(request):
        choice = {"index": 0, "message": {"content": ""}, "finish_reason": "content_filter"}
        return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 0}})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", filtered)
    async with client_of(app, journal) as client:
        first = await client.sample(ask("q"), [0])
        assert (first[0].outcome, first[0].fault.kind) == (Outcome.MODEL_FAULT, "content_filter")
        assert await client.sample(ask("q"), [0]) == first
        assert client.counters.requests_sent == 1


async def test_a_refused_connection_is_an_infra_fault():
    policy = RetryPolicy(attempts=2, first_wait_s=0.01)
    async with LLMClient(manager("http://127.0.0.1:9/v1"), retry=policy) as client:
        (reply,) = await client.sample(ask("q"), [0])
    assert (reply.outcome, reply.fault.kind) == (Outcome.INFRA_FAULT, "connection")


@pytest.mark.parametrize("raw", [b"", b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"])
async def test_an_invalid_http_reply_is_an_infra_fault(raw):
    async def speak(reader, writer):
        await reader.read(100)
        writer.write(raw)
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with LLMClient(manager(url), retry=RetryPolicy(attempts=2, first_wait_s=0.01)) as client:
        (reply,) = await client.sample(ask("q"), [0])
    assert (reply.outcome, reply.fault.kind) == (Outcome.INFRA_FAULT, "connection")
    server.close()
    await server.wait_closed()


async def test_the_timeout_covers_a_reply_that_arrives_byte_by_byte():
    async def drip(reader, writer):
        await reader.read(100)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        try:
            for _ in range(200):  # never a long pause, never complete
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            pass
        writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with LLMClient(manager(url, timeout_s=0.15), retry=RetryPolicy(attempts=1)) as client:
        began = time.monotonic()
        (reply,) = await client.sample(ask("q"), [0])
        assert time.monotonic() - began < 30.0
    assert (reply.outcome, reply.fault.kind) == (Outcome.INFRA_FAULT, "timeout")
    assert reply.fault.message == f"no complete reply from {url} within 0.15 s"
    server.close()


async def test_an_unconfigured_role_is_an_error_with_its_name():
    async with LLMClient(manager("http://127.0.0.1:9/v1")) as client:
        with pytest.raises(ConfigurationError, match="API key not found for generator_2"):
            await client.sample(ask("q", role="generator_2"), [0])


async def test_the_slot_is_free_during_a_back_off(journal):
    in_flight = []
    plan = FaultPlan(seed=1, rate=1.0, kinds=["503"], max_consecutive_per_request=2)

    async def sleep(seconds):
        in_flight.append(clients[0].counters.in_flight)
        await asyncio.sleep(0)

    clients = []
    async with client_of(chat_app(answer, faults=plan), journal, sleep=sleep) as client:
        clients.append(client)
        assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
    assert in_flight == [0, 0]


async def test_a_429_with_retry_after_pauses_all_requests_to_the_endpoint(journal):
    virtual = VirtualClock()
    plan = FaultPlan(seed=1, rate=1.0, kinds=["429_retry_after"], max_consecutive_per_request=1, retry_after_s=20)
    options = {"retry": RetryPolicy(), "clock": virtual.clock, "sleep": virtual.sleep}
    async with client_of(chat_app(answer, faults=plan), journal, **options) as client:
        assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
        assert 20.0 <= virtual.slept[0] <= 21.0
        assert client.counters.rate_limited == 1
        [connection] = client._connections.values()
        assert connection.controller.limit == 16  # 20 x 0.8
        connection.pause(100.0)
        before = virtual.now
        plan.rate = 0.0
        await client.sample(ask("p"), [0])
        assert virtual.now - before >= 100.0


async def test_a_server_that_asks_for_no_wait_refuses_seven_attempts_without_ending_the_request(journal):
    virtual = VirtualClock()
    plan = FaultPlan(seed=1, rate=1.0, kinds=["429_retry_after"], max_consecutive_per_request=7, retry_after_s=0)
    options = {"retry": RetryPolicy(), "clock": virtual.clock, "sleep": virtual.sleep}
    async with client_of(chat_app(answer, faults=plan), journal, **options) as client:
        assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
    assert virtual.slept[0] == 0.0
    assert 61 <= sum(virtual.slept) <= 122  # from half of 2 + 4 + 8 + 16 + 32 + 60 s to all of it


async def test_retries_end_by_number_of_attempts_and_by_time(journal):
    for policy, sends in ((RetryPolicy(attempts=4), 4), (RetryPolicy(attempts=99, total_s=10.0), None)):
        virtual = VirtualClock()
        plan = FaultPlan(seed=1, rate=1.0, kinds=["500"], max_consecutive_per_request=99)
        async with client_of(
            chat_app(answer, faults=plan), journal, retry=policy, clock=virtual.clock, sleep=virtual.sleep
        ) as client:
            (reply,) = await client.sample(ask("q"), [0])
            assert reply.fault.kind == "http_500"
            assert sum(virtual.slept) <= policy.total_s
            assert client.counters.requests_sent == (sends or len(virtual.slept) + 1)


async def test_a_wait_beyond_the_total_time_is_cut_to_it_and_followed_by_one_more_attempt(journal, caplog):
    virtual = VirtualClock()
    plan = FaultPlan(seed=1, rate=1.0, kinds=["429_retry_after"], max_consecutive_per_request=99, retry_after_s=10**9)
    async with client_of(
        chat_app(answer, faults=plan), journal, retry=RetryPolicy(), clock=virtual.clock, sleep=virtual.sleep
    ) as client:
        (reply,) = await client.sample(ask("q"), [0])
        assert client.counters.requests_sent == 2
    assert (reply.outcome, reply.fault.kind) == (Outcome.INFRA_FAULT, "http_429")
    assert sum(virtual.slept) == pytest.approx(900.0)
    assert "asks to wait 11574 days" in caplog.text
    assert "one more attempt in 900 s" in caplog.text
