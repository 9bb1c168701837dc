"""Requests in batches: what the provider gets, what it costs, and what becomes of a batch that is interrupted."""

import asyncio
import json
import os
import re
import signal
import textwrap
import time
from collections import Counter

import pytest
from aiohttp import web

from engine.errors import BudgetExceededError, FatalEndpointError
from engine.llm import batches
from engine.llm.budget import Budget
from engine.llm.client import LLMClient
from engine.llm.journal import ResponseJournal
from engine.llm.retry import RetryPolicy
from engine.records import Outcome, Sampling
from tests.support.batch_server import BatchServer
from tests.support.fault_server import chat_app, serve, serve_in_thread
from tests.support.forked_command import ForkedCommand
from tests.support.llm_client import SECRET, SHORT_WAITS, answer, ask, client_of, manager, texts
from tests.support.other_apis import responses_app

PRICES = {"price_in": 1.0, "price_out": 2.0}


@pytest.fixture(autouse=True)
def short_times(monkeypatch):
    monkeypatch.setattr(batches, "_QUIET_S", 0.1)
    monkeypatch.setattr(batches, "_FIRST_POLL_S", 0.05)


def question(body):
    return body["messages"][-1]["content"]


async def ask_all(client, count=30, indices=(0, 1)):
    requests = [ask(f"q{n}", sampling=Sampling(max_tokens=5)) for n in range(count)]
    return await asyncio.gather(*(client.sample(request, list(indices)) for request in requests))


def notes(journal):
    """What is stored about batches."""
    return journal._database.execute("SELECT * FROM batches").fetchall()


def comparable(replies):
    volatile = {"completion": {"latency_s": True, "usage": {"cost_usd"}}}
    return [[reply.model_dump(exclude=volatile) for reply in group] for group in replies]


async def test_requests_become_one_batch_at_half_the_price_with_the_same_replies(journal, tmp_path):
    """Nothing waits for a slot of the endpoint, and every reply is stored under the same key."""
    app = chat_app(answer)
    server = BatchServer(app)
    single_journal = ResponseJournal(tmp_path / "single.sqlite")
    async with client_of(app, single_journal, PRICES) as client:
        expected, single = comparable(await ask_all(client)), client.counters
    single_journal.close()
    app["seen"].clear()
    async with client_of(app, journal, {**PRICES, "max_concurrency": 1}, batch=True) as client:
        replies = await ask_all(client)
        counters = client.counters
    assert comparable(replies) == expected
    assert [len(lines) for lines in server.created] == [30]
    assert Counter(question(request.body) for request in app["seen"]) == {f"q{n}": 1 for n in range(30)}
    assert counters.cost_usd == pytest.approx(single.cost_usd / 2)
    assert sum(r.completion.usage.cost_usd for group in replies for r in group) == pytest.approx(single.cost_usd / 2)
    assert (counters.requests_sent, counters.retries) == (30, 0)
    async with client_of(app, journal, batch=True) as client:
        assert texts((await ask_all(client))[3]) == ["q3/0", "q3/1"]
    assert len(server.created) == 1
    assert notes(journal) == []


async def test_the_custom_id_of_a_single_sample_is_its_journal_key(journal):
    app = chat_app(answer)
    server = BatchServer(app)
    async with client_of(app, journal, batch=True) as client:
        [reply] = await client.sample(ask("q"), [0])
    assert [line["custom_id"] for line in server.created[0]] == [reply.completion.request_key]


async def test_files_stay_within_the_limits(journal, monkeypatch):
    monkeypatch.setattr(batches, "_MOST_REQUESTS", 8)
    app = chat_app(answer)
    server = BatchServer(app)
    async with client_of(app, journal, batch=True) as client:
        assert texts((await ask_all(client, 20))[19]) == ["q19/0", "q19/1"]
    assert [len(lines) for lines in server.created] == [8, 8, 4]
    monkeypatch.setattr(batches, "_MOST_BYTES", 700)
    async with client_of(app, journal, batch=True) as client:
        await ask_all(client, 8, [2])
    assert max(len(b"".join(json.dumps(line).encode() + b"\n" for line in file)) for file in server.created[3:]) <= 700


async def test_progress_is_told(journal):
    app = chat_app(answer)
    BatchServer(app, delay_s=0.5)
    lines = []
    async with client_of(app, journal, batch=True) as client:
        client.report_notices_to(lines.append)
        await ask_all(client, 12)
    assert lines[0] == "batch of 12 requests: submitted (batch_0)"
    assert re.fullmatch(r"batch of 12 requests: \d+ done \(0 min\)", lines[1])
    assert lines[-1] == "batch of 12 requests: completed, 12 answered"


def failing(custom_id, body):
    """Of ten requests the provider refuses one, fails at one, forgets one, and one has an unreadable reply."""
    kind = int(question(body)[1:]) % 10
    lines = {
        3: {"response": {"status_code": 429, "body": {"error": {"message": "slow down"}}}},
        4: {"response": {"status_code": 500, "body": {"error": {"message": f"broken, key {SECRET}"}}}},
        5: {"response": {"status_code": 200, "body": {"object": "chat.completion", "result": "ok"}}},
    }
    return "" if kind == 6 else json.dumps({"custom_id": custom_id, **lines[kind]}) if kind in lines else None


async def test_what_failed_in_a_batch_is_sent_singly_at_the_full_price(journal):
    app = chat_app(answer)
    server = BatchServer(app, line_of=failing)
    lines = []
    async with client_of(app, journal, PRICES, batch=True) as client:
        client.report_notices_to(lines.append)
        replies = await ask_all(client)
        counters = client.counters
    assert [texts(group) for group in replies] == [[f"q{n}/0", f"q{n}/1"] for n in range(30)]
    assert Counter(question(request.body) for request in app["seen"]) == {f"q{n}": 1 for n in range(30)}
    assert len(server.created) == 1
    prices = [sum(r.completion.usage.cost_usd for r in group) for group in replies]
    full_prices = [(11 + 2 * len(f"q{n}/0q{n}/1")) / 1e6 for n in range(30)]
    singly = [n % 10 in (3, 4, 5, 6) for n in range(30)]
    assert prices == pytest.approx([price if s else price / 2 for price, s in zip(full_prices, singly, strict=True)])
    # Of the unreadable replies it is not known what they cost, so they count as the most.
    assert counters.cost_usd >= sum(prices)
    assert not any(SECRET in text for text in lines)


async def test_a_request_that_is_refused_everywhere_leaves_its_problem_open(journal):
    """The single attempt after the batch decides, as without a batch."""
    refused = {"error": {"message": "your prompt was flagged by the content filter"}}
    app = chat_app(answer, refuse=lambda body: (400, refused) if question(body) == "q2" else None)
    BatchServer(app)
    async with client_of(app, journal, batch=True) as client:
        replies = await ask_all(client, 4)
    assert [reply.outcome for reply in replies[2]] == [Outcome.INFRA_FAULT] * 2
    assert texts(replies[3]) == ["q3/0", "q3/1"]


async def test_of_an_expired_batch_the_rest_is_sent_singly(journal):
    app = chat_app(answer)
    server = BatchServer(app, answers=20)
    async with client_of(app, journal, PRICES, batch=True) as client:
        replies = await ask_all(client)
    assert [texts(group) for group in replies] == [[f"q{n}/0", f"q{n}/1"] for n in range(30)]
    assert Counter(question(request.body) for request in app["seen"]) == {f"q{n}": 1 for n in range(30)}
    assert len(server.created) == 1
    assert notes(journal) == []


async def test_a_part_that_the_provider_refuses_is_left_out_of_a_second_batch(journal):
    app = chat_app(answer, rejects=("seed",))
    server = BatchServer(app)
    async with client_of(app, journal, PRICES, batch=True) as client:
        requests = [ask(f"q{n}", sampling=Sampling(seed=3)) for n in range(10)]
        replies = await asyncio.gather(*(client.sample(request, [0]) for request in requests))
        cost = client.counters.cost_usd
    assert [texts(group) for group in replies] == [[f"q{n}/0"] for n in range(10)]
    assert [len(lines) for lines in server.created] == [10, 10]
    assert cost == pytest.approx(10 * (11 + 2 * 4) / 1e6 / 2)


async def test_lines_that_are_double_unknown_or_no_json_change_nothing(journal):
    strange = ["no json", "[]", "null", '{"custom_id": ["a"], "response": {"status_code": 200, "body": {}}}']
    strange += ['{"custom_id": "unknown", "response": {"status_code": 200, "body": {"choices": []}}}', "[" * 100_000]
    app = chat_app(answer)
    BatchServer(app, extra_lines=strange)
    async with client_of(app, journal, PRICES, batch=True) as client:
        replies = await ask_all(client)
        cost = client.counters.cost_usd
    assert [texts(group) for group in replies] == [[f"q{n}/0", f"q{n}/1"] for n in range(30)]
    assert cost == pytest.approx(sum((11 + 2 * len(f"q{n}/0q{n}/1")) / 1e6 for n in range(30)) / 2)


async def test_a_server_without_a_batch_api_is_named(journal):
    app = chat_app(answer)
    async with client_of(app, journal, batch=True) as client:
        with pytest.raises(FatalEndpointError, match="--batch needs a batch API, and http://127") as caught:
            await ask_all(client)
    assert caught.value.fix.startswith("Run the same command without --batch")
    assert app["seen"] == []


async def test_a_refused_key_is_named(journal):
    app = chat_app(answer)

    async def refuse(request):
        return web.json_response({"error": {"message": f"Incorrect API key provided: {SECRET}"}}, status=401)

    app.router.add_post("/v1/files", refuse)
    async with client_of(app, journal, batch=True) as client:
        with pytest.raises(FatalEndpointError, match="the endpoint refused the API key") as caught:
            await ask_all(client, 2)
    assert SECRET not in str(caught.value)


async def test_a_batch_that_fails_as_a_whole_stops_the_run_and_is_submitted_again(journal):
    """Its requests are not sent singly, as that would cost twice as much without a word."""
    app = chat_app(answer)
    server = BatchServer(app, failed="Enqueued token limit reached")
    async with serve(app) as url:
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS, batch=True) as client:
            with pytest.raises(FatalEndpointError, match=r"batch_0 of 5 requests has failed\n.*token limit"):
                await ask_all(client, 5)
        assert app["seen"] == []
        server.failed = ""
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS, batch=True) as client:
            assert texts((await ask_all(client, 5))[4]) == ["q4/0", "q4/1"]
    assert [len(lines) for lines in server.created] == [5, 5]


async def test_a_batch_that_the_provider_does_not_know_is_submitted_again(journal):
    app = chat_app(answer)
    server = BatchServer(app, delay_s=60.0)
    async with serve(app) as url:
        await interrupted(url, journal, server)
        server.batches.clear()
        server.delay_s = 0.0
        retry = RetryPolicy(first_wait_s=0.01, max_wait_s=0.05, total_s=0.3)
        async with LLMClient(manager(url), journal=journal, retry=retry, batch=True) as client:
            with pytest.raises(FatalEndpointError, match=r"batch_0 of 30 requests has failed\n.*No batch found"):
                await ask_all(client)
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS, batch=True) as client:
            assert texts((await ask_all(client))[4]) == ["q4/0", "q4/1"]
    assert len(server.created) == 2


async def test_a_batch_is_not_forgotten_for_a_moment_without_it(journal):
    """A gateway that says 404 for a while, or a refused key, is no reason to pay again."""
    app = chat_app(answer)
    server = BatchServer(app, delay_s=0.3)
    async with serve(app) as url:
        await interrupted(url, journal, server)
        kept, server.batches = dict(server.batches), {}
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS, batch=True) as client:
            asking = asyncio.ensure_future(ask_all(client))
            server.polled.clear()
            await server.polled.wait()
            server.batches |= kept
            assert texts((await asking)[29]) == ["q29/0", "q29/1"]
    assert len(server.created) == 1


async def test_calls_of_the_batch_api_are_repeated(journal):
    app = chat_app(answer)
    server = BatchServer(app, busy=3, lose_creations=2)
    async with client_of(app, journal, batch=True) as client:
        assert texts((await ask_all(client))[29]) == ["q29/0", "q29/1"]
    assert len(server.created) == 1  # the lost replies were of one creation, which was found again


async def test_an_outage_that_outlasts_the_retries_is_named(journal):
    app = chat_app(answer)
    BatchServer(app, busy=10**6)
    retry = RetryPolicy(first_wait_s=0.01, max_wait_s=0.05, total_s=0.3)
    async with client_of(app, journal, batch=True, retry=retry) as client:
        with pytest.raises(FatalEndpointError, match=r"the batch API at http.* fails\n.*HTTP 503"):
            await ask_all(client, 3)


async def test_a_budget_bounds_what_is_submitted_at_half_the_price(journal):
    """The requests that fit are a batch; the next ones wait for what it leaves."""
    app = chat_app(answer)
    server = BatchServer(app)
    most = (18 + 2 * 5 * 2) / 1e6 / 2  # of a request: 2 bytes and 16 more, two samples of 5 tokens
    async with client_of(app, journal, PRICES, batch=True, budget=Budget(usd=3.5 * most)) as client:
        with pytest.raises(BudgetExceededError):
            await ask_all(client, 10)
    assert len(server.created[0]) == 3
    assert sum(map(len, server.created)) < 10


async def interrupted(url, journal, server, lines=None):
    """Ask, and cancel all callers after the submission, as Ctrl-C does."""
    async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS, batch=True) as client:
        client.report_notices_to((lines if lines is not None else []).append)
        asking = asyncio.ensure_future(ask_all(client))
        await server.polled.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_an_interrupted_run_leaves_its_batch_and_finds_it_again(journal):
    app = chat_app(answer)
    server = BatchServer(app, delay_s=1.0)
    first_lines, later_lines = [], []
    async with serve(app) as url:
        began = time.monotonic()
        await interrupted(url, journal, server, first_lines)
        assert time.monotonic() - began < 5
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS, batch=True) as client:
            client.report_notices_to(later_lines.append)
            assert texts((await ask_all(client, 32))[31]) == ["q31/0", "q31/1"]
    assert first_lines[-1].startswith("the batch of 30 requests (batch_0) stays at http://127.0.0.1")
    assert first_lines[-1].endswith("the same command takes its replies")
    assert later_lines[0] == "batch of 30 requests: found again (batch_0)"
    assert [len(lines) for lines in server.created] == [30, 2]  # what is new is a batch of its own
    assert Counter(question(request.body) for request in app["seen"]) == {f"q{n}": 1 for n in range(32)}


async def test_a_request_that_comes_late_takes_its_reply_from_a_batch_that_has_ended(journal):
    app = chat_app(answer)
    server = BatchServer(app, delay_s=0.3)
    async with serve(app) as url:
        await interrupted(url, journal, server)
        async with LLMClient(manager(url), journal=journal, retry=SHORT_WAITS, batch=True) as client:
            await ask_all(client, 10)
            assert texts((await ask_all(client))[29]) == ["q29/0", "q29/1"]
    assert len(server.created) == 1


RUNNER = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from engine.api_manager import ApiManager
    from engine.llm import batches
    from engine.llm.client import LLMClient
    from engine.llm.journal import ResponseJournal
    from engine.records import ChatRequest, Message

    batches._QUIET_S, batches._FIRST_POLL_S = 0.2, 0.05

    async def main(url, path, count):
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m"}
        journal = ResponseJournal(Path(path))
        async with LLMClient(ApiManager(Path("c.json"), {"g": entry}), journal=journal, batch=True) as client:
            async def one(n):
                request = ChatRequest(role="g", messages=(Message(role="user", content=f"q{n}"),))
                return [reply.completion.text for reply in await client.sample(request, [0, 1])]
            print(await asyncio.gather(*(one(n) for n in range(count))))
        journal.close()
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
""")


def start_run(url, path):
    return ForkedCommand(RUNNER, [url, path, 20])


def printed(run):
    """The last line of a run, after what it says about its batch."""
    return run.communicate(timeout=60)[0].splitlines(keepends=True)[-1]


EXPECTED = f"{[[f'q{n}/0', f'q{n}/1'] for n in range(20)]}\n"


@pytest.mark.parametrize("noted", [True, False], ids=["after it was noted", "before its name was noted"])
def test_a_batch_survives_kill_9(tmp_path, noted):
    app = chat_app(answer)
    server = BatchServer(app, delay_s=0.5, hold_creations=0.0 if noted else 60.0)
    with serve_in_thread(app) as url:
        run = start_run(url, tmp_path / "journal.sqlite")
        while not (server.polls if noted else server.created):
            assert run.poll() is None
            time.sleep(0.02)
        os.kill(run.pid, signal.SIGKILL)
        run.wait(60)
        run.stdout.close()
        server.hold_creations = 0.0
        assert printed(start_run(url, tmp_path / "journal.sqlite")) == EXPECTED
    assert len(server.created) == 1
    assert Counter(question(request.body) for request in app["seen"]) == {f"q{n}": 1 for n in range(20)}


def test_two_processes_with_one_journal_submit_a_request_once(tmp_path):
    app = chat_app(answer)
    server = BatchServer(app, delay_s=0.5, hold_creations=0.5)
    with serve_in_thread(app) as url:
        runs = [start_run(url, tmp_path / "journal.sqlite") for _ in range(2)]
        assert list(map(printed, runs)) == [EXPECTED, EXPECTED]
    assert len(server.created) == 1


async def test_requests_of_the_responses_api_go_to_its_path_and_anthropic_has_other_batches(journal):
    app = responses_app(answer)
    server = BatchServer(app, path="/v1/responses")
    async with client_of(app, journal, {"api": "responses"}, batch=True) as client:
        [reply] = await client.sample(ask("q"), [0])
    assert (reply.completion.text, len(server.created)) == ("q/0", 1)
    async with client_of(app, journal, {"api": "anthropic"}, batch=True) as client:
        with pytest.raises(FatalEndpointError, match=r"--batch needs a batch API, and .* has none") as caught:
            await client.sample(ask("other"), [0])
    assert "batches of another kind" in str(caught.value)
