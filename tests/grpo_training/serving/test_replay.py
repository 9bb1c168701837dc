"""The replay server: recorded replies found by prompt, over the real protocol."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from engine.errors import InputError, MissingInputError
from grpo_training.serving.recorded_replies import NotRecordedError, RecordedReplies, count_tokens, reply_text
from grpo_training.serving.replay import build_app, main

SCAFFOLD = {"target_variable": "x", "knowns": {"a": 1}}
TEXT = "Let $x$ be a number with\n\\[x + 1 = 43\\]\nFind $x$."
OTHER = "How many sides has a square? Answer with an integer, please."


def _group(text=TEXT, rollouts=(), problem_id="p1", **rest):
    pairs = rollouts or [(repr(SCAFFOLD), "40"), (json.dumps(SCAFFOLD), "41"), (SCAFFOLD, "42")]
    return {
        "problem_id": problem_id, "problem_text": text, "ground_truth": "42", "timestamp": "t", **rest,
        "rollouts": [{"rollout_id": k, "scaffold": s, "answer": a} for k, (s, a) in enumerate(pairs, 1)],
    }  # fmt: skip


def _fusion(generator_id, answer, text=TEXT, problem_id="p1", scaffold=SCAFFOLD):
    return {
        "problem_id": problem_id, "problem_text": text, "ground_truth": "42", "generator_id": generator_id,
        "fused_scaffold": scaffold, "final_answer": answer, "rewards": {}, "timestamp": "t",
    }  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def _write(name, *rows):
        path = tmp_path / name
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return path

    return _write


@pytest.fixture
async def serve():
    """Start an application; gives a client. All are closed at the end."""
    clients = []

    async def start(*files, **arguments):
        client = TestClient(TestServer(build_app(files, **arguments)))
        await client.start_server()
        clients.append(client)
        return client

    yield start
    for client in clients:
        await client.close()


async def _ask(client, model, *messages, **rest):
    turns = [{"role": "user", "content": message} for message in messages]
    async with client.post("/v1/chat/completions", json={"model": model, "messages": turns, **rest}) as reply:
        return reply.status, await reply.json()


def _contents(reply):
    return [choice["message"]["content"] for choice in reply["choices"]]


def _answers(reply):
    return [json.loads(content)["final_answer"] for content in _contents(reply)]


# ------------------------------------------------------------------ from a record to a reply


@pytest.mark.parametrize("scaffold", [SCAFFOLD, json.dumps(SCAFFOLD), repr(SCAFFOLD)])
def test_a_scaffold_in_each_form_becomes_json_with_the_recorded_answer(scaffold):
    assert json.loads(reply_text(scaffold, "7")) == {**SCAFFOLD, "final_answer": "7"}
    assert json.loads(reply_text(scaffold, None))["final_answer"] is None


def test_the_recorded_answer_stands_over_the_scaffolds_own():
    assert json.loads(reply_text({"final_answer": "1"}, "2")) == {"final_answer": "2"}


def test_faults_stay_faults():
    assert reply_text(None, "33") == "33"
    assert "sorry" in reply_text(None, None)
    assert reply_text("{'cut': off", "33") == "{'cut': off"
    assert reply_text("[1, 2]", "33") == "[1, 2]"


def test_python_values_that_json_does_not_have():
    reply = json.loads(reply_text("{'t': (1, 2), 's': {3}, 'b': b'x', 'n': None, 'l': True}", "1"))
    assert reply == {"t": [1, 2], "s": [3], "b": "b'x'", "n": None, "l": True, "final_answer": "1"}
    assert reply_text("{(1, 2): 3}", "1") == "{(1, 2): 3}"
    assert reply_text("{'x': 1e999}", "1") == "{'x': 1e999}"


@pytest.mark.parametrize(
    "hostile", ["__import__('os').getpid()", "[" * 100_000, "{'a': 9**9**9}", "(" * 300 + ")" * 300, "\0"]
)
def test_hostile_text_is_text(hostile):
    started = time.process_time()
    assert reply_text(hostile, "1") == hostile
    assert time.process_time() - started < 5


def test_tokens_are_words_and_signs():
    assert count_tokens(["x + 1 = 43.", "", "two words"]) == 8


# ------------------------------------------------------------------ from a prompt to a record


def test_the_text_is_found_whatever_the_white_space_and_the_last_one_counts(write):
    replies = RecordedReplies([
        write("generator_1_rollouts.jsonl", _group(), _group(OTHER, problem_id="p2"),
              _group("Find $x$.", problem_id="short"))
    ])  # fmt: skip
    wrapped = TEXT.replace(" ", "  \n")
    assert replies.find("generator_1", ["system", f"Problem:{wrapped} Go."]).problem_id == "p1"
    assert replies.find("generator_1", [f"Example: {TEXT}\nNow: {OTHER}"]).problem_id == "p2"
    assert replies.find("generator_1", [TEXT, "no JSON", "Write JSON only."]).problem_id == "p1"
    assert replies.find("generator_1", ["Find $x$."]).problem_id == "short"


def test_many_problems_with_the_same_beginning(write):
    rows = [_group(f"Consider the following problem. What is {k} + {k}?", problem_id=str(k)) for k in range(2000)]
    replies = RecordedReplies([write("generator_1_rollouts.jsonl", *rows)])
    prompt = ["words " * 5000 + "Consider the following problem. What is 1999 + 1999? Think."]
    started = time.process_time()
    assert replies.find("generator_1", prompt).problem_id == "1999"
    assert time.process_time() - started < 5


def test_the_last_record_with_a_scaffold_wins(write):
    nothing, half = [(None, None)] * 3, [(None, None), (SCAFFOLD, "2"), (None, "3")]
    path = write(
        "generator_1_rollouts.jsonl", _group(rollouts=nothing), _group(rollouts=[(SCAFFOLD, "1")] * 3),
        _group(rollouts=half), _group(rollouts=nothing), _group(OTHER, nothing, "p2"),
    )  # fmt: skip
    replies = RecordedReplies([path])
    assert replies.problems == {"generator_1": 2}
    assert json.loads(replies.find("generator_1", [TEXT]).replies[1])["final_answer"] == "2"
    assert replies.find("generator_1", [TEXT]).replies[2] == "3"
    assert "sorry" in replies.find("generator_1", [OTHER]).replies[0]


def test_a_fusion_is_picked_by_the_generator_that_is_named(write):
    path = write("critic_results.jsonl", *(_fusion(f"generator_{k}", str(k)) for k in (1, 2, 10)))
    replies = RecordedReplies([path])

    def picked(*messages):
        return replies.find("critic", messages).generator_id

    assert picked(TEXT, "Proposals from generator_10:") == "generator_10"
    assert picked("Fuse generator_1.", f"{TEXT} ({{generator_2}})", "generator_2, once more") == "generator_2"
    for messages in ([TEXT], [f"{TEXT} generator_1 generator_2"], [f"{TEXT} generator_3 my_generator_1x"]):
        with pytest.raises(NotRecordedError, match="generator_1, generator_10, generator_2") as caught:
            picked(*messages)
        assert caught.value.code == "generator_not_found"


def test_the_model_comes_from_the_file_name_or_else_from_the_records(write):
    by_name = write("generator_1_rollouts.jsonl", _group(generator_id="other"))
    by_record = write("old.jsonl", _group(generator_id="generator_7"), _group(OTHER, generator_id="generator_8"))
    fusions = write("fused.jsonl", _fusion("generator_1", "1"))
    assert RecordedReplies([by_name, by_record, fusions]).problems == {
        "generator_1": 1, "generator_7": 1, "generator_8": 1, "critic": 1
    }  # fmt: skip
    with pytest.raises(InputError, match="no model's name"):
        RecordedReplies([write("nameless.jsonl", _group())])


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "is empty"),
        ([_group(), '{"problem_id": "p"'], r"broken line: .*generator_1_rollouts\.jsonl:2: not JSON"),
        ([_group(), _fusion("generator_1", "1")], "generator_1_rollouts.jsonl:2: no rollouts"),
        (["[1]"], "generator_1_rollouts.jsonl:1: a JSON object is needed"),
        ([{**_group(), "problem_text": " "}], "the record of p1 has no 'problem_text'"),
    ],
)
def test_broken_files_are_named(write, rows, words):
    with pytest.raises(InputError, match=words):
        RecordedReplies([write("generator_1_rollouts.jsonl", *rows)])


def test_files_that_are_not_there(tmp_path, write):
    with pytest.raises(MissingInputError, match="Recorded file not found"):
        RecordedReplies([tmp_path / "generator_1_rollouts.jsonl"])
    with pytest.raises(MissingInputError, match="Recorded file not found"):
        RecordedReplies([tmp_path])
    with pytest.raises(InputError, match="No recorded file"):
        RecordedReplies([])
    with pytest.raises(InputError, match="does not say whose"):
        RecordedReplies([write("critic_results.jsonl", _fusion("", "1"))])


# ------------------------------------------------------------------ the protocol


async def test_seed_and_n_walk_through_the_rollouts(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", _group()))

    async def answers(**rest):
        status, reply = await _ask(client, "generator_1", TEXT, **rest)
        assert status == 200
        return _answers(reply)

    assert await answers() == ["40"]
    assert [await answers(seed=k) for k in (0, 1, 2, 3)] == [["40"], ["41"], ["42"], ["40"]]
    assert await answers(n=3) == ["40", "41", "42"]
    assert await answers(n=2, seed=2) == ["42", "40"]
    assert await answers(n=1, seed=-1, temperature=0.3) == ["42"]


async def test_the_reply_is_a_chat_completion_and_always_the_same(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", _group()))
    first, second = [await _ask(client, "generator_1", TEXT, n=2) for _ in range(2)]
    assert first == second
    _, reply = first
    assert (reply["object"], reply["model"]) == ("chat.completion", "generator_1")
    assert [choice["index"] for choice in reply["choices"]] == [0, 1]
    assert {choice["finish_reason"] for choice in reply["choices"]} == {"stop"}
    assert reply["usage"]["prompt_tokens"] == count_tokens([TEXT])
    assert reply["usage"]["completion_tokens"] == count_tokens(_contents(reply))
    assert reply["usage"]["total_tokens"] == sum(reply["usage"][key] for key in ("prompt_tokens", "completion_tokens"))


async def test_content_as_parts(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", _group()))
    parts = [{"type": "text", "text": "Problem:"}, {"type": "text", "text": TEXT}]
    status, reply = await _ask(client, "generator_1", parts)
    assert (status, _answers(reply)) == (200, ["40"])


async def test_an_analyst_gets_no_operations(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", _group()))
    schema = {"type": "json_schema", "json_schema": {"name": "operations", "schema": {}}}
    for model, text, rest in (
        ("analyst", "anything", {}),
        ("generator_1", TEXT, {"response_format": schema}),
        ("generator_1", f'Reply with {{"operations": [...]}}.\n{TEXT}', {}),
        ("any", 'Schema: {"properties": {"operations": {"type": "array"}}}', {"n": 2}),
    ):
        status, reply = await _ask(client, model, text, **rest)
        assert status == 200
        assert {json.dumps(json.loads(content)) for content in _contents(reply)} == {'{"operations": []}'}


async def test_a_variable_called_operations_makes_no_analyst(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", _group()))
    _, reply = await _ask(client, "generator_1", f'{TEXT} {{"operations": 3, "cause": ["operations"]}}')
    assert _answers(reply) == ["40"]
    turns = [
        {"role": "system", "content": "Fuse the proposals."},
        {"role": "user", "content": f'{TEXT} {{"operations": [1, 2]}}'},
    ]
    async with client.post("/v1/chat/completions", json={**GOOD, "messages": turns}) as reply:
        assert _answers(await reply.json()) == ["40"]


async def test_what_was_not_found_is_said(write, serve):
    client = await serve(
        write("generator_1_rollouts.jsonl", _group()), write("critic_results.jsonl", _fusion("generator_1", "1"))
    )  # fmt: skip
    status, reply = await _ask(client, "generator_9", TEXT)
    assert (status, reply["error"]["code"]) == (404, "model_not_found")
    assert "critic, generator_1" in reply["error"]["message"]
    status, reply = await _ask(client, "generator_1", "system", "What is the airspeed of a swallow?")
    assert (status, reply["error"]["code"]) == (404, "problem_not_found")
    assert "airspeed of a swallow" in reply["error"]["message"]
    status, reply = await _ask(client, "critic", f"{TEXT} generator_2")
    assert (status, reply["error"]["code"]) == (404, "generator_not_found")
    assert "generator_1" in reply["error"]["message"]
    assert reply["error"]["type"] == "invalid_request_error"


GOOD = {"model": "generator_1", "messages": [{"role": "user", "content": TEXT}]}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None), (b"{", None), (b"\xff", None), (b"[" * 100_000, None), (b"[]", None),
        ({**GOOD, "model": None}, "model"), ({**GOOD, "model": ["x"]}, "model"),
        ({**GOOD, "messages": []}, "messages"), ({**GOOD, "messages": "hi"}, "messages"),
        ({**GOOD, "messages": [{"role": "user"}]}, "messages[0]"), ({**GOOD, "messages": [7]}, "messages[0]"),
        ({**GOOD, "messages": [{"content": "x"}]}, "messages[0]"),
        ({**GOOD, "n": 0}, "n"), ({**GOOD, "n": 129}, "n"), ({**GOOD, "n": True}, "n"), ({**GOOD, "n": "2"}, "n"),
        ({**GOOD, "seed": 1.5}, "seed"), ({**GOOD, "stream": True}, "stream"),
        ({**GOOD, "response_format": "json"}, "response_format"),
    ],
)  # fmt: skip
async def test_bad_bodies_are_400_and_name_the_parameter(write, serve, body, param):
    client = await serve(write("generator_1_rollouts.jsonl", _group()))
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with client.post("/v1/chat/completions", data=raw) as reply:
        assert reply.status == 400
        error = (await reply.json())["error"]
    assert error["param"] == param
    assert error["message"]


async def test_other_refusals_are_in_the_protocols_form(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", _group()))
    for method, path, status in (("GET", "/v1/nothing", 404), ("GET", "/v1/chat/completions", 405)):
        async with client.request(method, path) as reply:
            assert reply.status == status
            assert path in (await reply.json())["error"]["message"]
    async with client.post("/v1/chat/completions", data=b"x" * (9 << 20)) as reply:
        assert reply.status == 413
        assert "error" in await reply.json()


async def test_models_and_health(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", _group()))
    async with client.get("/v1/models") as reply:
        assert [model["id"] for model in (await reply.json())["data"]] == ["analyst", "generator_1"]
    async with client.get("/health") as reply:
        assert await reply.json() == {"status": "ok", "problems": {"generator_1": 1}}


async def test_every_chat_request_is_counted_once(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", _group()))
    for rest in ({"seed": 1}, {"seed": 1}, {"seed": 2, "n": 2}):
        await _ask(client, "generator_1", TEXT, **rest)
    await _ask(client, "generator_1", "unknown")
    await client.post("/v1/chat/completions", data=b"{")
    await client.get("/health")
    counted = {(s.model, s.problem_id, s.seed, s.n, s.status): k for s, k in client.app["seen"].items()}
    assert counted == {
        ("generator_1", "p1", 1, 1, 200): 2,
        ("generator_1", "p1", 2, 2, 200): 1,
        ("generator_1", "", None, 1, 404): 1,
        ("", "", None, 0, 400): 1,
    }


async def test_latency_is_waited_for_by_replies_alone(write, serve):
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    client = await serve(write("generator_1_rollouts.jsonl", _group()), latency_s=2.5, sleep=sleep)
    assert (await _ask(client, "generator_1", TEXT))[0] == 200
    assert (await _ask(client, "generator_1", "unknown"))[0] == 404
    assert waited == [2.5]


async def test_the_openai_sdk_understands_it(write, serve):
    import openai

    client = await serve(write("generator_1_rollouts.jsonl", _group()))
    base_url = str(client.make_url("/v1"))
    http_client = openai.DefaultAioHttpClient()
    async with openai.AsyncOpenAI(api_key="unused", base_url=base_url, max_retries=0, http_client=http_client) as sdk:
        assert [model.id async for model in sdk.models.list()] == ["analyst", "generator_1"]
        messages = [{"role": "user", "content": TEXT}]
        reply = await sdk.chat.completions.create(model="generator_1", messages=messages, n=2, seed=1)
        assert [json.loads(choice.message.content)["final_answer"] for choice in reply.choices] == ["41", "42"]
        assert reply.usage.prompt_tokens == count_tokens([TEXT])
        with pytest.raises(openai.NotFoundError, match="not recorded") as caught:
            await sdk.chat.completions.create(model="nobody", messages=messages)
        assert caught.value.code == "model_not_found"


# ------------------------------------------------------------------ real recorded data


async def test_real_recordings_are_served_for_every_problem(recorded, aime2024, serve):
    client = await serve(*recorded.values())
    problems = [json.loads(line)["problem"] for line in aime2024.read_text().splitlines()]
    rows = [json.loads(line) for line in recorded["generator_2_rollouts"].read_text().splitlines()]
    expected = [[rollout["answer"] for rollout in row["rollouts"]] for row in rows]
    served = [_answers((await _ask(client, "generator_2", "solve", p, n=3))[1]) for p in problems]
    assert served == expected
    for problem in problems:
        _, reply = await _ask(client, "generator_1", f"Problem:\n{problem}", n=3)
        assert all("causal_graph" in json.loads(content) for content in _contents(reply))
        for generator in ("generator_1", "generator_2"):
            status, _ = await _ask(client, "critic", f"Problem:\n{problem}\n\nProposals from {generator}:")
            assert status == 200
        status, reply = await _ask(client, "critic", f"{problem}\n\nProposals from generator_3:")
        assert (status, reply["error"]["code"]) == (404, "generator_not_found")


def test_of_the_four_real_runs_of_problem_1_the_last_is_served(recorded):
    path = recorded["generator_1_rollouts"]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    runs = [row for row in rows if row["problem_id"] == "aime2024_001"]
    assert len(runs) == 4
    assert [rollout["scaffold"] for rollout in runs[0]["rollouts"]] == [None] * 3
    found = RecordedReplies([path]).find("generator_1", [runs[0]["problem_text"]])
    answers = [json.loads(reply)["final_answer"] for reply in found.replies]
    assert answers == [rollout["answer"] for rollout in runs[-1]["rollouts"]]


# ------------------------------------------------------------------ the command

COMMAND = [sys.executable, "-m", "grpo_training.replay_server"]
ROOT = Path(__file__).resolve().parents[3]


def test_ctrl_c_ends_it_with_130(write):
    path = write("generator_1_rollouts.jsonl", _group())
    process = subprocess.Popen(
        [*COMMAND, "--recorded", path, "--port", "0"], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+/v1", process.stdout.readline())[0]

        async def ask():
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"{url}/chat/completions", json=GOOD) as reply,
            ):
                return reply.status

        assert asyncio.run(ask()) == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert "Stopped after 1 requests." in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def test_help_is_quick_and_brings_no_server_in():
    code = (
        "import sys; from grpo_training.replay_server import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print('aiohttp' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert "--latency-s" in result.stdout
    assert result.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--port", "70000"], "70000 is not a port"),
        (["--port", "x"], "invalid int value"),
        (["--port", "0", "--latency-s", "nan"], "nan is no duration"),
        (["--port", "0", "--latency-s", "-1"], "-1.0 is no duration"),
        (["--port", "0", "--latency"], "unrecognized arguments"),
        ([], "required: --port"),
    ],
)
def test_wrong_flags_are_bad_input(write, flags, words):
    with pytest.raises(InputError, match=words):
        main(["--recorded", str(write("generator_1_rollouts.jsonl", _group())), *flags])


def test_a_port_in_use_is_said(write):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        path = write("generator_1_rollouts.jsonl", _group())
        with pytest.raises(InputError, match="Cannot listen on 127.0.0.1"):
            main(["--recorded", str(path), "--port", str(taken.getsockname()[1])])
