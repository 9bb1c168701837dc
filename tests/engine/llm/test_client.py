import asyncio
import gc
import random
import time
import warnings
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from engine.api_manager import ApiManager
from engine.errors import BudgetExceededError, ConfigurationError, FatalEndpointError
from engine.llm.budget import Budget
from engine.llm.client import LLMClient
from engine.llm.concurrency import ConcurrencyRule
from engine.llm.journal import ResponseJournal
from engine.llm.rate_limits import RateLedger
from engine.llm.retry import RetryPolicy
from engine.records import ChatRequest, Message, Outcome, Sampling
from tests.support.fault_server import (
    FATAL_KINDS,
    INFRA_KINDS,
    FaultPlan,
    chat_app,
    fault_middleware,
    serve,
)

ROOT = Path(__file__).resolve().parents[3]
SECRET = "sk-test-0123456789abcdef"
QUICK = RetryPolicy(first_wait_s=0.01, max_wait_s=0.05)


def answer(body, index):
    return f"{body['messages'][-1]['content']}/{index}"


def manager(url, **fields):
    entry = {"api_key": SECRET, "base_url": url, "model": "m", "timeout_s": 5.0, **fields}
    return ApiManager(Path("api_config.json"), {"g": entry, "twin": entry})


def ask(content, role="g", **fields):
    return ChatRequest(role=role, messages=(Message(role="user", content=content),), **fields)


def texts(replies):
    return [reply.completion and reply.completion.text for reply in replies]


@asynccontextmanager
async def client_of(app, journal=None, endpoint=None, **options):
    """A client of a server that runs beside it."""
    async with serve(app) as url:
        options = {"retry": QUICK, **options}
        async with LLMClient(manager(url, **(endpoint or {})), journal=journal, **options) as client:
            yield client


@pytest.fixture
def journal(tmp_path):
    journal = ResponseJournal(tmp_path / "journal.sqlite")
    yield journal
    journal.close()


async def test_samples_come_in_one_request_and_each_with_its_index(journal):
    app = chat_app(answer)
    async with client_of(app, journal, {"price_in": 1.0, "price_out": 2.0}) as client:
        replies = await client.sample(ask("q"), [0, 1, 2])
        assert [(reply.sample_index, reply.outcome) for reply in replies] == [(n, Outcome.OK) for n in range(3)]
        assert texts(replies) == ["q/0", "q/1", "q/2"]
        assert [reply.completion.usage.prompt_tokens for reply in replies] == [11, 0, 0]
        assert [reply.completion.usage.completion_tokens for reply in replies] == [3, 3, 3]
        counters = client.counters
    assert [seen.body["n"] for seen in app["seen"]] == [3]
    assert (counters.requests_sent, counters.prompt_tokens, counters.completion_tokens) == (1, 11, 9)
    assert counters.cost_usd == pytest.approx((11 + 2 * 9) / 1e6)
    assert (counters.in_flight, counters.waiting, counters.retries) == (0, 0, 0)


async def test_the_order_and_repetition_of_indices_are_the_callers(journal):
    app = chat_app(answer)
    async with client_of(app, journal) as client:
        assert texts(await client.sample(ask("q"), [7, 2, 7, 3])) == ["q/7", "q/2", "q/7", "q/3"]
        assert await client.sample(ask("q"), []) == []
    # 2 and 3 are neighbours and go together; 7 goes alone.
    assert sorted((seen.first_index, seen.body.get("n", 1)) for seen in app["seen"]) == [(2, 2), (7, 1)]


async def test_of_several_servers_the_least_busy_is_asked(journal):
    quick, slow = chat_app(answer), chat_app(answer, latency_s=0.5)
    texts_of = [f"q{n}" for n in range(40)]
    async with serve(quick) as first, serve(slow) as second:
        async with LLMClient(manager([first, second], max_concurrency=2), journal=journal, retry=QUICK) as client:
            slots = asyncio.Semaphore(4)

            async def one(text):
                async with slots:
                    return texts(await client.sample(ask(text), [0, 1]))

            assert await asyncio.gather(*map(one, texts_of)) == [[f"{text}/0", f"{text}/1"] for text in texts_of]
        asked = [Counter(seen.body["messages"][-1]["content"] for seen in app["seen"]) for app in (quick, slow)]
        assert sum(asked, Counter()) == Counter(texts_of), "each question goes to one of them, its samples together"
        assert len(asked[0]) > 2 * len(asked[1]) > 0
    async with client_of(quick, journal) as client:  # the journal knows replies by the model, not by who gave them
        assert texts(await client.sample(ask("q3"), [0, 1])) == ["q3/0", "q3/1"]
        assert client.counters.requests_sent == 0


async def test_the_seed_counts_up_with_the_sample(journal):
    app = chat_app(answer)
    async with client_of(app, journal) as client:
        await client.sample(ask("q", sampling=Sampling(seed=100)), [0, 1, 5])
    assert sorted((seen.body["seed"], seen.body.get("n", 1)) for seen in app["seen"]) == [(100, 2), (105, 1)]


async def test_what_the_journal_holds_is_not_asked_again(journal, tmp_path):
    app = chat_app(answer)
    async with client_of(app, journal) as client:
        first = await client.sample(ask("q"), [0, 1])
    journal.close()
    again = ResponseJournal(tmp_path / "journal.sqlite")
    async with client_of(app, again) as client:  # on another port, under another role
        assert await client.sample(ask("q", role="twin"), [0, 1]) == first
        assert len(app["seen"]) == 1
        assert texts(await client.sample(ask("q"), [0, 1, 2])) == ["q/0", "q/1", "q/2"]
        assert client.counters.journal_hits == 4
    assert [(seen.first_index, seen.body.get("n", 1)) for seen in app["seen"]] == [(0, 2), (2, 1)]
    again.close()


async def test_identical_requests_in_flight_share_one(journal):
    app = chat_app(answer, latency_s=0.05)
    async with client_of(app, journal) as client:
        replies = await asyncio.gather(*(client.sample(ask("q"), [0, 1]) for _ in range(20)))
        assert {tuple(texts(reply)) for reply in replies} == {("q/0", "q/1")}
        overlapping = await asyncio.gather(client.sample(ask("p"), [0, 1]), client.sample(ask("p"), [1, 2]))
        assert [texts(reply) for reply in overlapping] == [["p/0", "p/1"], ["p/1", "p/2"]]
    assert [(seen.first_index, seen.body.get("n", 1)) for seen in app["seen"]] == [(0, 2), (0, 2), (2, 1)]


async def test_a_cancelled_caller_leaves_its_question_to_the_others(journal):
    app = chat_app(answer, latency_s=0.1)
    async with client_of(app, journal) as client:
        owner = asyncio.create_task(client.sample(ask("q"), [0]))
        await asyncio.sleep(0.03)
        follower = asyncio.create_task(client.sample(ask("q"), [0]))
        await asyncio.sleep(0.03)
        owner.cancel()
        assert texts(await asyncio.wait_for(follower, 2)) == ["q/0"]
        with pytest.raises(asyncio.CancelledError):
            await owner
        assert client.counters.in_flight == 0


async def test_a_cancelled_follower_leaves_the_others_alone(journal):
    app = chat_app(answer, latency_s=0.1)
    async with client_of(app, journal) as client:
        owner, gone, other = (asyncio.create_task(client.sample(ask("q"), [0])) for _ in range(3))
        await asyncio.sleep(0.03)
        gone.cancel()
        assert [texts(await owner), texts(await other)] == [["q/0"], ["q/0"]]
        assert gone.cancelled()
    assert len(app["seen"]) == 1


async def test_without_a_journal_it_works_as_well():
    async with client_of(chat_app(answer)) as client:
        assert texts(await client.sample(ask("q"), [0, 1])) == ["q/0", "q/1"]


async def test_token_ids_and_logprobs_are_asked_for_and_kept(journal):
    def fields(body, index):
        return {"token_ids": [index, 7], "logprobs": {"content": [{"logprob": -0.25}, {"logprob": -1.5}]}}

    app = chat_app(answer, reply_fields=fields)
    async with client_of(app, journal) as client:
        replies = await client.sample(ask("q", sampling=Sampling(logprobs=True)), [0, 1])
        assert [reply.completion.token_ids for reply in replies] == [[0, 7], [1, 7]]
        assert replies[0].completion.logprobs == [-0.25, -1.5]
        assert replies[0].completion.ids_source == "server"
        found = await client.sample(ask("q", sampling=Sampling(logprobs=True)), [1])
        assert found == [replies[1]]


async def test_an_endpoint_that_ignores_n_is_asked_one_by_one_and_that_is_remembered(journal):
    app = chat_app(answer, ignores_n=True)
    async with serve(app) as url:
        async with LLMClient(manager(url), journal=journal, retry=QUICK) as client:
            assert texts(await client.sample(ask("q"), [0, 1, 2])) == ["q/0", "q/1", "q/2"]
        assert sorted((seen.first_index, seen.body.get("n", 1)) for seen in app["seen"]) == [
            (0, 3),
            (1, 1),
            (2, 1),
        ]
        app["seen"].clear()
        async with LLMClient(manager(url), journal=journal, retry=QUICK) as client:
            assert texts(await client.sample(ask("p"), [0, 1, 2])) == ["p/0", "p/1", "p/2"]
            assert texts(await client.sample(ask("q"), [0, 1, 2])) == ["q/0", "q/1", "q/2"]  # same keys as before
        assert sorted((seen.first_index, seen.body.get("n", 1)) for seen in app["seen"]) == [
            (0, 1),
            (1, 1),
            (2, 1),
        ]


async def test_refused_parameters_are_dropped_once_and_for_all(journal):
    refused = ("n", "response_format", "seed", "logprobs", "return_token_ids", "max_tokens")
    app = chat_app(answer, rejects=refused)
    request = ask(
        "q",
        sampling=Sampling(seed=1, max_tokens=50, logprobs=True, temperature=0.3),
        json_schema={"type": "object"},
    )
    async with serve(app) as url:
        async with LLMClient(manager(url), journal=journal, retry=QUICK) as client:
            assert texts(await client.sample(request, [0, 1])) == ["q/0", "q/1"]
            assert client.counters.retries == 0
        assert len(app["seen"]) == len(refused) + 2
        assert set(app["seen"][-1].body) == {"model", "messages", "temperature", "max_completion_tokens"}
        app["seen"].clear()
        async with LLMClient(manager(url), journal=journal, retry=QUICK) as client:
            await client.sample(request.model_copy(update={"messages": ask("p").messages}), [0, 1])
        assert len(app["seen"]) == 2


async def test_the_first_request_to_an_endpoint_goes_alone(journal):
    arrivals = []

    def timed(body, index):
        arrivals.append(time.monotonic())
        return answer(body, index)

    app = chat_app(timed, latency_s=0.5)
    async with client_of(app, journal) as client:
        await asyncio.gather(*(client.sample(ask(f"q{n}"), [0]) for n in range(10)))
    assert arrivals[1] - arrivals[0] >= 0.45
    assert arrivals[-1] - arrivals[1] < 0.45


async def test_a_slow_first_request_does_not_hold_the_others_for_long(journal):
    app = chat_app(answer, latency_s=1.5)
    async with client_of(app, journal, probe_patience_s=0.05) as client:
        began = time.monotonic()
        await asyncio.gather(*(client.sample(ask(f"q{n}"), [0]) for n in range(5)))
        assert time.monotonic() - began < 2.8


async def run_all(app, journal, count=80, **options):
    options = {"endpoint": {"timeout_s": 2.0}, **options}
    async with client_of(app, journal, **options) as client:
        calls = [client.sample(ask(f"q{n}", sampling=Sampling(seed=5)), [0, 1, 2]) for n in range(count)]
        return await asyncio.gather(*calls), client.counters


async def test_with_a_third_of_all_calls_failing_the_replies_are_those_of_a_clean_run(journal):
    clean, _ = await run_all(chat_app(answer), None)
    plan = FaultPlan(seed=12, rate=0.3, stall_s=4.0)
    stormy, counters = await run_all(chat_app(answer, faults=plan), journal)
    assert set(plan.injected) == set(INFRA_KINDS)  # the storm had all of them
    assert [texts(replies) for replies in stormy] == [texts(replies) for replies in clean]
    assert {reply.outcome for replies in stormy for reply in replies} == {Outcome.OK}
    assert counters.retries == sum(plan.injected.values())
    again, counters = await run_all(chat_app(answer), journal)  # and what was stored is what was given
    assert again == stormy
    assert counters.requests_sent == 0


@pytest.mark.parametrize("kind", INFRA_KINDS)
async def test_no_fault_of_the_infrastructure_is_ever_a_reply(kind, journal):
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


async def test_a_reply_that_was_cut_by_the_model_is_given_to_the_task(journal):
    plan = FaultPlan(seed=1, rate=1.0, kinds=["length"], max_consecutive_per_request=99)
    async with client_of(chat_app(answer, faults=plan), journal) as client:
        (reply,) = await client.sample(ask("question"), [0])
    assert (reply.outcome, reply.completion.text, reply.completion.finish_reason) == (Outcome.OK, "que", "length")


@pytest.mark.parametrize("kind", FATAL_KINDS)
@pytest.mark.parametrize("mid_run", [False, True])
async def test_a_refusal_stops_all_calls_at_once(kind, mid_run, journal):
    """Some calls wait for replies that would take 30 s, some for a slot, some for the first to be through."""
    plan = FaultPlan(seed=1, rate=0.0, kinds=[kind], max_consecutive_per_request=10**9)
    app = chat_app(answer, latency_s=30.0)
    app.middlewares.append(fault_middleware(plan))
    rule = ConcurrencyRule(start=200 if mid_run else 20)
    options = {"endpoint": {"timeout_s": 60.0}, "probe_patience_s": 0.05, "concurrency": rule}
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
        assert (client.counters.in_flight, client.counters.waiting) == (0, 0)
    message = str(caught.value)
    assert "api_config.json" in message
    assert "http://127.0.0.1" in message
    assert message.startswith(("g: ", "twin: "))
    assert SECRET[:6] not in message
    assert SECRET[-6:] not in message
    assert caught.value.exit_code == 2


async def test_one_refused_text_is_not_the_end_of_a_run(journal):
    @web.middleware
    async def refuse(request, handler):
        body = await request.json()
        if "filthy" in body["messages"][0]["content"]:
            error = {"message": "The response was filtered", "code": "content_filter"}
            return web.json_response({"error": error}, status=400)
        if "odd" in body["messages"][0]["content"]:
            return web.json_response({"error": {"message": "no"}}, status=400)
        return await handler(request)

    app = chat_app(answer)
    app.middlewares.append(refuse)
    async with client_of(app, journal) as client:
        assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
        (filtered,) = await client.sample(ask("filthy"), [0])
        (odd,) = await client.sample(ask("odd"), [0])
        assert texts(await client.sample(ask("p"), [0])) == ["p/0"]
    assert (filtered.outcome, filtered.fault.kind) == (Outcome.MODEL_FAULT, "content_filter")
    assert (odd.outcome, odd.fault.kind) == (Outcome.INFRA_FAULT, "rejected_request")


async def test_a_filtered_reply_is_the_models_fault_also_from_the_journal(journal):
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


async def test_a_server_that_is_not_there_is_an_infra_fault():
    policy = RetryPolicy(attempts=2, first_wait_s=0.01)
    async with LLMClient(manager("http://127.0.0.1:9/v1"), retry=policy) as client:
        (reply,) = await client.sample(ask("q"), [0])
    assert (reply.outcome, reply.fault.kind) == (Outcome.INFRA_FAULT, "connection")


@pytest.mark.parametrize("raw", [b"", b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"])
async def test_a_server_that_speaks_something_else_is_an_infra_fault(raw):
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


async def test_a_reply_that_drips_is_given_up_in_time():
    async def drip(reader, writer):
        await reader.read(100)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        try:
            for _ in range(200):  # never silent for long, never done
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
        assert time.monotonic() - began < 3.0
    assert (reply.outcome, reply.fault.kind) == (Outcome.INFRA_FAULT, "timeout")
    server.close()


async def test_a_role_that_is_not_configured_is_named():
    async with LLMClient(manager("http://127.0.0.1:9/v1")) as client:
        with pytest.raises(ConfigurationError, match="API key not found for generator_2"):
            await client.sample(ask("q", role="generator_2"), [0])


class VirtualTime:
    """Sleeping takes no time but moves the clock."""

    def __init__(self):
        self.now = 1_700_000_000.0
        self.slept = []

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


async def test_the_slot_is_free_while_a_request_waits(journal):
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


async def test_a_rate_limit_with_a_wait_pauses_every_caller_of_the_endpoint(journal, tmp_path):
    time_ = VirtualTime()
    plan = FaultPlan(seed=1, rate=1.0, kinds=["429_retry_after"], max_consecutive_per_request=1, retry_after_s=20)
    began = time_.now
    ledger = RateLedger(tmp_path / "rates.sqlite", time_.clock)
    options = {"retry": RetryPolicy(), "clock": time_.clock, "sleep": time_.sleep, "ledger": ledger}
    async with client_of(chat_app(answer, faults=plan), journal, **options) as client:
        assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
        assert 20.0 <= time_.slept[0] <= 21.0
        assert client.counters.rate_limited == 1
        assert client.counters.concurrency_limit == 16  # 20 x 0.8
        [server] = client._servers_of["g"]
        assert ledger.not_before(ledger.scope(server.endpoint)) == began + 20.0
        await server.connection.pause(100.0)
        before = time_.now
        plan.rate = 0.0
        await client.sample(ask("p"), [0])
        assert time_.now - before >= 100.0
    ledger.close()


async def test_patience_ends_by_count_and_by_time(journal):
    for policy, sends in ((RetryPolicy(attempts=4), 4), (RetryPolicy(attempts=99, total_s=10.0), None)):
        time_ = VirtualTime()
        plan = FaultPlan(seed=1, rate=1.0, kinds=["500"], max_consecutive_per_request=99)
        async with client_of(
            chat_app(answer, faults=plan), journal, retry=policy, clock=time_.clock, sleep=time_.sleep
        ) as client:
            (reply,) = await client.sample(ask("q"), [0])
            assert reply.fault.kind == "http_500"
            assert sum(time_.slept) <= policy.total_s
            assert client.counters.requests_sent == (sends or len(time_.slept) + 1)


async def test_a_wait_longer_than_all_patience_is_not_begun(journal):
    time_ = VirtualTime()
    plan = FaultPlan(seed=1, rate=1.0, kinds=["429_retry_after"], max_consecutive_per_request=99, retry_after_s=3600)
    async with client_of(
        chat_app(answer, faults=plan), journal, retry=RetryPolicy(), clock=time_.clock, sleep=time_.sleep
    ) as client:
        (reply,) = await client.sample(ask("q"), [0])
    assert (reply.outcome, reply.fault.kind, time_.slept) == (Outcome.INFRA_FAULT, "http_429", [])


async def test_concurrency_grows_from_its_start_and_keeps_the_endpoints_maximum(journal):
    running, most = 0, []

    async def slow(request, handler):
        nonlocal running
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
            assert client.counters.concurrency_limit in expected


async def test_limits_are_shared_over_clients_by_the_ledger(tmp_path):
    running, most = 0, 0

    async def slow(request, handler):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return await handler(request)

    app = chat_app(answer)
    app.middlewares.append(web.middleware(slow))
    ledgers = [RateLedger(tmp_path / "rates.sqlite") for _ in range(2)]
    async with serve(app) as url:
        api = manager(url, max_concurrency=4, price_in=1.0, price_out=1.0)
        clients = [LLMClient(api, ledger=ledger) for ledger in ledgers]
        calls = [clients[n % 2].sample(ask(f"q{n}"), [0]) for n in range(60)]
        replies = await asyncio.gather(*calls)
        assert {reply.outcome for (reply,) in replies} == {Outcome.OK}
        for client in clients:
            await client.close()
        tokens, usd = ledgers[0].spent(ledgers[0].scope(api.endpoint("g")))
    assert most <= 4
    assert tokens == sum(reply.completion.usage.completion_tokens + 11 for (reply,) in replies)
    assert usd == pytest.approx(tokens / 1e6)
    for ledger in ledgers:
        ledger.close()


async def test_a_pause_reaches_other_processes_through_the_ledger(tmp_path):
    time_ = VirtualTime()
    ledgers = [RateLedger(tmp_path / "rates.sqlite", time_.clock) for _ in range(2)]
    async with serve(chat_app(answer)) as url:
        api = manager(url)
        ledgers[0].set_not_before(ledgers[0].scope(api.endpoint("g")), time_.now + 50.0)
        async with LLMClient(api, ledger=ledgers[1], clock=time_.clock, sleep=time_.sleep) as client:
            await client.sample(ask("q"), [0])
    assert time_.slept == [50.0]
    for ledger in ledgers:
        ledger.close()


async def test_a_budget_is_never_passed_and_the_journal_is_free(journal):
    app = chat_app(answer)
    budget = Budget(tokens=400)
    request = [ask(f"q{n}", sampling=Sampling(max_tokens=20)) for n in range(50)]
    async with client_of(app, journal, budget=budget) as client:
        results = await asyncio.gather(*(client.sample(one, [0]) for one in request), return_exceptions=True)
        kinds = Counter(type(result) for result in results)
        assert set(kinds) == {list, BudgetExceededError}
        counters = client.counters
        assert counters.prompt_tokens + counters.completion_tokens == budget.spent_tokens <= 400
        # A request takes 11 + 4 or 5 tokens and holds 8 + 20 before it is sent.
        assert budget.spent_tokens > 400 - 28 - 28
        done = [one for one, result in zip(request, results, strict=True) if isinstance(result, list)]
        sent = counters.requests_sent
        assert texts(await client.sample(done[0], [0])) == [texts(results[request.index(done[0])])[0]]
        assert client.counters.requests_sent == sent == len(done)


async def test_replies_without_usage_use_the_budget_up_too(journal):
    async def chat(request):
        choice = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    budget = Budget(tokens=400, usd=1.0)
    request = [ask(f"q{n}", sampling=Sampling(max_tokens=20)) for n in range(30)]
    async with client_of(app, journal, {"price_in": 1.0, "price_out": 2.0}, budget=budget) as client:
        results = await asyncio.gather(*(client.sample(one, [0]) for one in request), return_exceptions=True)
    # A request of two bytes holds 2 + 16 for the prompt and 20 for the reply, one of three bytes one more.
    assert [isinstance(result, list) for result in results] == [True] * 10 + [False] * 20
    assert budget.spent_tokens == 10 * 38
    assert budget.spent_usd == pytest.approx(10 * (18 + 2 * 20) / 1e6)


async def test_attempts_that_failed_but_cost_are_counted(journal):
    plan = FaultPlan(seed=1, rate=1.0, kinds=["empty"], max_consecutive_per_request=2)
    budget = Budget(tokens=10_000)
    async with client_of(chat_app(answer, faults=plan), journal, budget=budget) as client:
        (reply,) = await client.sample(ask("q"), [0])
        usage = reply.completion.usage
        assert (usage.attempts, usage.prompt_tokens, usage.completion_tokens) == (3, 7 + 7 + 11, 3)
        assert client.counters.prompt_tokens == 25
        assert budget.spent_tokens == 28


async def test_a_cancelled_run_leaks_no_slot_and_loses_no_reply_that_came(journal):
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
        assert (client.counters.in_flight, client.counters.waiting) == (0, 0)
        assert client._in_flight == {}
        finished = [n for n, task in enumerate(tasks) if not task.cancelled()]
        sent = client.counters.requests_sent
        for n in finished:
            assert texts(await client.sample(ask(f"q{n}"), [0])) == [f"q{n}/0"]
        assert finished
        assert client.counters.requests_sent == sent
        assert texts(await asyncio.wait_for(client.sample(ask("after"), [0]), 5)) == ["after/0"]


async def test_nothing_is_left_open(journal, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with client_of(chat_app(answer), journal) as client:
            await asyncio.gather(*(client.sample(ask(f"q{n}"), [0]) for n in range(30)))
        async with client_of(chat_app(answer), journal):
            pass  # never used
        with pytest.raises(RuntimeError, match="closed"):
            await client.sample(ask("late"), [0])
        gc.collect()
        await asyncio.sleep(0.05)
    assert "Unclosed" not in caplog.text
    assert "never retrieved" not in caplog.text


async def test_the_key_is_in_no_file_and_no_log(tmp_path, caplog):
    caplog.set_level("DEBUG")
    journal = ResponseJournal(tmp_path / "journal.sqlite")
    ledger = RateLedger(tmp_path / "rates.sqlite")
    app = chat_app(answer, api_key=SECRET)
    async with client_of(app, journal, {"max_concurrency": 2}, ledger=ledger) as client:
        assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
    wrong = manager("http://127.0.0.1:9/v1").endpoint("g")
    assert SECRET not in repr(wrong)
    journal.close()
    ledger.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert SECRET[:8].encode() not in stored
    assert SECRET[:8] not in caplog.text
