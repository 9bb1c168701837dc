"""A server at its limit: generator 1 compared with a bare aiohttp client that sends as many requests at once.

``python -m bench.full_server [--problems 100] [--samples 8] [--in-flight 8 32]``. The simulated server works on a
limited number of sequences at a time; their lengths have a heavy tail, as sampled replies have. It runs in a process of
its own. Generator 1 has a window of four times the requests in flight, so that a slow reply does not hold back the
others. Printed are seconds, start of the program included, the time of the bare client divided by that of generator 1,
and the time of a perfect client.
"""

import argparse
import asyncio
import hashlib
import heapq
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
from aiohttp import web

from engine.tasks.math.quickstart import instances

SEQUENCES = 128
MEDIAN_S, SPREAD = 1.0, 0.6
"""Median and log-normal spread of the seconds that a sequence takes."""
PROBLEM = re.compile(r"^Problem: (.*)$", re.MULTILINE)
LEARNING_OFF = ("--tau", "10")
"""No group has a larger standard deviation, so that the analyst is never asked."""


def seconds_of(problem: str, index: int) -> float:
    """How long the server works on a sample: the same in every run."""
    seed = hashlib.sha256(f"{problem}{index}".encode()).digest()
    return random.Random(seed).lognormvariate(0, SPREAD) * MEDIAN_S


def serve(problems: int) -> None:
    """The server: prints its port and serves until its stdin is closed."""
    known = {one.problem.text: one for one in instances("train", problems)}
    free = asyncio.Semaphore(SEQUENCES)

    async def sequence(problem: str, index: int) -> None:
        async with free:
            await asyncio.sleep(seconds_of(problem, index))

    def reply_of(problem: str, system: str, index: int) -> str:
        one = known[problem]
        if system.startswith("Study"):
            add = {"op": "add", "content": one.family.lessons[0], "category": one.family.category}
            return json.dumps({"operations": [add]})
        way = one.family.right if index % 2 else one.family.mistaken
        return json.dumps({**one.family.scaffold(way, one.draw).model_dump(), "final_answer": ""})

    async def chat(request: web.Request) -> web.Response:
        body = await request.json()
        system, user = body["messages"][0]["content"], body["messages"][-1]["content"]
        problem, count = PROBLEM.search(user).group(1), body.get("n", 1)
        await asyncio.gather(*(sequence(problem, index) for index in range(count)))
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": reply_of(problem, system, index)},
                "finish_reason": "stop",
            }
            for index in range(count)
        ]
        usage = {"prompt_tokens": 400, "completion_tokens": 300 * count, "total_tokens": 400 + 300 * count}
        reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
        return web.json_response({**reply, "choices": choices, "usage": usage})

    async def main() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    asyncio.run(main())


async def bare(url: str, bodies: list[dict], in_flight: int) -> float:
    """Seconds that aiohttp takes with so many requests in flight."""
    slots = asyncio.Semaphore(in_flight)
    started = time.perf_counter()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:

        async def ask(body: dict) -> None:
            async with slots, session.post(f"{url}/chat/completions", json=body) as response:
                await response.json()

        await asyncio.gather(*(ask(body) for body in bodies))
    return time.perf_counter() - started


def generator(url: str, problems: int, samples: int, in_flight: int, *more: str) -> float:
    """Seconds that generator 1 takes, its start included."""
    folder = Path(tempfile.mkdtemp())
    entry = {"api_key": "EMPTY", "base_url": url, "model": "m", "max_concurrency": in_flight}
    (folder / "api_config.json").write_text(json.dumps({"default": entry}))
    arguments = [
        *("--dataset", "quickstart:train", "--prompts", "compact", "--max-problems", str(problems)),
        *("--rollouts", str(samples), "--window", str(4 * in_flight)),
        *("--api-config", str(folder / "api_config.json")),
        *("--cache-dir", str(folder / "cache"), "--experiences-dir", str(folder / "experiences"), *more),
    ]
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "grpo_training.generator1", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - started


def perfect(bodies: list[dict], in_flight: int) -> float:
    """Seconds of a perfect client: each request starts as soon as a request and its sequences have ended."""
    slots = [0.0] * in_flight
    servers = [0.0] * SEQUENCES
    for body in bodies:
        start, ends = heapq.heappop(slots), []
        for index in range(body["n"]):
            begin = max(start, heapq.heappop(servers))
            ends.append(begin + seconds_of(PROBLEM.search(body["messages"][-1]["content"]).group(1), index))
            heapq.heappush(servers, ends[-1])
        heapq.heappush(slots, max(ends))
    return max(slots)


def main() -> int:
    """Measure each number of requests once, the clients in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.problems)
        return 0
    command = [sys.executable, "-m", "bench.full_server", "--serve", "--problems", str(arguments.problems)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
    try:
        texts = [one.problem.text for one in instances("train", arguments.problems)]
        bodies = [
            {"model": "m", "n": arguments.samples, "messages": [{"role": "user", "content": f"Problem: {text}"}]}
            for text in texts
        ]
        for in_flight in arguments.in_flight:
            alone = asyncio.run(bare(url, bodies, in_flight))
            off = generator(url, arguments.problems, arguments.samples, in_flight, *LEARNING_OFF)
            on = generator(url, arguments.problems, arguments.samples, in_flight)
            print(
                f"{in_flight} in flight: bare {alone:.1f} s (perfect {perfect(bodies, in_flight):.1f} s), "
                f"learning off {off:.1f} s ({alone / off:.2f}), learning on {on:.1f} s ({alone / on:.2f})",
                flush=True,
            )
    finally:
        server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
