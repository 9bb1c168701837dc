"""Requests per second with 256 in flight: the client with its journal, compared with the bare SDK and a semaphore.

``python -m bench.client_throughput [--requests 4000] [--rounds 3]``. The server runs in a separate process and replies
after 100 ms. The rounds of both clients alternate, so that changes in the machine's load affect both.
Exits with status 1 if the ratio of the medians is below the target.
"""

import argparse
import asyncio
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aiohttp import web
from openai import AsyncOpenAI, DefaultAioHttpClient

from engine.api_manager import ApiManager
from engine.llm.client import LLMClient
from engine.llm.journal import ResponseJournal
from engine.llm.limits import ConcurrencyRule
from engine.records import ChatRequest, Message, Sampling

IN_FLIGHT = 256
LATENCY_S = 0.1
TARGET = 0.85
PROMPT = "Find the number of ordered pairs of positive integers with the given property. " * 20
ANSWER = "We write the conditions as equations and count the solutions case by case. " * 20


def serve() -> None:
    """The server: prints its port and serves until its stdin is closed."""

    async def chat(request: web.Request) -> web.Response:
        body = await request.json()
        await asyncio.sleep(LATENCY_S)
        message = {"role": "assistant", "content": ANSWER}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 400, "completion_tokens": 300, "total_tokens": 700}
        reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
        return web.json_response({**reply, "choices": [choice], "usage": usage})

    async def main() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    asyncio.run(main())


class Bare:
    """``openai[aiohttp]`` as in its documentation, with a semaphore."""

    name = "bare openai[aiohttp]"

    def __init__(self, base_url: str, folder: Path) -> None:
        self._sdk = AsyncOpenAI(api_key="EMPTY", base_url=base_url, max_retries=0, http_client=DefaultAioHttpClient())
        self._slots = asyncio.Semaphore(IN_FLIGHT)

    async def complete(self, number: int) -> str:
        async with self._slots:
            reply = await self._sdk.chat.completions.create(
                model="m", messages=[{"role": "user", "content": f"{number}. {PROMPT}"}], temperature=0.3
            )
        return reply.choices[0].message.content or ""

    async def close(self) -> None:
        await self._sdk.close()


class Ours:
    """The client with its journal; every request is different."""

    name = "ours, journalling"

    def __init__(self, base_url: str, folder: Path) -> None:
        entry = {"api_key": "EMPTY", "base_url": base_url, "model": "m", "price_in": 1.0, "price_out": 2.0}
        self._journal = ResponseJournal(folder / "journal.sqlite")
        rule = ConcurrencyRule(start=IN_FLIGHT, maximum=IN_FLIGHT)
        manager = ApiManager(Path("bench"), {"generator_1": entry})
        self._client = LLMClient(manager, journal=self._journal, concurrency=rule)

    async def complete(self, number: int) -> str:
        message = Message(role="user", content=f"{number}. {PROMPT}")
        request = ChatRequest(role="generator_1", messages=(message,), sampling=Sampling(temperature=0.3))
        [reply] = await self._client.sample(request, [0])
        return reply.completion.text if reply.completion else ""

    async def close(self) -> None:
        await self._client.close()
        self._journal.close()


async def measure(base_url: str, requests: int, rounds: int) -> float:
    """Run the rounds, print the table and return the ratio of the median rates."""
    numbers = itertools.count()
    rates: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        clients: list[Bare | Ours] = [Bare(base_url, Path(folder)), Ours(base_url, Path(folder))]
        for client in clients:  # warm-up: opens connections
            await asyncio.gather(*(client.complete(next(numbers)) for _ in range(2 * IN_FLIGHT)))
        for _ in range(rounds):
            for client in clients:
                wall, used = time.perf_counter(), time.process_time()
                texts = await asyncio.gather(*(client.complete(next(numbers)) for _ in range(requests)))
                wall, used = time.perf_counter() - wall, time.process_time() - used
                if set(texts) != {ANSWER}:
                    raise RuntimeError(f"{client.name}: a reply differs from what the server sent")
                rates.setdefault(client.name, []).append(requests / wall)
                cpu.setdefault(client.name, []).append(1000 * used / requests)
        for client in clients:
            await client.close()
    print(f"{IN_FLIGHT} in flight, {LATENCY_S * 1000:.0f} ms server, {rounds} rounds of {requests} requests")
    print(f"{'client':<24}{'requests/s':>12}{'CPU ms each':>14}{'of the ideal':>14}")
    for name, values in rates.items():
        rate = statistics.median(values)
        share = rate / (IN_FLIGHT / LATENCY_S)
        print(f"{name:<24}{rate:>12.0f}{statistics.median(cpu[name]):>14.3f}{share:>14.2f}")
    ratio = statistics.median(rates[Ours.name]) / statistics.median(rates[Bare.name])
    print(f"ratio ours / bare: {ratio:.2f} (target: at least {TARGET})")
    return ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=4000, help="requests per round")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.client_throughput", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        base_url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        ratio = asyncio.run(measure(base_url, arguments.requests, arguments.rounds))
    finally:
        server.stdin.close()
        server.wait(10)
    return 0 if ratio >= TARGET else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        sys.exit(main())
