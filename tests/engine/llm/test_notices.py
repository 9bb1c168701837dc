"""What a person is told while an endpoint does not answer."""

import asyncio
import socket
from functools import partial
from types import SimpleNamespace

import pytest
from aiohttp import web

from engine.errors import FatalEndpointError
from engine.llm import cancellation, notices
from engine.llm.client import LLMClient
from engine.llm.retry import RetryPolicy
from engine.records import Outcome
from tests.support.fault_server import FaultPlan, chat_app, serve
from tests.support.llm_client import VirtualClock, answer, ask, client_of, manager, refusing_url, texts

PATIENT = RetryPolicy(connect_s=120.0)


@pytest.fixture
def dead_url():
    with refusing_url() as url:
        yield url


async def test_an_endpoint_that_never_answers_ends_the_run_after_the_time_to_connect(dead_url):
    virtual, reports = VirtualClock(), []
    began = virtual.now
    async with LLMClient(manager(dead_url), retry=PATIENT, clock=virtual.clock, sleep=virtual.sleep) as client:
        client.report_notices_to(lambda line: reports.append((virtual.now - began, line)))
        with pytest.raises(FatalEndpointError) as caught:
            await client.sample(ask("q"), [0])
    assert virtual.now - began == pytest.approx(120.0)
    assert str(caught.value).startswith(
        f"g: cannot reach {dead_url}\nconnection refused; no attempt got through in 120 s"
    )
    assert "Start the server" in caught.value.fix
    assert {line for _, line in reports} == {
        f"cannot reach {dead_url}: connection refused; is the server running? (trying again)"
    }
    assert reports[0][0] <= 2.0  # after the second failed attempt
    assert 3 <= len(reports) <= 5  # then about every 30 s


async def test_a_server_that_starts_late_is_waited_for_and_keeps_its_number_of_attempts(journal):
    """It refuses connections for 100 s, then answers 503 twice: more than eight attempts in all."""
    virtual, lines = VirtualClock(), []
    plan = FaultPlan(seed=1, rate=1.0, kinds=["503"], max_consecutive_per_request=2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    runner = web.AppRunner(chat_app(answer, faults=plan), shutdown_timeout=0.1)
    await runner.setup()
    began = virtual.now

    async def sleep(seconds):
        await virtual.sleep(seconds)
        if virtual.now - began > 100.0 and not runner.sites:
            await web.TCPSite(runner, "127.0.0.1", port).start()

    url = f"http://127.0.0.1:{port}/v1"
    retry = RetryPolicy(attempts=4, connect_s=120.0)
    async with LLMClient(manager(url), retry=retry, clock=virtual.clock, sleep=sleep) as client:
        client.report_notices_to(lines.append)
        assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
        assert client.counters.requests_sent > 8
    await runner.cleanup()
    assert plan.injected == {"503": 2}


async def test_a_server_that_was_reached_once_has_its_number_of_attempts(journal):
    virtual = VirtualClock()
    retry = RetryPolicy(attempts=3, connect_s=120.0)
    options = {"retry": retry, "clock": virtual.clock, "sleep": virtual.sleep}
    app = chat_app(answer)
    async with client_of(app, journal, **options) as client:
        await client.sample(ask("q"), [0])
        plan = FaultPlan(seed=1, rate=1.0, kinds=["reset"], max_consecutive_per_request=99)
        [connection] = client._connections.values()

        async def reset(body, headers):
            plan.decide(b"")
            raise ConnectionResetError

        connection.transport.post = reset
        [reply] = await client.sample(ask("p"), [0])
    assert (reply.outcome, reply.fault.kind) == (Outcome.INFRA_FAULT, "connection")
    assert plan.injected == {"reset": 3}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("503", "reports HTTP 503: The server is overloaded"),
        ("429", "reports HTTP 429: Rate limit reached"),
        ("finish_abort", "sent a reply that cannot be used: the reply is not finished: finish_reason is 'abort'"),
    ],
)
async def test_the_second_failure_of_a_request_is_told_and_the_first_is_not(kind, said, journal):
    lines = []
    for failures in (1, 2):
        plan = FaultPlan(seed=1, rate=1.0, kinds=[kind], max_consecutive_per_request=failures)
        async with client_of(chat_app(answer, faults=plan), journal) as client:
            client.report_notices_to(lines.append)
            await client.sample(ask(f"q{failures}"), [0])
            assert len(lines) == failures - 1
    assert said in lines[0]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "This model's maximum context length is 512 tokens",
            ("for its length", "maximum context length is 512 tokens", "longer context"),
        ),
        ("Content Exists Risk", ("for its content",)),
        ("I do not like this", ("HTTP 400: I do not like this",)),
    ],
)
async def test_a_request_that_alone_is_refused_is_told(message, said, journal):
    app, lines = chat_app(answer), []

    @web.middleware
    async def refuse(request, handler):
        if b"forbidden" in await request.read():
            return web.json_response({"error": {"message": message}}, status=400)
        return await handler(request)

    app.middlewares.append(refuse)
    async with serve(app) as url, LLMClient(manager(url), journal=journal) as client:
        client.report_notices_to(lines.append)
        for question in ("forbidden 1", "forbidden 2"):
            await client.sample(ask(question), [0])
    [line] = lines  # not one for each request
    assert all(phrase in line for phrase in (*said, "its problem stays open"))


async def test_a_refusal_of_everything_says_what_to_do(journal):
    app = web.Application()
    app.router.add_post("/v1/chat/completions", partial(_refused, {"error": {"message": "I do not like this"}}))
    async with serve(app) as url, LLMClient(manager(url), journal=journal) as client:
        with pytest.raises(FatalEndpointError, match="I do not like this") as caught:
            await client.sample(ask("q"), [0])
    assert "extra_body" in caught.value.fix


async def _refused(body, request):
    return web.json_response(body, status=400)


@pytest.mark.parametrize("status", [404, 405])
async def test_a_base_url_without_v1_is_diagnosed(status, journal):
    async def refuse(request):
        return web.json_response({"detail": "Not Found"}, status=status)

    app = chat_app(answer)
    app.router.add_post("/chat/completions", refuse)
    async with serve(app) as url:
        root = url.removesuffix("/v1")
        async with LLMClient(manager(root), journal=journal) as client:
            with pytest.raises(FatalEndpointError) as caught:
                await client.sample(ask("q"), [0])
    assert f'Set base_url of g in api_config.json to "{url}"' in caught.value.fix


async def test_an_unknown_model_at_an_address_without_a_path_is_still_an_unknown_model(journal):
    async def refuse(request):
        message = "The model `m` does not exist."
        return web.json_response({"object": "error", "message": message, "code": 404}, status=404)

    app = web.Application()
    app.router.add_post("/chat/completions", refuse)
    async with serve(app) as url, LLMClient(manager(url.removesuffix("/v1")), journal=journal) as client:
        with pytest.raises(FatalEndpointError, match="g: the endpoint has no model 'm'"):
            await client.sample(ask("q"), [0])


async def test_a_server_that_accepts_and_says_nothing_is_told_while_its_request_waits(journal, monkeypatch):
    monkeypatch.setattr(notices, "_SILENT_S", 0.05)
    monkeypatch.setattr(cancellation, "_LOOK_S", 0.05)
    lines, go_on = asyncio.Queue(), asyncio.Event()
    app = chat_app(answer)

    @web.middleware
    async def silent(request, handler):
        await go_on.wait()
        return await handler(request)

    app.middlewares.append(silent)
    async with client_of(app, journal, {"timeout_s": 90.0}) as client:
        client.report_notices_to(lines.put_nowait)
        call = asyncio.create_task(client.sample(ask("q"), [0]))
        line = await asyncio.wait_for(lines.get(), 60)
        assert line.startswith("no reply from http://127.0.0.1:")
        assert line.endswith("requests are given up after 90 s (timeout_s)")
        assert not call.done()
        go_on.set()
        assert texts(await asyncio.wait_for(call, 60)) == ["q/0"]
        assert (client.counters.requests_sent, client.counters.retries) == (1, 0)


@pytest.mark.parametrize(
    "message",
    [{"content": None}, {}, {"content": " \n"}, {"content": [{"type": "image_url", "image_url": {"url": "u"}}]}],
    ids=["null", "missing", "spaces", "no text parts"],
)
async def test_an_endpoint_that_sends_many_blank_replies_is_named(message, journal):
    """Every fifth of 100: told once, at the fifth."""
    bodies, lines = [], []

    async def chat(request):
        bodies.append(await request.json())
        choice = {"index": 0, "message": {"content": "text"}, "finish_reason": "stop"}
        if len(bodies) % 5 == 0:
            choice["message"] = {"role": "assistant", **message}
        return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 9}})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    async with client_of(app, journal) as client:
        client.report_notices_to(lines.append)
        for n in range(100):
            await client.sample(ask(f"q{n}"), [0])
    assert [line.partition(" sends blank replies: ")[2].partition(" have no text")[0] for line in lines] == [
        "5 of 25",
    ]


async def test_a_few_blank_replies_are_not_told(journal):
    lines = []
    app = chat_app(lambda body, index: " " if body["messages"][0]["content"] in ("q3", "q5") else "text")
    async with client_of(app, journal) as client:
        client.report_notices_to(lines.append)
        for n in range(30):
            await client.sample(ask(f"q{n}"), [0])
    assert lines == []


class Loop:
    """A clock that is set."""

    now = 0.0

    def time(self):
        return self.now


async def test_an_endpoint_that_answers_other_requests_is_not_silent(monkeypatch):
    loop, reports = Loop(), []
    monkeypatch.setattr(notices, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    endpoint = manager("http://127.0.0.1:1/v1").endpoint("g")
    reporter = notices.EndpointNotices(lambda line: reports.append((loop.now, line)), loop.time)
    for loop.now in range(20, 301, 20):
        if loop.now in (20, 200):
            reporter.answered(endpoint)  # another request
        reporter.silent(endpoint, 0.0)
    assert [(at, line.split(";")[0]) for at, line in reports] == [
        (at, "no reply from http://127.0.0.1:1/v1 for 20 s") for at in (40, 220)
    ]
