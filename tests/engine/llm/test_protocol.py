import json

import pytest

from engine.api_manager import Endpoint
from engine.llm.quirks import parts_of
from engine.llm.replies import clean, completions, read_reply, split_by_size
from engine.llm.requests import request_body
from engine.llm.retry import RetryAction
from engine.records import ChatRequest, Message, Sampling, Usage
from tests.support.table import table

ENDPOINT = Endpoint(
    role="g",
    api_key="EMPTY",
    base_url="http://x/v1",
    model="m",
    price_in=1.0,
    price_out=10.0,
    extra_body={"top_k": 5},
)
REQUEST = ChatRequest(
    role="g",
    messages=(Message(role="system", content="s"), Message(role="user", content="u")),
    sampling=Sampling(temperature=0.3, max_tokens=100, seed=40, logprobs=True),
    json_schema={"type": "object"},
)


def choice(text, index=0, reason="stop", **fields):
    message = {"role": "assistant", "content": text}
    return {"index": index, "message": message, "finish_reason": reason, **fields}


def reply(*choices, prompt=10, completion=6, **fields):
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    return json.dumps({"model": "m-2", "choices": list(choices), "usage": usage, **fields}).encode()


def drawn_completions(content, keys, **changes):
    options = {"attempts": 1, "latency_s": 0.5, "wasted": Usage(), **changes}
    return completions(read_reply(content), ENDPOINT, keys, **options)


def test_a_body_contains_all_parameters_of_the_request():
    names = parts_of(REQUEST, 3, ENDPOINT.extra_body)
    body = request_body(REQUEST, ENDPOINT, names, 2, 3)
    assert body.pop("seed") - request_body(REQUEST, ENDPOINT, names, 0, 3)["seed"] == 2
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "temperature": 0.3,
        "max_tokens": 100,
        "n": 3,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": {"type": "object"}},
        },
        "logprobs": True,
        "return_token_ids": True,
        "top_k": 5,
    }


def test_dropped_parameters_are_left_out_and_max_tokens_gets_its_newer_name():
    every = frozenset({"n", "seed", "response_format", "logprobs", "return_token_ids", "max_tokens"})
    names = parts_of(REQUEST, 3, ENDPOINT.extra_body) - every
    body = request_body(REQUEST, ENDPOINT, names, 0, 1)
    assert set(body) == {"model", "messages", "temperature", "max_completion_tokens", "top_k"}


def test_a_plain_request_has_no_optional_parameters():
    plain = ChatRequest(role="g", messages=(Message(role="user", content="u"),))
    assert parts_of(plain, 1, ENDPOINT.extra_body) == {"top_k"}  # of extra_body
    assert set(request_body(plain, ENDPOINT, frozenset({"top_k"}), 0, 1)) == {"model", "messages", "top_k"}
    assert set(request_body(plain, ENDPOINT, frozenset(), 0, 1)) == {"model", "messages"}


def test_one_choice_becomes_one_completion():
    (sample,) = drawn_completions(reply(choice("hi")), ["k"], attempts=2)
    assert (sample.text, sample.finish_reason, sample.model, sample.request_key) == ("hi", "stop", "m-2", "k")
    # 10 prompt tokens at 1 USD and 6 completion tokens at 10 USD per million.
    assert sample.usage == Usage(prompt_tokens=10, completion_tokens=6, attempts=2, cost_usd=70e-6)
    assert (sample.latency_s, sample.token_ids, sample.ids_source) == (0.5, None, None)


def test_the_usages_of_n_choices_sum_to_the_reported_usage():
    content = reply(choice("a" * 30, 0), choice("b" * 20, 1), choice("c" * 10, 2), prompt=11, completion=101)
    drawn = drawn_completions(content, ["x", "y", "z"], wasted=Usage(prompt_tokens=7, completion_tokens=2))
    # 101 in the proportion 3 : 2 : 1 is 50.5, 33.7, 16.8; cut off by running sums: 50, 34, 17.
    assert [completion.usage.completion_tokens for completion in drawn] == [50 + 2, 34, 17]
    assert [completion.usage.prompt_tokens for completion in drawn] == [11 + 7, 0, 0]
    assert sum(completion.usage.cost_usd for completion in drawn) == pytest.approx((18 * 1.0 + 103 * 10.0) / 1e6)


@pytest.mark.parametrize(("counted", "tokens"), [(12, [12, 24]), (4, [4, 8])])
def test_llama_cpp_reports_the_tokens_of_its_first_choice_only(counted, tokens):
    """Its server of October 2026 did. Where ``usage`` and ``timings`` differ, ``usage`` has all choices."""
    content = reply(choice("a" * 30, 0), choice("b" * 60, 1), completion=12, timings={"predicted_n": counted})
    assert [drawn.usage.completion_tokens for drawn in drawn_completions(content, ["x", "y"])] == tokens


def test_the_parts_of_a_division_sum_to_the_total():
    assert split_by_size(10, [1, 1, 1]) == [3, 3, 4]
    assert split_by_size(0, [5, 5]) == [0, 0]
    assert split_by_size(7, [0, 3, 0]) == [0, 7, 0]


def test_choices_are_sorted_by_index_unless_the_indices_are_invalid():
    assert [drawn.text for drawn in drawn_completions(reply(choice("b", 1), choice("a", 0)), ["x", "y"])] == ["a", "b"]
    assert [drawn.text for drawn in drawn_completions(reply(choice("a", 0), choice("b", 0)), ["x", "y"])] == ["a", "b"]
    assert [drawn.text for drawn in drawn_completions(reply(choice("a", "?"), choice("b", None)), ["x", "y"])] == [
        "a",
        "b",
    ]


@table(
    ("indices", "samples"),
    [
        ([0, 2], ["0", None, "2"]),  # the second one was left out
        ([2], [None, None, "2"]),
        ([2, 1, 0], ["0", "1", "2"]),
        ([1, 2, 3], ["1", "2", "3"]),  # counted from 1
        ([None, 1, 2], ["None", "1", "2"]),  # a 0 that is not written
        ([0, 0, 0], ["0", "0", "0"]),
        ([0, 7], ["0", None, None]),
        ([0, 2, 2], ["0", None, "2"]),
        ([-1, 1, 0], ["0", "1", None]),
        ([0, 10**30], ["0", None, None]),
        (["2", "1", "0"], ["0", "1", "2"]),
        ([2.0, 0.0, 1.0], ["0.0", "1.0", "2.0"]),
        (["3", "2", "1"], ["1", "2", "3"]),
        (["2", 0, 1], ["0", "1", "2"]),
        (["\u00b2", True, None], ["\u00b2", "True", "None"]),  # no numbers: in the order of the reply
        ([0, float("inf"), 1e308], ["0", None, None]),
    ],
)
def test_a_choice_is_the_sample_that_its_index_says(indices, samples):
    read = read_reply(reply(*(choice(str(index), index) for index in indices)), 3)
    drawn = completions(read, ENDPOINT, ["x", "y", "z"], attempts=1, latency_s=0.5, wasted=Usage())
    assert [completion and completion.text for completion in drawn] == samples
    assert sum(completion.usage.completion_tokens for completion in drawn if completion) == 6


def test_a_reply_without_the_index_of_any_sample_is_retried():
    decision = read_reply(reply(choice("a", 5), choice("b", 7)), 2)
    assert "no choice has the index of a sample" in decision.message


def test_the_index_of_the_only_sample_does_not_matter():
    assert [read_choice.text for read_choice in read_reply(reply(choice("a", 7)), 1).choices] == ["a"]


def test_missing_and_unreadable_choices_give_no_completion():
    drawn = drawn_completions(reply(choice("a", 0), {"index": 1}, choice("c", 2)), ["x", "y", "z", "w"])
    assert [completion and completion.text for completion in drawn] == ["a", None, "c", None]
    assert sum(completion.usage.completion_tokens for completion in drawn if completion) == 6


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_read_from_both_field_names(field):
    content = reply({"index": 0, "message": {"content": None, field: "hm"}, "finish_reason": "length"})
    (completion,) = drawn_completions(content, ["k"])
    assert (completion.text, completion.reasoning, completion.finish_reason) == ("", "hm", "length")


def test_only_valid_token_ids_and_logprobs_are_used():
    def one(token_ids, logprobs):
        entries = None if logprobs is None else {"content": [{"logprob": value} for value in logprobs]}
        (completion,) = drawn_completions(reply(choice("ab", token_ids=token_ids, logprobs=entries)), ["k"])
        return completion.token_ids, completion.logprobs, completion.ids_source

    assert one([5, 6], [-0.5, -1]) == ([5, 6], [-0.5, -1.0], "server")
    assert one(None, [-0.5]) == (None, [-0.5], None)
    assert one([5, 6], [-0.5]) == ([5, 6], None, "server")  # their lengths differ
    assert one(["5", True], [None]) == (None, None, None)
    assert one([-1, 5], None) == one([5, 2**31], None) == (None, None, None)
    assert one([5], [float("-inf")]) == ([5], None, "server")
    assert one([5], [-(10**400)]) == ([5], None, "server")


def test_of_long_names_the_beginning_is_kept():
    """Every sample has them: they would make the line of a group too long."""
    read = read_reply(reply(choice("a", reason="x" * 10**6), model="m" * 10**6))
    assert (read.choices[0].finish_reason, read.model) == ("x" * 1000, "m" * 1000)


def test_content_parts_and_refusals_are_text():
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert drawn_completions(reply(choice(parts)), ["k"])[0].text == "ab"
    assert drawn_completions(reply(choice(["a", None, "b"])), ["k"])[0].text == "ab"
    content = reply({"index": 0, "message": {"content": None, "refusal": "no"}, "finish_reason": "stop"})
    assert drawn_completions(content, ["k"])[0].text == "no"


def test_cached_tokens_are_read_from_both_field_names():
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}
    assert read_reply(reply(choice("a"), usage=usage)).cached_tokens == 4
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 5}
    assert read_reply(reply(choice("a"), usage=usage)).cached_tokens == 5


@table(
    ("content", "code"),
    [
        (b"", "cut_off"),
        (reply(choice("hi"))[:-5], "cut_off"),
        (b"\xff\xfe{", "cut_off"),
        (b"\n<!DOCTYPE html><title>Log in</title>", "not_json"),
        (b"[" * 100_000, "cut_off"),
        (b'{"choices": [' + b"9" * 5000 + b"]}", "cut_off"),
        (b"[1]", "wrong_schema"),
        (b"null", "wrong_schema"),
        (b'{"object": "chat.completion"}', "wrong_schema"),
        (reply(), "wrong_schema"),
        (reply("text"), "wrong_schema"),
        (reply({"message": "text"}), "wrong_schema"),
        (reply(choice({"a": 1})), "wrong_schema"),
        (reply(choice("a" * (1 << 22))), "too_long"),
        (reply(choice(""), completion=0), "empty_reply"),
        (reply(choice(None), usage=None), "empty_reply"),
        (b'{"error": {"message": "upstream", "code": 502}}', "http_502"),
    ],
)
def test_an_invalid_reply_is_retried(content, code):
    decision = read_reply(content)
    assert (decision.action, decision.code) == (RetryAction.RETRY, code)


def test_a_stream_that_was_not_asked_for_is_named_with_the_way_out():
    stream = b'data: {"choices": [{"delta": {"content": "hi"}}]}\n\ndata: [DONE]\n\n'
    assert '"stream": false in extra_body' in read_reply(stream).message


def test_token_counts_that_no_reply_has_are_not_counted():
    usage = {"prompt_tokens": 10**400, "completion_tokens": 7}
    read = read_reply(reply(choice("a"), usage=usage))
    assert (read.prompt_tokens, read.completion_tokens) == (0, 7)


def test_a_rate_limit_error_with_status_200_is_a_rate_limit():
    decision = read_reply(b'{"error": {"message": "slow down", "code": 429}}')
    assert decision.action is RetryAction.SLOW_DOWN


def test_the_usage_of_an_invalid_reply_is_reported():
    decision = read_reply(reply(completion=55, prompt=20))
    assert (decision.prompt_tokens, decision.completion_tokens) == (20, 55)


def test_an_empty_text_with_completion_tokens_is_a_reply():
    (completion,) = drawn_completions(reply(choice("", reason="length"), completion=100), ["k"])
    assert (completion.text, completion.finish_reason) == ("", "length")


def test_invalid_usage_fields_count_as_zero():
    usage = {"prompt_tokens": -4, "completion_tokens": "many", "prompt_tokens_details": 3}
    response = read_reply(reply(choice("a"), usage=usage))
    assert (response.prompt_tokens, response.completion_tokens, response.cached_tokens) == (0, 0, 0)


def test_lone_surrogates_are_replaced():
    assert clean("a\ud800b") == "a?b"
    assert clean("Ω😀") == "Ω😀"
    raw = b'{"choices": [{"message": {"content": "x\\ud800"}}], "usage": {"completion_tokens": 1}}'
    assert drawn_completions(raw, ["k"])[0].text == "x?"


def test_the_answer_at_the_end_of_a_prompt_is_found_by_its_tokens():
    """Averaging over the prompt as well made earlier probabilities a million times too small."""
    tokens = [("<|image|>", -9.0), (" two", -0.5), (" dogs", -1.5)]
    every = [None, *({str(n): {"logprob": value, "decoded_token": text}} for n, (text, value) in enumerate(tokens))]
    body = {"choices": [{"message": {"content": "x"}}], "prompt_logprobs": every}
    for answer, logprobs in (("two dogs", [-0.5, -1.5]), ("dogs", [-1.5]), ("ogs", [-1.5])):
        [choice] = read_reply(json.dumps(body).encode(), 1, given=answer).choices
        assert (choice.text, choice.logprobs) == (answer, logprobs)
    for answer, more in (("cats", {}), ("long" * 9, {}), ("dogs", {"prompt_logprobs": None})):
        decision = read_reply(json.dumps(body | more).encode(), 1, given=answer)
        assert (decision.action, decision.code) == (RetryAction.STOP, "no_prompt_logprobs")
