"""The replay server over the real protocol, and its command."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys

import aiohttp
import openai
import pytest
from aiohttp.test_utils import TestClient, TestServer

from engine.errors import InputError
from grpo_training.replay_server import main
from grpo_training.serve.recorded_replies import RecordedReplies, count_tokens
from grpo_training.serve.replay import build_app
from tests.conftest import ROOT
from tests.support.recorded_rows import TEXT, recorded_fusion, recorded_group, write_rows
from tests.support.table import table


@pytest.fixture
def write(tmp_path):
    return lambda name, *rows: write_rows(tmp_path / name, *rows)


@pytest.fixture
async def serve():
    """Starts applications and returns their clients, which are closed at the end."""
    clients = []

    async def start(*files, **arguments):
        client = TestClient(TestServer(build_app(RecordedReplies(files), **arguments)))
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


async def test_seed_and_n_select_the_rollouts_in_order(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", recorded_group()))

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
    client = await serve(write("generator_1_rollouts.jsonl", recorded_group()))
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
    client = await serve(write("generator_1_rollouts.jsonl", recorded_group()))
    parts = [{"type": "text", "text": "Problem:"}, {"type": "text", "text": TEXT}]
    status, reply = await _ask(client, "generator_1", parts)
    assert (status, _answers(reply)) == (200, ["40"])


async def test_an_analyst_gets_no_operations(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", recorded_group()))
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


async def test_a_variable_called_operations_is_no_request_to_the_analyst(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", recorded_group()))
    _, reply = await _ask(client, "generator_1", f'{TEXT} {{"operations": 3, "cause": ["operations"]}}')
    assert _answers(reply) == ["40"]
    turns = [
        {"role": "system", "content": "Fuse the proposals."},
        {"role": "user", "content": f'{TEXT} {{"operations": [1, 2]}}'},
    ]
    async with client.post("/v1/chat/completions", json={**GOOD, "messages": turns}) as reply:
        assert _answers(await reply.json()) == ["40"]


async def test_the_error_names_what_was_not_found(write, serve):
    client = await serve(
        write("generator_1_rollouts.jsonl", recorded_group()),
        write("critic_results.jsonl", recorded_fusion("generator_1", "1")),
    )
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
    client = await serve(write("generator_1_rollouts.jsonl", recorded_group()))
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with client.post("/v1/chat/completions", data=raw) as reply:
        assert reply.status == 400
        error = (await reply.json())["error"]
    assert error["param"] == param
    assert error["message"]


async def test_other_errors_have_the_form_of_the_protocol(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", recorded_group()))
    for method, path, status in (("GET", "/v1/nothing", 404), ("GET", "/v1/chat/completions", 405)):
        async with client.request(method, path) as reply:
            assert reply.status == status
            assert path in (await reply.json())["error"]["message"]
    async with client.post("/v1/chat/completions", data=b"x" * (9 << 20)) as reply:
        assert reply.status == 413
        assert "error" in await reply.json()


async def test_models_and_health(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", recorded_group()))
    async with client.get("/v1/models") as reply:
        assert [model["id"] for model in (await reply.json())["data"]] == ["analyst", "generator_1"]
    async with client.get("/health") as reply:
        assert await reply.json() == {"status": "ok", "problems": {"generator_1": 1}}


async def test_every_chat_request_is_counted_once(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", recorded_group()))
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


async def test_only_replies_are_delayed(write, serve):
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    client = await serve(write("generator_1_rollouts.jsonl", recorded_group()), latency_s=2.5, sleep=sleep)
    assert (await _ask(client, "generator_1", TEXT))[0] == 200
    assert (await _ask(client, "generator_1", "unknown"))[0] == 404
    assert waited == [2.5]


async def test_the_openai_sdk_works_with_it(write, serve):
    client = await serve(write("generator_1_rollouts.jsonl", recorded_group()))
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


COMMAND = [sys.executable, "-m", "grpo_training.replay_server"]


def test_ctrl_c_stops_it_with_130(write):
    path = write("generator_1_rollouts.jsonl", recorded_group())
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
        assert process.wait(60) == 130
        assert "Stopped after 1 requests." in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def test_help_does_not_import_the_server():
    code = (
        "import sys; from grpo_training.replay_server import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print('aiohttp' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "--latency-s" in result.stdout
    assert result.stdout.splitlines()[-1] == "False"


@table(
    ("flags", "words"),
    [
        (["--port", "70000"], "expected a number from 0 to 65535, got 70000"),
        (["--port", "x"], "invalid int value"),
        (["--port", "0", "--latency-s", "nan"], "expected seconds >= 0, got nan"),
        (["--port", "0", "--latency-s", "-1"], "expected seconds >= 0, got -1.0"),
        (["--port", "0", "--latency"], "unrecognized arguments"),
    ],
)
def test_wrong_flags_are_refused(write, flags, words):
    with pytest.raises(InputError, match=words):
        main(["--recorded", str(write("generator_1_rollouts.jsonl", recorded_group())), *flags])


def test_a_port_in_use_is_reported(write):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        path = write("generator_1_rollouts.jsonl", recorded_group())
        with pytest.raises(InputError, match="Cannot listen on 127.0.0.1"):
            main(["--recorded", str(path), "--port", str(taken.getsockname()[1])])
