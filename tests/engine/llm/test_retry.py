import random
from email.utils import formatdate

import aiohttp
import pytest

from engine.llm.retry import (
    RequestContext,
    RetryAction,
    RetryDecision,
    RetryPolicy,
    classify_status,
    parse_wait,
    wait_from_headers,
)
from engine.llm.transport import classify_exception
from tests.support.table import table

NOW = 1_700_000_000.0


def decide(status, message="", headers=None, **asked):
    fields = {"code": None, "param": None}
    fields.update({name: asked.pop(name) for name in ("code", "param") if name in asked})
    return classify_status(status, headers or {}, {"message": message, **fields}, RequestContext(now=NOW, **asked))


@pytest.mark.parametrize(
    "waits",
    [
        pytest.param({"30": 30.0, "0.5": 0.5, " 7 ": 7.0, "-5": 0.0}, id="seconds"),
        pytest.param(
            {"1m30s": 90.0, "6m0s": 360.0, "12ms": 0.012, "1h0m1.5s": 3601.5, "2d": 172800.0, "1m30": None},
            id="durations",
        ),
        pytest.param(
            {
                formatdate(NOW + 107, usegmt=True): 107.0,
                formatdate(NOW - 50, usegmt=True): 0.0,
                "2023-11-14T22:13:30Z": 10.0,
                "2023-11-14T22:13:30": None,
                str(int(NOW) + 42): 42.0,
                str(int(NOW * 1000) + 1500): 1.5,
            },
            id="times",
        ),
        pytest.param(
            {"soon": None, "nan": None, "inf": None, "": None, None: None, "9" * 400 + "d": None}, id="invalid"
        ),
        pytest.param(
            {
                "Wed, 15 Nov 2023 00:13:20 +0200": 0.0,
                "Tue, 14 Nov 2023 22:13:30 -0000": 10.0,
                "Wed, 21 Oct 2015 07:28:00 +9999": None,
                "Wed, 21 Oct 2015 07:28:00 +99999999999999": None,
                "Wed, 21 Oct 2015 07:28:00 -" + "9" * 300: None,
                "Mon, 01 Jan 0001 00:00:00 +2300": 0.0,
                "Fri, 31 Dec 9999 23:59:59 -2359": 251_702_387_939.0,
                "Fri, 99 Dec 9999 23:59:59 GMT": None,
                "0001-01-01T00:00:00+23:59": 0.0,
            },
            id="odd zones and years",
        ),
    ],
)
def test_waits_are_read_in_every_form(waits):
    assert {value: parse_wait(value, NOW) for value in waits} == pytest.approx(waits)


@table(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20.0),
        ({"retry-after-ms": "1500", "retry-after": "20"}, 1.5),
        ({"retry-after": "107", "x-ratelimit-reset-requests": "1s"}, 107.0),
        ({"x-ratelimit-reset-requests": "12ms", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        (
            {
                "x-ratelimit-reset-requests": "8s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "149000",
            },
            8.0,
        ),
        *(
            (
                {
                    "x-ratelimit-reset-requests": "8s",
                    "x-ratelimit-remaining-requests": remaining,
                    "x-ratelimit-reset-tokens": "24h",
                    "x-ratelimit-remaining-tokens": "0.5",
                },
                8.0,
            )
            for remaining in ("-3", "0.0", " 00")
        ),
        ({"x-ratelimit-reset": "3"}, 3.0),
    ],
)
def test_retry_after_takes_precedence_over_the_largest_relevant_reset(headers, seconds):
    assert wait_from_headers(headers, NOW) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("ahead", [-6 * 3600, 0, 6 * 3600])
def test_a_server_whose_clock_differs_is_not_waited_for_longer(ahead):
    then = NOW + ahead
    for asked in (formatdate(then + 20, usegmt=True), "2023-11-14T22:13:40Z" if not ahead else str(int(then) + 20)):
        headers = {"retry-after": asked, "date": formatdate(then, usegmt=True)}
        assert wait_from_headers(headers, NOW) == pytest.approx(20.0)
    assert wait_from_headers({"retry-after": "20", "date": formatdate(then, usegmt=True)}, NOW) == 20.0
    assert wait_from_headers({"retry-after": formatdate(NOW + 20, usegmt=True), "date": "30"}, NOW) == 20.0


@pytest.mark.parametrize(
    ("action", "statuses"),
    [
        (RetryAction.SLOW_DOWN, [429]),
        (RetryAction.RETRY, [408, 409, 500, 502, 503, 529]),
        (RetryAction.STOP, [400, 401, 402, 403, 404, 405]),
        (RetryAction.REJECT, [413]),
    ],
)
def test_the_action_for_a_status(action, statuses):
    assert {decide(status, "no").action for status in statuses} == {action}


@pytest.mark.parametrize("status", [405, 406, 407, 411, 415, 420, 421, 423, 424, 428, 431, 444, 449, 451, 460, 499])
def test_a_status_about_no_request_in_particular_does_not_end_the_run_of_an_endpoint_that_has_answered(status):
    """Gateways report with such a status that a server behind them is gone, or that they have closed a connection."""
    assert decide(status).action is RetryAction.STOP
    decision = decide(status, answered=True, headers={"retry-after": "3"})
    assert (decision.action, decision.code, decision.wait_s) == (RetryAction.RETRY, f"http_{status}", 3.0)


@pytest.mark.parametrize(
    "body", ["<html><h1>413 Request Entity Too Large</h1></html>", "", {"message": "Request size limit exceeded"}]
)
def test_a_413_of_a_proxy_is_not_the_fault_of_the_prompt(body):
    decision = classify_status(413, {}, body, RequestContext(answered=True))
    assert (decision.action, decision.code) == (RetryAction.GIVE_UP, "http_413")
    assert "client_max_body_size" in decision.message


@pytest.mark.parametrize("status", [101, 300, 301, 304, 307])
def test_a_redirect_without_a_place_is_retried(status):
    assert decide(status).action is RetryAction.RETRY


def test_a_redirect_of_an_endpoint_that_has_answered_does_not_end_the_run():
    """A proxy that asks people to log in, for example; the address itself is right."""
    assert decide(302, headers={"location": "/login"}).action is RetryAction.STOP
    assert decide(302, headers={"location": "/login"}, answered=True).action is RetryAction.RETRY


def test_x_should_retry_overrides_the_status():
    assert decide(503, headers={"x-should-retry": "false"}).action is RetryAction.GIVE_UP
    assert decide(429, headers={"x-should-retry": "false"}).action is RetryAction.GIVE_UP
    assert decide(400, headers={"x-should-retry": "true"}).action is RetryAction.RETRY


def test_the_requested_wait_of_429_and_503_is_kept():
    assert decide(429, headers={"retry-after": "20"}).wait_s == 20.0
    assert decide(503, headers={"retry-after": "3"}).wait_s == 3.0


def test_an_exhausted_quota_is_not_a_rate_limit():
    assert decide(429, "You exceeded your quota", code="insufficient_quota") == RetryDecision(
        RetryAction.STOP, "no_credit", "You exceeded your quota"
    )


def test_the_message_about_a_refused_key_is_not_kept():
    decision = decide(401, "Incorrect API key provided: sk-abc***xyz")
    assert decision.code == "bad_key"
    assert "sk-abc" not in decision.message


@table(
    ("status", "message", "fields"),
    [
        (400, "The response was filtered", {"code": "content_filter"}),
        (400, "Content Exists Risk", {}),
        (400, "Output data may contain inappropriate content.", {"code": "data_inspection_failed"}),
        (403, "Your input was flagged by moderation", {}),
        (400, "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens", {}),
        (400, "too long", {"code": "context_length_exceeded"}),
        (422, "Input is too long for requested model", {}),
        (400, "the request exceeds the available context size. try increasing the context size", {}),
        (400, "too much", {"code": "exceed_context_size_error"}),
        (
            422,
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 512. Given: 100 `inputs` tokens",
            {},
        ),
    ],
)
def test_errors_about_the_prompt_are_rejections_and_not_fatal(status, message, fields):
    assert decide(status, message, **fields).action is RetryAction.REJECT


def test_max_tokens_above_the_context_length_is_a_configuration_error():
    text = "'max_tokens' is too large: 5000. This model's maximum context length is 4096 tokens"
    assert decide(400, text, max_tokens=5000).code == "max_tokens_too_large"
    assert decide(400, text, max_tokens=500).code == "context_too_long"


@table(
    ("name", "message", "param"),
    [
        ("n", "Only 'n' = 1 is supported", None),
        ("n", "n must be 1", None),
        ("n", "[{'loc': ['body', 'n'], 'msg': 'Extra inputs are not permitted'}]", None),
        ("n", "whatever", "n"),
        ("n", "Only one completion choice is allowed", None),
        ("n", "Unknown field: n", None),
        ("n", "unsupported option(s): temperature, n", None),
        ("response_format", "This response_format type is unavailable now", None),
        ("response_format", "Grammar error: Unimplemented keys: [patternProperties]", None),
        ("response_format", "whatever", "response_format.json_schema"),
        ("seed", "Unrecognized request argument supplied: seed", None),
        ("return_token_ids", "Unrecognized request argument supplied: return_token_ids", None),
        ("logprobs", "This model does not support logprobs", None),
        ("max_tokens", "'max_tokens' is not supported. Use 'max_completion_tokens' instead.", "max_tokens"),
    ],
)
def test_an_unsupported_optional_parameter_is_identified(name, message, param):
    every = ("n", "response_format", "seed", "return_token_ids", "logprobs", "max_tokens")
    decision = decide(400, message, param=param, optional=every)
    assert (decision.action, decision.parameter) == (RetryAction.DROP_PARAMETER, name)
    # What was not sent cannot be to blame.
    assert decide(400, message, param=param, optional=()).action is RetryAction.STOP


def test_max_tokens_is_not_dropped_if_its_value_is_too_large():
    text = "max_tokens is too large: 100000. This model supports at most 16384 completion tokens."
    assert decide(400, text, param="max_tokens", optional=("max_tokens",)).action is RetryAction.STOP


def test_the_letter_n_in_a_sentence_is_not_the_parameter_n():
    assert decide(400, "bad value in line n of the prompt", optional=("n",)).action is RetryAction.STOP


def test_an_unknown_model_has_its_own_code():
    assert decide(404, "The model `x` does not exist").code == "unknown_model"
    assert decide(400, "Model Not Exist").code == "unknown_model"
    assert decide(400, "whatever", code="model_not_found").code == "unknown_model"


def test_a_refusal_by_an_endpoint_that_has_answered_is_not_fatal():
    assert decide(400, "I do not like this", answered=True).action is RetryAction.GIVE_UP


@pytest.mark.parametrize("body", [None, "", "<html>Bad gateway</html>", [1], {"detail": [{"loc": ["body"]}]}])
def test_error_bodies_of_any_shape_are_read(body):
    assert classify_status(502, {}, body, RequestContext()).action is RetryAction.RETRY


def test_an_error_that_is_a_text_is_the_message():
    body = {"error": "the model is loaded with context length of only 512 tokens", "error_type": "validation"}
    assert classify_status(422, {}, body, RequestContext()).message == body["error"]


def test_transport_errors_are_retried_and_unrelated_exceptions_are_not_classified():
    assert classify_exception(TimeoutError(), RequestContext()).code == "timeout"
    assert classify_exception(aiohttp.ServerDisconnectedError(), RequestContext()).code == "connection"
    assert classify_exception(KeyError("x"), RequestContext()) is None


def test_a_reset_and_a_timeout_are_told_apart():
    reset, silent = aiohttp.ClientOSError(104, "reset"), aiohttp.ClientOSError(110, "timed out")
    reset.__cause__, silent.__cause__ = ConnectionResetError(), TimeoutError()
    assert classify_exception(reset, RequestContext()).code == "connection"
    assert classify_exception(silent, RequestContext()).code == "timeout"
    assert classify_exception(aiohttp.SocketTimeoutError(), RequestContext()).code == "timeout"


def test_the_back_off_doubles_up_to_its_maximum_with_jitter():
    policy = RetryPolicy(first_wait_s=1.0, max_wait_s=10.0)
    decision = RetryDecision(RetryAction.RETRY, "http_500")
    rng = random.Random(5)
    for failures, ceiling in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (5000, 10.0)):
        waits = {policy.wait_s(decision, failures, rng) for _ in range(200)}
        assert min(waits) >= ceiling / 2
        assert max(waits) <= ceiling
        assert len(waits) == 200


def test_a_wait_requested_by_the_server_is_never_shortened():
    policy, rng = RetryPolicy(), random.Random(5)
    decision = RetryDecision(RetryAction.SLOW_DOWN, "http_429", wait_s=20.0)
    waits = [policy.wait_s(decision, 1, rng) for _ in range(200)]
    assert min(waits) >= 20.0
    assert max(waits) <= 21.0


@pytest.mark.parametrize("asked", ["0", "-5", "Wed, 21 Oct 2015 07:28:00 GMT", "0.003"])
def test_a_server_that_asks_for_no_wait_is_not_asked_eight_times_in_a_second(asked):
    """The first wait is the one that it asked for. The back-off of the others is half of 2, 4, ... 64 s or more."""
    policy, rng = RetryPolicy(), random.Random(5)
    decision = decide(429, headers={"retry-after": asked})
    waits = [policy.wait_s(decision, failures, rng) for failures in range(1, 8)]
    assert waits[0] < 0.01
    assert all(wait >= least for wait, least in zip(waits[1:], (1, 2, 4, 8, 16, 30), strict=True))


def test_a_longer_wait_that_the_server_asks_for_counts_after_every_failure():
    policy, rng = RetryPolicy(), random.Random(5)
    decision = decide(429, headers={"retry-after": "70"})
    assert all(70 <= policy.wait_s(decision, failures, rng) <= 71 for failures in range(1, 12))


def test_dropping_a_parameter_has_no_wait():
    decision = RetryDecision(RetryAction.DROP_PARAMETER, "http_400", parameter="seed")
    assert RetryPolicy().wait_s(decision, 0, random.Random(1)) == 0.0
