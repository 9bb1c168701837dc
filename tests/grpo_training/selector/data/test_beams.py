"""Beams from an endpoint's log-probs: the request, the scores, the search, interruptions, pools."""

import asyncio
import itertools
import json
import math

import numpy as np
import pytest
from aiohttp import web

pytest.importorskip("torch")

from engine.errors import BudgetExceededError, FatalEndpointError, InputError, ScaffoldError
from grpo_training.selector.__main__ import main
from grpo_training.selector.data.beam_file import load_groups
from grpo_training.selector.data.beams import beam_search
from grpo_training.selector.data.embeddings import EmbeddingTable
from grpo_training.selector.data.prompts import ShotPrompts
from grpo_training.selector.data.sampling import PoolSampler
from tests.support.fault_server import serve_in_thread

WORDS = "apple bread candle door engine flower garden hammer".split()


def chance(prompt):
    """The probability of an answer: shots help by the number in their question, more if it is even and stands first."""
    numbers = [int(shot.split(" ")[0]) for shot in prompt.split("Question:number ")[1:-1]]
    return 0.1 + 0.01 * sum(numbers) + (0.05 if numbers and numbers[0] % 2 == 0 else 0.0)


def prompt_logprobs(tokens):
    return [None, *({str(n): {"logprob": value, "decoded_token": text}} for n, (text, value) in enumerate(tokens))]


def scoring_server(log, *, without=False, fail_after=None):
    """A chat API with log-probs of the prompt; the tokens of an answer are its halves, of equal probability."""

    async def complete(request):
        body = await request.json()
        if fail_after is not None and len(log) >= fail_after:
            return web.json_response({"error": {"message": "bad key"}}, status=401)
        log.append(body)
        text, answer = prompt_of(body), body["messages"][-1]["content"]
        middle, logp = (len(answer) + 1) // 2, math.log(chance(text))
        tokens = [(text, -20.0), (answer[:middle], logp), (answer[middle:], logp)]
        choice = {"index": 0, "message": {"role": "assistant", "content": " more"}, "finish_reason": "length"}
        more = {} if without else {"prompt_logprobs": prompt_logprobs(tokens)}
        return web.json_response({"choices": [choice], **more})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    return app


def prompt_of(body):
    return body["messages"][0]["content"]


@pytest.fixture
def dataset(tmp_path):
    rows = [{"id": f"p{n}", "problem": f"number {n} and {WORDS[n]}", "answer": f"{n}{n}"} for n in range(8)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def start(folder, url, *more):
    config = {"generator_1": {"api_key": "EMPTY", "base_url": url, "model": "m"}}
    (folder / "api.json").write_text(json.dumps(config))
    words = ["--dataset", str(folder / "data.jsonl"), "--api-config", str(folder / "api.json"), "--sample-num", "3"]
    words += ["--pool", "4", "--beam-size", "3", "--output-dir", str(folder / "out"), *more]
    if "--cache-dir" not in words:
        words += ["--cache-dir", str(folder / "cache")]
    return main(["beams", *words])


def by_hand(problems, query, pool):
    """The search as its page describes it: each step ranks by the gain of all shots."""
    alone = chance(ShotPrompts(problems).text((), query))
    first = {(a,): chance(ShotPrompts(problems).text((a,), query)) for a in pool}
    kept = sorted(first, key=lambda shots: (-(first[shots] - alone), shots))[:3]
    second = {}
    for (a,), b in itertools.product(kept, pool):
        if a != b:
            second[b, a] = chance(ShotPrompts(problems).text((b, a), query)) - alone  # the newest stands first
    return sorted(((gain, pair) for pair, gain in second.items()), key=lambda beam: (-beam[0], beam[1]))[:3]


def test_beams_are_ranked_by_the_gain_of_all_shots(dataset):
    log = []
    with serve_in_thread(scoring_server(log)) as url:
        assert start(dataset, url) == 0
    problems = [type("P", (), {"text": f"number {n} and {WORDS[n]}", "answer": f"{n}{n}"}) for n in range(8)]
    groups = load_groups(dataset / "out/beams.json")
    assert len(groups) == 3
    for group in groups:
        expected = by_hand(problems, group.query, group.pool)
        assert [sequence.shots for sequence in group.sequences] == [pair for _, pair in expected]
        assert [sequence.reward for sequence in group.sequences] == pytest.approx([gain for gain, _ in expected])
        assert group.query not in group.pool
    asked = {"add_generation_prompt": False, "continue_final_message": True, "prompt_logprobs": 0, "max_tokens": 1}
    assert all(body.items() >= {"temperature": 0, **asked}.items() for body in log)
    assert len({prompt_of(body) for body in log}) == len(log)  # nothing is asked twice
    assert np.load(dataset / "out/embeddings.npy").shape == (8, 256)


def test_an_interrupted_search_goes_on_and_pays_for_no_request_twice(dataset):
    uninterrupted, first, second = [], [], []
    with serve_in_thread(scoring_server(uninterrupted)) as url:
        assert (
            start(dataset, url, "--output-dir", str(dataset / "whole"), "--cache-dir", str(dataset / "cache_of_whole"))
            == 0
        )
    broken = scoring_server(first, fail_after=len(uninterrupted) // 2)
    with serve_in_thread(broken) as url, pytest.raises(ScaffoldError, match="bad key"):
        start(dataset, url)
    assert not (dataset / "out/beams.json").exists()
    with serve_in_thread(scoring_server(second)) as url:
        assert start(dataset, url) == 0
    assert (dataset / "out/beams.json").read_bytes() == (dataset / "whole/beams.json").read_bytes()
    assert len(first) == len(uninterrupted) // 2
    assert len(first) + len(second) == len(uninterrupted)


def test_a_budget_stops_the_search_before_it_is_exceeded(dataset):
    """The server reports no usage, so each request costs what it may cost at most: a token for each byte."""
    uninterrupted, first, second = [], [], []
    with serve_in_thread(scoring_server(uninterrupted)) as url:
        assert (
            start(dataset, url, "--output-dir", str(dataset / "whole"), "--cache-dir", str(dataset / "cache_of_whole"))
            == 0
        )
    with serve_in_thread(scoring_server(first)) as url, pytest.raises(BudgetExceededError):
        start(dataset, url, "--budget-tokens", "1500")
    assert 5 < len(first) < len(uninterrupted)
    most = (sum(len(message["content"]) + 16 for message in body["messages"]) + 1 for body in first)
    assert sum(most) <= 1500
    with serve_in_thread(scoring_server(second)) as url:
        assert start(dataset, url) == 0
    assert len(first) + len(second) == len(uninterrupted)
    assert (dataset / "out/beams.json").read_bytes() == (dataset / "whole/beams.json").read_bytes()


def test_an_endpoint_without_log_probs_of_the_prompt_is_refused(dataset):
    silent = scoring_server([], without=True)
    with (
        serve_in_thread(silent) as url,
        pytest.raises(FatalEndpointError, match="returns no log-probs of a given answer"),
    ):
        start(dataset, url)


def test_two_good_shots_rank_above_a_good_one_after_a_bad_one():
    """With probabilities to which the order means nothing, sequences of the same shots have the same score."""

    async def unordered(shots):
        return 0.1 + 0.1 * sum({1: 1, 2: 3, 3: 5}[shot] for shot in shots)

    beams = asyncio.run(beam_search([1, 2, 3], unordered, 2, 3))
    assert [(beam.shots, pytest.approx(beam.reward)) for beam in beams] == [((2, 3), 0.8), ((3, 2), 0.8), ((1, 3), 0.6)]


def test_negative_gains_keep_their_sign():
    async def worse(shots):
        return 1 - 0.1 * sum(shots)

    beams = asyncio.run(beam_search([1, 2], worse, 1, 2))
    assert [beam.shots for beam in beams] == [(1,), (2,)]  # the least harmful first
    assert all(beam.reward < 0 for beam in beams)


def test_pools_by_sampler():
    rows = np.random.default_rng(0).normal(size=(50, 6))
    texts = EmbeddingTable(rows)

    def nearest(query):
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        order = np.argsort(-(unit @ unit[query]))
        return [row for row in order.tolist() if row != query]

    chances = PoolSampler("rand", texts, None, 12, 42)
    pools = [chances.pool_of(query) for query in range(50)]
    assert len({tuple(pool) for pool in pools}) == 50
    assert all(len(set(pool)) == 12 and query not in pool for query, pool in enumerate(pools))
    assert chances.anchors(5) == PoolSampler("text", texts, None, 12, 42).anchors(5)
    assert PoolSampler("text", texts, None, 12, 42).pool_of(3) == sorted(nearest(3)[:12])


def test_a_mixed_pool_has_the_nearest_by_text_and_by_image():
    rng = np.random.default_rng(0)
    texts, images = (EmbeddingTable(rng.normal(size=(50, 6))) for _ in range(2))
    pool = PoolSampler("mix", texts, images, 12, 42).pool_of(3)
    by_text = set(PoolSampler("text", texts, None, 3, 42).pool_of(3))
    by_image = set(PoolSampler("image", texts, images, 3, 42).pool_of(3))
    assert len(set(pool)) == 12
    assert by_text <= set(pool)
    assert by_image <= set(pool)
    with pytest.raises(InputError, match="needs --images"):
        PoolSampler("image", texts, None, 3, 42)


BODIES = {
    "empty": b"",
    "cut off": b'{"choices": [{"logpr',
    "page": b"<html>busy</html>",
    "nested": b"[" * 100_000,
    "error": b'{"error": {"message": "overloaded", "code": 503}}',
}


@pytest.mark.parametrize("kind", BODIES)
def test_a_reply_that_is_damaged_on_its_way_is_asked_for_again(dataset, kind):
    log, hit = [], []
    app = scoring_server(log)

    @web.middleware
    async def damage(request, handler):
        if not hit:
            hit.append(1)
            return web.Response(body=BODIES[kind], content_type="application/json")
        return await handler(request)

    app.middlewares.append(damage)
    with serve_in_thread(app) as url:
        assert start(dataset, url) == 0
    assert len({prompt_of(body) for body in log}) == len(log)


def scored_by(value, usage=None):
    """A server that gives the one token of an answer this log-prob."""

    async def complete(request):
        answer = (await request.json())["messages"][-1]["content"]
        tokens = [("the prompt", -1.0), (answer, value)]
        choice = {"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}
        body = {"choices": [choice], "prompt_logprobs": prompt_logprobs(tokens), "usage": {"prompt_tokens": usage}}
        return web.Response(body=json.dumps(body).replace('"huge"', "1e999"), content_type="application/json")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    return app


def test_a_probability_is_at_most_one(dataset):
    with serve_in_thread(scored_by(5.0)) as url, pytest.raises(FatalEndpointError, match="up to 0, got"):
        start(dataset, url)


@pytest.mark.parametrize("usage", [-100_000, "huge", True, "12"])
def test_a_usage_that_is_none_counts_as_the_most_that_was_possible(dataset, usage):
    with serve_in_thread(scored_by(-1.0, usage)) as url, pytest.raises(BudgetExceededError):
        start(dataset, url, "--budget-tokens", "1500")


def test_a_row_without_an_answer_is_named_before_anything_is_asked(dataset):
    rows = [{"question_id": n, "question": f"number {n}", "answers": ["", ""]} for n in range(8)]
    (dataset / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = []
    with serve_in_thread(scoring_server(log)) as url, pytest.raises(InputError, match="0 has no answer"):
        start(dataset, url)
    assert log == []
