import asyncio
import random
import time

import pytest
from aiohttp import web

from engine.llm.client import LLMClient
from engine.llm.journal import ResponseJournal
from engine.records import Outcome, Sampling
from tests.support.fault_server import chat_app, serve
from tests.support.llm_client import SHORT_WAITS, answer, ask, client_of, manager, texts


async def test_consecutive_samples_are_drawn_by_one_request(journal):
    app = chat_app(answer)
    async with client_of(app, journal, {"price_in": 1.0, "price_out": 2.0}) as client:
        replies = await client.sample(ask("q"), [0, 1, 2])
        assert [(reply.sample_index, reply.outcome) for reply in replies] == [(n, Outcome.OK) for n in range(3)]
        assert texts(replies) == ["q/0", "q/1", "q/2"]
        assert [reply.completion.usage.prompt_tokens for reply in replies] == [11, 0, 0]
        assert [reply.completion.usage.completion_tokens for reply in replies] == [3, 3, 3]
        counters = client.counters
    assert [request.body["n"] for request in app["seen"]] == [3]
    assert (counters.requests_sent, counters.prompt_tokens, counters.completion_tokens) == (1, 11, 9)
    assert counters.cost_usd == pytest.approx((11 + 2 * 9) / 1e6)
    assert (counters.in_flight, counters.retries) == (0, 0)


async def test_replies_follow_the_order_of_the_requested_indices(journal):
    app = chat_app(answer)
    async with client_of(app, journal) as client:
        assert texts(await client.sample(ask("q"), [7, 2, 7, 3])) == ["q/7", "q/2", "q/7", "q/3"]
        assert await client.sample(ask("q"), []) == []
    # 2 and 3 are consecutive and share a request.
    assert sorted((request.first_index, request.body.get("n", 1)) for request in app["seen"]) == [(2, 2), (7, 1)]


async def test_the_seed_increases_with_the_sample_index(journal):
    app = chat_app(answer)
    async with client_of(app, journal) as client:
        await client.sample(ask("q", sampling=Sampling(seed=100)), [0, 1, 5])
    (seed, n), (last_seed, last_n) = sorted((request.body["seed"], request.body.get("n", 1)) for request in app["seen"])
    assert (last_seed - seed, n, last_n) == (5, 2, 1)


async def test_samples_of_different_prompts_have_independent_seeds(journal):
    """A server whose choice depends on the seed alone gives each prompt answers of its own."""
    app = chat_app(lambda body, index: f"{random.Random(body['seed'] + index).random():.3f}")
    async with client_of(app, journal) as client:
        pairs = [
            texts(await client.sample(ask(f"q{n}", sampling=Sampling(seed=seed)), [0, 1]))
            for seed in (0, 1)
            for n in range(40)
        ]
    assert len({tuple(pair) for pair in pairs}) == 80
    assert len({pair[0] for pair in pairs}) > 70
    assert len({text for pair in pairs for text in pair}) > 140  # no index is shared between prompts or runs


async def test_samples_in_the_journal_are_not_requested_again(journal, tmp_path):
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
    assert [(request.first_index, request.body.get("n", 1)) for request in app["seen"]] == [(0, 2), (2, 1)]
    again.close()


async def test_identical_requests_in_flight_share_one_call(journal):
    app = chat_app(answer, latency_s=0.05)
    async with client_of(app, journal) as client:
        replies = await asyncio.gather(*(client.sample(ask("q"), [0, 1]) for _ in range(20)))
        assert {tuple(texts(reply)) for reply in replies} == {("q/0", "q/1")}
        overlapping = await asyncio.gather(client.sample(ask("p"), [0, 1]), client.sample(ask("p"), [1, 2]))
        assert [texts(reply) for reply in overlapping] == [["p/0", "p/1"], ["p/1", "p/2"]]
    assert [(request.first_index, request.body.get("n", 1)) for request in app["seen"]] == [(0, 2), (0, 2), (2, 1)]


async def test_when_the_sending_call_is_cancelled_a_waiting_call_gets_the_reply(journal):
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
    assert len(app["seen"]) == 1


async def test_when_a_call_is_cancelled_that_waits_for_a_slot_a_waiting_call_sends_the_request(journal):
    app = chat_app(answer, latency_s=0.1)
    async with client_of(app, journal, {"max_concurrency": 1}) as client:
        first = asyncio.create_task(client.sample(ask("p"), [0]))
        owner, follower = (asyncio.create_task(client.sample(ask("q"), [0])) for _ in range(2))
        await asyncio.sleep(0.03)
        owner.cancel()
        assert texts(await asyncio.wait_for(follower, 2)) == ["q/0"]
        assert texts(await first) == ["p/0"]
    assert len(app["seen"]) == 2


async def test_closing_keeps_the_replies_in_flight_for_a_bounded_time(journal, caplog):
    app = chat_app(answer, latency_s=0.2)

    async def slow(request, handler):
        if "slow" in await request.text():
            await asyncio.sleep(30)
        return await handler(request)

    app.middlewares.append(web.middleware(slow))
    async with serve(app) as url:
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS, drain_s=1.0) as client:
            await client.sample(ask("first"), [0])
            calls = [asyncio.create_task(client.sample(ask(text), [0])) for text in ("q", "slow")]
            await asyncio.sleep(0.1)
            for call in calls:
                call.cancel()
            began = time.monotonic()
        assert 0.5 < time.monotonic() - began < 5
        assert "waiting for 2 requests in flight, at most 1 s" in caplog.text
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS) as client:
            assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
            assert client.counters.requests_sent == 0


async def test_a_caller_that_ends_after_the_client_has_begun_to_close_loses_no_reply(journal):
    """As where a budget ends a command: the error closes the client, and its other callers are cancelled then."""
    async with serve(chat_app(answer, latency_s=0.2)) as url:
        client = LLMClient(manager(url), journal=journal, retry=SHORT_WAITS)
        call = asyncio.create_task(client.sample(ask("q"), [0]))
        await asyncio.sleep(0.1)
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0)
        call.cancel()
        await closing
        with pytest.raises(asyncio.CancelledError):
            await call
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS) as client:
            assert texts(await client.sample(ask("q"), [0])) == ["q/0"]
            assert client.counters.requests_sent == 0


async def test_cancelling_a_waiting_call_does_not_affect_the_others(journal):
    app = chat_app(answer, latency_s=0.1)
    async with client_of(app, journal) as client:
        owner, gone, other = (asyncio.create_task(client.sample(ask("q"), [0])) for _ in range(3))
        await asyncio.sleep(0.03)
        gone.cancel()
        assert [texts(await owner), texts(await other)] == [["q/0"], ["q/0"]]
        assert gone.cancelled()
    assert len(app["seen"]) == 1


async def test_a_reply_that_was_stored_before_a_cancellation_is_not_requested_again(journal):
    app = chat_app(answer, latency_s=0.05)

    async def slow_second(request, handler):
        if request.headers["X-Sample-Index"] == "5":
            await asyncio.sleep(1.0)
        return await handler(request)

    app.middlewares.append(web.middleware(slow_second))
    async with client_of(app, journal) as client:
        await client.sample(ask("first"), [0])
        owner = asyncio.create_task(client.sample(ask("q"), [0, 5]))
        await asyncio.sleep(0.02)
        follower = asyncio.create_task(client.sample(ask("q"), [0]))
        await asyncio.sleep(0.5)  # sample 0 is stored, sample 5 is in flight
        owner.cancel()
        assert texts(await asyncio.wait_for(follower, 2)) == ["q/0"]
        with pytest.raises(asyncio.CancelledError):
            await owner
    assert [request.first_index for request in app["seen"]].count(0) == 2  # "first" and "q", once each


async def test_the_journal_is_optional():
    async with client_of(chat_app(answer)) as client:
        assert texts(await client.sample(ask("q"), [0, 1])) == ["q/0", "q/1"]


async def test_token_ids_and_logprobs_are_requested_and_stored(journal):
    def fields(body, index):
        return {"token_ids": [index, 7], "logprobs": {"content": [{"logprob": -0.25}, {"logprob": -1.5}]}}

    app = chat_app(answer, reply_fields=fields)
    async with client_of(app, journal) as client:
        replies = await client.sample(ask("q", sampling=Sampling(logprobs=True)), [0, 1])
        assert [reply.completion.token_ids for reply in replies] == [[0, 7], [1, 7]]
        assert replies[0].completion.logprobs == [-0.25, -1.5]
        assert replies[0].completion.ids_source == "server"
        stored = await client.sample(ask("q", sampling=Sampling(logprobs=True)), [1])
        assert stored == [replies[1]]


async def test_an_endpoint_without_n_gets_one_request_per_sample_also_in_later_runs(journal):
    app = chat_app(answer, ignores_n=True)
    async with serve(app) as url:
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS) as client:
            assert texts(await client.sample(ask("q"), [0, 1, 2])) == ["q/0", "q/1", "q/2"]
        assert sorted((request.first_index, request.body.get("n", 1)) for request in app["seen"]) == [
            (0, 3),
            (1, 1),
            (2, 1),
        ]
        app["seen"].clear()
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS) as client:
            assert texts(await client.sample(ask("p"), [0, 1, 2])) == ["p/0", "p/1", "p/2"]
            assert texts(await client.sample(ask("q"), [0, 1, 2])) == [
                "q/0",
                "q/1",
                "q/2",
            ]  # the journal keys do not depend on n
        assert sorted((request.first_index, request.body.get("n", 1)) for request in app["seen"]) == [
            (0, 1),
            (1, 1),
            (2, 1),
        ]


async def test_refused_parameters_are_not_sent_again(journal):
    refused = ("n", "response_format", "seed", "logprobs", "return_token_ids", "max_tokens")
    app = chat_app(answer, rejects=refused)
    request = ask(
        "q",
        sampling=Sampling(seed=1, max_tokens=50, logprobs=True, temperature=0.3),
        json_schema={"type": "object"},
    )
    async with serve(app) as url:
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS) as client:
            assert texts(await client.sample(request, [0, 1])) == ["q/0", "q/1"]
            assert client.counters.retries == 0
        assert len(app["seen"]) <= 2 * (len(refused) + 1)  # the two samples may be refused at the same time
        assert set(app["seen"][-1].body) == {"model", "messages", "temperature", "max_completion_tokens"}
        app["seen"].clear()
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS) as client:
            await client.sample(request.model_copy(update={"messages": ask("p").messages}), [0, 1])
        assert len(app["seen"]) == 2


def thinking_app(needed, refused_above=None):
    """A model that thinks for ``needed`` tokens before it answers; longer limits than ``refused_above`` are refused."""

    async def complete(request):
        body = await request.json()
        seen.append((body["max_tokens"], body.get("n", 1)))
        if refused_above is not None and body["max_tokens"] > refused_above:
            message = (
                f"max_tokens is too large: {body['max_tokens']}. This model's maximum context length is 8192 tokens"
            )
            return web.json_response({"error": {"message": message, "code": 400}}, status=400)
        ended = body["max_tokens"] > needed
        message = {"role": "assistant", "content": "4" if ended else "", "reasoning_content": "Let me see."}
        choice = {"message": message, "finish_reason": "stop" if ended else "length"}
        used = {"prompt_tokens": 10, "completion_tokens": min(needed, body["max_tokens"])}
        choices = [{**choice, "index": index} for index in range(body.get("n", 1))]
        return web.json_response({"model": "m", "choices": choices, "usage": used})

    seen, app = [], web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    return app, seen


async def test_a_reply_that_ends_in_thought_is_asked_for_with_more_tokens_and_that_is_said_once(journal):
    app, seen = thinking_app(needed=5000)
    lines = []
    async with serve(app) as url:
        for start in range(2):  # the second one finds all replies in the journal
            async with LLMClient(manager(url), journal=journal) as client:
                client.report_notices_to(lines.append)
                replies = await client.sample(ask("q", sampling=Sampling(max_tokens=1024)), [0, 1])
                await client.sample(ask("r", sampling=Sampling(max_tokens=1024)), [0])
                assert texts(replies) == ["4", "4"]
                assert client.counters.requests_sent == (6 if start == 0 else 0)
    assert sorted(seen) == [(1024, 1), (1024, 2), (4096, 1), (4096, 2), (16384, 1), (16384, 2)]
    assert [line.partition(" thinks ")[2] for line in lines] == [
        "for longer than 1,024 tokens (--max-tokens): such replies are asked for again with 4,096. "
        "With --max-tokens 4096 they are paid for once",
        "for longer than 4,096 tokens (--max-tokens): such replies are asked for again with 16,384. "
        "With --max-tokens 16384 they are paid for once",
    ]


async def test_a_model_that_never_ends_to_think_is_asked_up_to_a_limit(journal):
    app, seen = thinking_app(needed=10**6)
    async with client_of(app, journal) as client:
        [reply] = await client.sample(ask("q", sampling=Sampling(max_tokens=4096)), [0])
    assert (reply.completion.text, reply.completion.finish_reason) == ("", "length")
    assert [limit for limit, _ in seen] == [4096, 16384, 32768]


async def test_a_server_that_refuses_more_tokens_is_no_error(journal):
    app, seen = thinking_app(needed=9000, refused_above=8192)
    async with client_of(app, journal) as client:
        for text in ("q", "r"):
            [reply] = await client.sample(ask(text, sampling=Sampling(max_tokens=4096)), [0])
            assert (reply.outcome, reply.completion.finish_reason) == (Outcome.OK, "length")
    assert [limit for limit, _ in seen] == [4096, 16384] * 2


async def test_a_reply_that_is_cut_off_in_its_answer_is_kept(journal):
    app = chat_app(lambda body, index: "The answer is")
    async with client_of(app, journal) as client:
        await client.sample(ask("q", sampling=Sampling(max_tokens=3)), [0])
    assert len(app["seen"]) == 1
