"""Calls that failed although the status is 200: none may become an answer."""

import asyncio
import contextlib
import json
import sqlite3

import pytest
from aiohttp import web

from engine.llm.journal import ResponseJournal, request_keys
from engine.llm.replies import read_reply
from engine.llm.retry import RetryAction, RetryPolicy
from engine.records import Completion, Outcome, Sampling
from tests.support.fault_server import FAILED_REPLY_KINDS, FaultPlan, chat_app
from tests.support.llm_client import answer, ask, client_of, texts
from tests.support.table import table


def stored_rows(journal):
    with contextlib.closing(sqlite3.connect(journal.path)) as database:
        return database.execute("SELECT count(*) FROM replies").fetchone()[0]


@pytest.mark.parametrize("kind", FAILED_REPLY_KINDS)
async def test_a_call_that_fails_with_status_200_is_never_a_completion(kind, journal):
    plan = FaultPlan(seed=1, rate=1.0, kinds=[kind], max_consecutive_per_request=99)
    policy = RetryPolicy(attempts=3, first_wait_s=0.001)
    async with client_of(chat_app(answer, faults=plan), journal, retry=policy) as client:
        for indices in ([0], [0, 1, 2]):
            replies = await client.sample(ask("question"), indices)
            assert {reply.outcome for reply in replies} == {Outcome.INFRA_FAULT}
            assert all(reply.completion is None and reply.fault.message for reply in replies)
        assert plan.injected == {kind: 6}
    assert stored_rows(journal) == 0


async def test_failed_replies_are_asked_again_and_nothing_else_is(journal):
    plan = FaultPlan(seed=5, rate=0.5, kinds=FAILED_REPLY_KINDS)
    app = chat_app(answer, faults=plan)
    async with client_of(app, journal) as client:
        calls = [client.sample(ask(f"q{n}", sampling=Sampling(seed=5)), [0, 1, 2]) for n in range(40)]
        replies = await asyncio.gather(*calls)
    assert set(plan.injected) == set(FAILED_REPLY_KINDS)
    assert [texts(group) for group in replies] == [[f"q{n}/{index}" for index in range(3)] for n in range(40)]
    worked_on = len(app["seen"]) + plan.injected["error_object"]  # the only one that does not reach the handler
    assert worked_on == 40 + sum(plan.injected.values())
    assert stored_rows(journal) == 120


@pytest.mark.parametrize(
    "failed",
    [{"finish_reason": "abort"}, {"finish_reason": None}, {"error": {"code": 503, "message": "no GPU"}}],
)
async def test_of_several_choices_only_the_failed_one_is_asked_again(failed, journal):
    """The second of three choices fails; the server counts the choices that it made."""
    indices = []

    def fields(body, index):
        indices.append(index)
        return failed if indices.count(1) == 1 and index == 1 else {}

    async with client_of(chat_app(answer, reply_fields=fields), journal) as client:
        replies = await client.sample(ask("q"), [0, 1, 2])
    assert texts(replies) == ["q/0", "q/1", "q/2"]
    assert indices == [0, 1, 2, 1]


async def test_a_reply_without_a_finish_reason_is_cut_off_if_others_of_the_endpoint_have_one(journal):
    """Some servers never send the field; one that sends it to other requests cut this reply off."""
    asked = []

    async def chat(request):
        text = (await request.json())["messages"][0]["content"]
        asked.append(text)
        choice = {"index": 0, "message": {"content": f"{text} is"}}
        if text == "whole" or asked.count(text) > 1:
            choice |= {"message": {"content": f"{text} is answered"}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    async with client_of(app, journal) as client:
        replies = [texts(await client.sample(ask(text), [0])) for text in ("first", "whole", "second")]
    assert replies == [["first is"], ["whole is answered"], ["second is answered"]]
    assert asked == ["first", "whole", "second", "second"]


async def test_a_failed_reply_that_an_earlier_version_stored_is_asked_again(journal):
    request = ask("q")
    [key] = request_keys(request, "m", {}, [0])
    await journal.put(key, Completion(text="The ans", finish_reason="abort", request_key=key))
    async with client_of(chat_app(answer), journal) as client:
        assert texts(await client.sample(request, [0])) == ["q/0"]
        assert client.counters.requests_sent == 1
    journal.close()
    again = ResponseJournal(journal.path)
    assert again.get_many([key])[key].text == "q/0"
    again.close()


def reply_with(choice=(), **fields):
    choice = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop", **dict(choice)}
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    return json.dumps({"choices": [choice], "usage": usage, **fields}).encode()


@table(
    ("content", "action", "code"),
    [
        (reply_with({"finish_reason": "ABORT"}), RetryAction.RETRY, "unfinished"),
        (reply_with({"finish_reason": ""}), RetryAction.RETRY, "unfinished"),
        (reply_with({"finish_reason": 7}), RetryAction.RETRY, "unfinished"),
        *(
            (reply_with({"finish_reason": reason}), RetryAction.RETRY, "unfinished")
            for reason in (
                *("insufficient_system_resource", "upstream_error", "model_error", "error: no GPU"),
                *("time_out", "deadline_exceeded", "exception", "service_unavailable", "overloaded", "out_of_memory"),
                *("rate_limit_exceeded", "CANCELLED_BY_USER", "server_shutdown", "disconnected", "modelUnloaded"),
                *("503", " null "),
            )
        ),
        (reply_with({"error": {"code": 429, "message": "busy"}}), RetryAction.SLOW_DOWN, "http_429"),
        (reply_with({"error": {"code": "rate_limit_exceeded"}}), RetryAction.SLOW_DOWN, "http_429"),
        (reply_with({"error": {"code": "\u2074\u00b2\u2079", "message": "busy"}}), RetryAction.RETRY, "http_502"),
        (reply_with({"error": "upstream closed"}), RetryAction.RETRY, "http_502"),
        (reply_with({"error": {"code": 401, "message": "no"}}), RetryAction.RETRY, "bad_key"),
        (reply_with({"error": {"code": 404, "message": "no such model"}}), RetryAction.RETRY, "unknown_model"),
        (reply_with({"error": {"code": 402, "message": "pay"}}), RetryAction.STOP, "no_credit"),
        (reply_with({"error": {"code": "content_filter", "message": "no"}}), RetryAction.REJECT, "content_filter"),
        (reply_with({"error": {"message": "the moderation service is down"}}), RetryAction.RETRY, "http_502"),
        (reply_with(error={"code": "context_length_exceeded"}), RetryAction.REJECT, "context_too_long"),
        (reply_with(error={"code": 1302, "message": "concurrency"}), RetryAction.RETRY, "http_502"),
    ],
)
def test_what_is_done_about_a_failed_reply(content, action, code):
    decision = read_reply(content)
    assert (decision.action, decision.code) == (action, code)
    assert (decision.prompt_tokens, decision.completion_tokens) == (3, 2)  # the failed attempt may be billed


@table(
    ("content", "finish"),
    [
        (reply_with(), "stop"),
        *(
            (reply_with({"finish_reason": reason}), reason)
            for reason in (
                *("eos_token", "stop_sequence", "end_turn", "COMPLETE", "tool_calls", "function_call", "OTHER", "eos"),
                *("stopped", "userStopped", "refusal", "MALFORMED_FUNCTION_CALL", "repetition", "matched_stop", "2"),
            )
        ),
        (reply_with({"finish_reason": "model_context_window_exceeded"}), "length"),
        (reply_with({"finish_reason": "ERROR_TOXIC"}), "content_filter"),
        (reply_with({"finish_reason": {"type": "length", "length": 9}}), "length"),
        (reply_with({"finish_reason": "MAX_TOKENS"}), "length"),
        (reply_with({"finish_reason": "SAFETY"}), "content_filter"),
        (reply_with({"finish_reason": "content_filter", "message": None}), "content_filter"),
        # Azure: the filter of this reply did not run; the reply is whole.
        (reply_with({"content_filter_results": {"error": {"code": "content_filter_error"}}}), "stop"),
        (reply_with({"error": None}, error=None), "stop"),
        (reply_with(error={"message": "", "type": "", "code": None}), "stop"),
    ],
)
def test_a_reply_that_only_looks_failed_is_read(content, finish):
    [choice] = read_reply(content).choices
    assert choice.finish_reason == finish
