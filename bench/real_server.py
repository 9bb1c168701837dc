"""A real server at its limit: generator 1 compared with a bare aiohttp client that sends the same requests.

``python -m bench.real_server --url http://127.0.0.1:8000/v1 [--in-flight 8 32]``, with any server of the OpenAI
protocol; ``python -m grpo_training.serve`` serves the pocket model. A first run of generator 1, without and with
learning, goes through a proxy that records its requests. The bare client sends these: those of a problem at once (two
in a trial), then those of the analyst, one after another, from slots of their own. A run's replies are new, so the
analyst's requests begin with a new word each time, which keeps the server from finding them in its cache of prefixes.
All are programs of their own, and their start is part of the time.

Each client runs ``--rounds`` times. The order is reversed after each round, as the speed of a machine changes over
minutes. Printed are medians, and the geometric mean of the ratios within a round with a 95 % interval. If server and
client have the same processors, the processor time of the client is lost to the server; on Linux, ``taskset`` before
both commands separates them.
"""

import argparse
import asyncio
import compileall
import contextlib
import functools
import math
import statistics
import sys
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator

import aiohttp
from aiohttp import web

import engine
import grpo_training
import prompts
from bench.full_server import LEARNING_OFF, Body, Chain, bare, chains_of, generator, got
from engine.statistics.paired import clustered_mean
from tests.support.analyst import for_analyst


@contextlib.contextmanager
def recording(url: str, bodies: list[Body]) -> Iterator[str]:
    """Yield the address of a proxy that appends each request to ``bodies``."""
    loop = asyncio.new_event_loop()

    async def forward(request: web.Request) -> web.Response:
        body = await request.json()
        bodies.append(body)
        client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        async with client as session, session.post(f"{url}/chat/completions", json=body) as reply:
            return web.Response(body=await reply.read(), status=reply.status, content_type=reply.content_type)

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", forward)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(runner.cleanup())
        loop.close()


def unseen(chains: Iterable[Chain]) -> list[Chain]:
    """The chains with requests of the analyst that no earlier prompt begins with, but for the system message."""
    word = uuid.uuid4().hex

    def marked(body: Body) -> Body:
        *before, last = body["messages"]
        return {**body, "messages": [*before, {**last, "content": f"{word}\n{last['content']}"}]}

    return [[first, *([marked(body) for body in stage] for stage in later)] for first, *later in chains]


def compare(clients: dict[str, Callable[[], float]], rounds: int) -> None:
    """Run two clients in turn, in both orders, and print their times and the ratio of the first to the second."""
    times: dict[str, list[float]] = {name: [] for name in clients}
    for number in range(rounds):
        for name in list(clients)[:: -1 if number % 2 else 1]:
            times[name].append(clients[name]())
    for name, seconds in times.items():
        print(f"  {name}: {statistics.median(seconds):.1f} s ({min(seconds):.1f} to {max(seconds):.1f})")
    firsts, others = times.values()
    logs = {
        str(number): [math.log(first / other)] for number, (first, other) in enumerate(zip(firsts, others, strict=True))
    }
    mean = clustered_mean(logs)
    interval = (
        "" if mean.low is None or mean.high is None else f" ({math.exp(mean.low):.2f} to {math.exp(mean.high):.2f})"
    )
    print(f"  ratio {math.exp(mean.value):.2f}{interval}", flush=True)


def _bare(url: str, chains: Collection[Chain], in_flight: int) -> float:
    return bare(url, unseen(chains), in_flight)


def main() -> int:
    """Measure each number of requests, the clients in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="address of the server, with /v1")
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--in-flight", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--learning", choices=("off", "on", "both"), default="both", help="what is measured")
    arguments = parser.parse_args()
    url, counts = arguments.url, (arguments.problems, arguments.samples)
    model = got(f"{url}/models")["data"][0]["id"]
    for package in (engine, grpo_training, prompts):
        compileall.compile_dir(package.__path__[0], quiet=1)
    learning = {"off": LEARNING_OFF, "on": ()}
    for in_flight in arguments.in_flight:
        for name in learning if arguments.learning == "both" else (arguments.learning,):
            flags = learning[name]
            bodies: list[Body] = []
            with recording(url, bodies) as proxy:
                generator(proxy, *counts, in_flight, *flags, model=model)
            chains, analyses = chains_of(bodies).values(), sum(map(for_analyst, bodies))
            print(
                f"{in_flight} in flight, {len(chains)} problems, {len(bodies) - analyses} requests, {analyses} analyses"
            )
            clients: dict[str, Callable[[], float]] = {
                "bare client": functools.partial(_bare, url, chains, in_flight),
                f"generator 1, learning {name}": functools.partial(
                    generator, url, *counts, in_flight, *flags, model=model
                ),
            }
            compare(clients, arguments.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
