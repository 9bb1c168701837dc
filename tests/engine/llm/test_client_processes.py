"""Clients in several processes: sharing a journal, and killed by SIGKILL."""

import json
import os
import random
import subprocess
import sys
import textwrap
import time
from collections import Counter

from engine.llm.journal import ResponseJournal, request_keys
from tests.conftest import ROOT
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.forked_command import ForkedCommand
from tests.support.llm_client import answer, ask

RUNNER = textwrap.dedent("""
    import asyncio, json, os, sys
    from pathlib import Path
    from engine.api_manager import ApiManager
    from engine.llm.client import LLMClient
    from engine.records import ChatRequest, Message
    from engine.llm.journal import ResponseJournal, request_keys
    from engine.llm.retry import RetryPolicy

    async def main(url, path, count):
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m"}
        journal = ResponseJournal(Path(path))
        retry = RetryPolicy(first_wait_s=0.01)
        async with LLMClient(ApiManager(Path("c.json"), {"g": entry}), journal=journal, retry=retry) as client:
            async def one(n):
                request = ChatRequest(role="g", messages=(Message(role="user", content=f"q{n}"),))
                replies = await client.sample(request, [0, 1])
                os.write(1, (json.dumps([n, [r.completion.text for r in replies]]) + "\\n").encode())
            await asyncio.gather(*(one(n) for n in range(count)))
            sent = client.counters.requests_sent
            os.write(1, (json.dumps(["sent", sent, "aiohttp" in sys.modules]) + "\\n").encode())
        journal.close()
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
""")


def fork_run(url, path, count):
    return ForkedCommand(RUNNER, [url, path, count])


def start_run(url, path, count):
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, url, str(path), str(count)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )


def read_run(process):
    lines = process.communicate(timeout=60)[0].split("\n")
    return [json.loads(line) for line in lines[:-1]]


def test_two_processes_share_one_journal(tmp_path):
    """Both get the same replies, also if both sent the same request and the server answered twice."""
    drawn = Counter()

    def fickle(body, index):
        name = (body["messages"][0]["content"], index)
        drawn[name] += 1
        return f"{name}, drawing {drawn[name]}"

    with serve_in_thread(chat_app(fickle)) as url:
        runs = [fork_run(url, tmp_path / "journal.sqlite", 150) for _ in range(2)]
        first, second = ({n: tuple(texts) for n, texts in read_run(run)[:-1]} for run in runs)
        third = read_run(start_run(url, tmp_path / "journal.sqlite", 150))
    assert third[-1] == ["sent", 0, False]  # a run whose replies are all stored loads no HTTP client
    assert {n: tuple(texts) for n, texts in third[:-1]} == first
    assert len(first) == 150
    assert first == second
    journal = ResponseJournal(tmp_path / "journal.sqlite")
    for n, texts in first.items():
        completions = journal.get_many(request_keys(ask(f"q{n}"), "m", {}, [0, 1])).values()
        assert sorted(completion.text for completion in completions) == sorted(texts)
    journal.close()


def test_after_sigkill_no_acknowledged_reply_is_requested_again(tmp_path):
    app = chat_app(answer, latency_s=0.002)
    rng = random.Random(9)
    with serve_in_thread(app) as url:
        used = {}
        for _ in range(2):
            run = fork_run(url, tmp_path / "journal.sqlite", 300)
            first = run.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.1))
            run.kill()  # it may have ended
            for line in (first + run.stdout.read()).split("\n")[:-1]:
                n, texts, *_ = json.loads(line)
                used[n] = texts
            run.stdout.close()
            run.wait(60)
        app["settle"]()
        before = Counter(request.body["messages"][0]["content"] for request in app["seen"])
        acknowledged = {f"q{n}" for n in used if n != "sent"}
        last = read_run(fork_run(url, tmp_path / "journal.sqlite", 300))
        after = Counter(request.body["messages"][0]["content"] for request in app["seen"])
    assert acknowledged
    assert dict(last[:-1]) == {n: [f"q{n}/0", f"q{n}/1"] for n in range(300)}
    assert all(after[name] == before[name] for name in acknowledged)
    assert last[-1][1] == sum(after.values()) - sum(before.values())
