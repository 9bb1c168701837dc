"""The warning about replies that are cut off or unreadable."""

import pytest

from engine.records import Completion, Usage
from grpo_training.runs.reply_watch import ReplyWatch, tokens_of


def warnings(replies, style="full", max_tokens=400):
    """What is told about replies ``c`` (cut off), ``u`` (unreadable), ``b`` (both) and ``.``, and after how many."""
    messages, added = [], []
    watch = ReplyWatch(style, max_tokens, lambda text: messages.append((len(added), text)))
    for kind in replies:
        added.append(kind)
        watch.add(is_cut_off=kind in "cb", is_unreadable=kind in "ub")
    return messages


def test_more_than_a_fifth_is_told_once_as_soon_as_twenty_replies_are_there():
    [(after, text)] = warnings("ccbu" + "." * 16 + "c" + "c" * 30)
    assert after == 21
    assert text == (
        "⚠ 5 of 21 replies cannot be used whole: 4 were cut off at --max-tokens 400, 2 could not be read; "
        "try --prompts compact or a larger --max-tokens"
    )


def test_a_fifth_or_less_and_a_few_replies_are_not_told():
    assert warnings(("." * 4 + "c") * 40) == []
    assert warnings("c" * 19) == []


@pytest.mark.parametrize(
    ("replies", "style", "max_tokens", "end"),
    [
        (
            "c" * 20,
            "compact",
            None,
            "20 were cut off at the server's limit, 0 could not be read; try a larger --max-tokens",
        ),
        ("u" * 20, "full", 400, "0 were cut off at --max-tokens 400, 20 could not be read; try --prompts compact"),
        ("u" * 20, "compact", 400, "20 could not be read; try a larger model"),
    ],
)
def test_the_advice_is_what_the_run_does_not_do_yet(replies, style, max_tokens, end):
    [(_, text)] = warnings(replies, style, max_tokens)
    assert text.endswith(end)


@pytest.mark.parametrize(("tokens", "max_tokens"), [(1, None), (1, 400), (50, 400)])
def test_replies_that_end_where_the_context_is_full_do_not_ask_for_more_tokens(tokens, max_tokens):
    messages = []
    watch = ReplyWatch("compact", max_tokens, messages.append)
    for _ in range(20):
        watch.add(is_cut_off=True, is_unreadable=True, tokens=tokens)
    [text] = messages
    assert "20 ended after a few tokens as the context of the server was full" in text
    assert "num_ctx" in text
    assert "larger --max-tokens" not in text


def test_an_empty_reply_of_several_in_a_request_counts_as_one_token():
    assert tokens_of(Completion(text="", finish_reason="length")) == 1
    assert tokens_of(Completion(text="", reasoning="long", usage=Usage(completion_tokens=90))) == 90


def test_long_replies_are_told_once_with_what_all_of_them_cost():
    messages = []
    watch = ReplyWatch("full", None, messages.append, planned=480, cost_usd=lambda tokens: 2e-6 * tokens)
    for _ in range(60):
        watch.add(is_cut_off=False, is_unreadable=False, tokens=1240)
    assert messages == [
        "A reply has 1,240 tokens so far, and the estimate assumed 250: about 0.6 million tokens in all 480 replies, "
        "1.19 USD"
    ]


@pytest.mark.parametrize(("tokens", "planned"), [(500, 480), (1240, 20), (1240, 0)])
def test_replies_of_the_usual_length_and_few_of_them_are_not_told(tokens, planned):
    messages = []
    watch = ReplyWatch("full", None, messages.append, planned=planned)
    for _ in range(60):
        watch.add(is_cut_off=False, is_unreadable=False, tokens=tokens)
    assert messages == []
