"""A server at its limit: generator 1 compared with a bare aiohttp client that sends as many requests at once.

``python -m bench.full_server [--problems 100] [--samples 8] [--in-flight 8 32]``. The simulated server
works on a limited number of sequences at a time; their lengths have a heavy tail, as sampled replies have. It runs in a
process of its own, and so do the clients. Their times include their start, with compiled modules, as in every start but
the first. The bare client sends the requests that the server got from generator 1: those of a problem at once (two in a
trial), then those of the analyst, one after another. It has no window and does nothing with the replies. Printed are
seconds, the time of the bare client divided by that of generator 1, in brackets the time of the critical path (a client
that costs nothing, with the window of generator 1), and the largest number of requests for problems in flight that the
server saw.
"""

import argparse
import asyncio
import compileall
import contextlib
import hashlib
import heapq
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

import engine
import grpo_training
import prompts
from examples.pocket_model.quickstart import instances
from examples.pocket_model.quickstart.families import FamilyProblem
from tests.support.analyst import for_analyst

SEQUENCES = 128
MEDIAN_S, SPREAD = 1.0, 0.6
"""Median and log-normal spread of the seconds that a sequence takes."""
PROBLEM = re.compile(r"^Problem:\s(.*)$", re.MULTILINE)
WINDOW_PER_SLOT = 4
Body = dict[str, Any]
"""A request as it is sent."""
Chain = list[list[Body]]
"""Requests of a problem: those that are sent at once, then those that follow them, one after another."""
LEARNING_OFF = ("--tau", "10")
"""No group has a larger standard deviation, so that the analyst is never asked."""


def seconds_of(problem: str, index: int) -> float:
    """How long the server works on a sample: the same in every run."""
    seed = hashlib.sha256(f"{problem}{index}".encode()).digest()
    return random.Random(seed).lognormvariate(0, SPREAD) * MEDIAN_S


def problem_of(body: Body) -> str:
    """The text of a request's problem. The analyst's second request has it in an earlier message."""
    return str(PROBLEM.findall("\n".join(message["content"] for message in body["messages"][1:]))[0])


def chains_of(bodies: Sequence[Body]) -> dict[str, Chain]:
    """The requests by problem, in the order in which the problems came."""
    chains: dict[str, Chain] = {}
    for body in bodies:
        chain = chains.setdefault(problem_of(body), [[]])
        if for_analyst(body):
            chain.append([body])
        else:
            chain[0].append(body)
    return chains


class SimulatedServer:
    """Replies to problems and to the analyst."""

    def __init__(self, problems: int) -> None:
        self._known = {instance.problem.text: instance for instance in drawn(problems)}
        self._free = asyncio.Semaphore(SEQUENCES)
        self._now = self._most = 0
        self._bodies: list[Body] = []

    async def chat(self, request: web.Request) -> web.Response:
        """A chat completion after the time that its sequences take."""
        body = await request.json()
        self._bodies.append(body)
        problem, count, is_analysis = problem_of(body), body.get("n", 1), for_analyst(body)
        self._now += not is_analysis
        self._most = max(self._most, self._now)
        try:
            await asyncio.gather(*(self._sequence(problem, index) for index in range(count)))
        finally:
            self._now -= not is_analysis
        texts = [self._analysis(problem) if is_analysis else self._reply(problem, index) for index in range(count)]
        choices = [
            {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 400, "completion_tokens": 300 * count, "total_tokens": 400 + 300 * count}
        reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
        return web.json_response({**reply, "choices": choices, "usage": usage})

    async def seen(self, _: web.Request) -> web.Response:
        """What came since the last call: the requests, and the largest number of those for problems in flight."""
        reply = web.json_response({"bodies": self._bodies, "most": self._most})
        self._bodies, self._most = [], 0
        return reply

    async def _sequence(self, problem: str, index: int) -> None:
        async with self._free:
            await asyncio.sleep(seconds_of(problem, index))

    def _analysis(self, problem: str) -> str:
        family = self._known[problem].family
        return f"Lesson: {family.lessons[0]}"

    def _reply(self, problem: str, index: int) -> str:
        instance = self._known[problem]
        way = instance.family.right if index % 2 else instance.family.mistaken
        return json.dumps({**instance.family.scaffold(way, instance.draw).model_dump(), "final_answer": ""})


async def serve(problems: int) -> None:
    """The server: prints its port and serves until its stdin is closed."""
    server = SimulatedServer(problems)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.chat)
    app.router.add_get("/v1/seen", server.seen)
    # A handler whose client has gone away ends, as an inference server aborts the request.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


BARE = """
import asyncio, json, sys
import aiohttp

async def main(url, in_flight, chains):
    slots = asyncio.Semaphore(in_flight)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session:

        async def ask(body):
            async with slots:
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    await response.json()

        async def ask_all(chain):
            for stage in chain:
                await asyncio.gather(*(ask(body) for body in stage))

        await asyncio.gather(*(ask_all(chain) for chain in chains))

asyncio.run(main(sys.argv[1], int(sys.argv[2]), json.load(sys.stdin)))
"""


def bare(url: str, chains: Collection[Chain], in_flight: int) -> float:
    """Seconds that aiohttp takes for requests, as a program of its own.

    Args:
        url: the server.
        chains: the requests of each problem.
        in_flight: slots of all stages of the chains.
    """
    started = time.perf_counter()
    command = [sys.executable, "-c", BARE, url, str(in_flight)]
    subprocess.run(command, input=json.dumps(list(chains)), text=True, check=True)
    return time.perf_counter() - started


def drawn(count: int) -> list[FamilyProblem]:
    """Problems of ``quickstart``."""
    return instances("train", count)


def generator(url: str, problems: int, samples: int, in_flight: int, *more: str, model: str = "m") -> float:
    """Seconds that generator 1 takes for problems of ``quickstart``, from a file."""
    folder = Path(tempfile.mkdtemp())
    rows = [
        {"id": one.problem.id, "problem": one.problem.text, "answer": one.problem.answer} for one in drawn(problems)
    ]
    dataset = folder / "problems.jsonl"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
    entry = {"api_key": "EMPTY", "base_url": url, "model": model, "max_concurrency": in_flight}
    (folder / "api_config.json").write_text(json.dumps({"default": entry}))
    arguments = [
        *("--dataset", str(dataset), "--prompts", "compact"),
        *("--rollouts", str(samples), "--window", str(WINDOW_PER_SLOT * in_flight)),
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


def got(url: str) -> Any:
    """The JSON value at an address."""
    with urllib.request.urlopen(url) as reply:
        return json.load(reply)


def critical_path(problems: Sequence[tuple[str, Sequence[Sequence[int]]]], in_flight: int, window: int) -> float:
    """Seconds of a client that costs nothing.

    Args:
        problems: the text of each, and the samples of each request in the stages of its chain.
        in_flight: slots of all stages; the other ones go before the first stage.
        window: problem k starts after the commit of problem k - window.
    """
    sequences = [0.0] * SEQUENCES
    events: list[tuple[float, int, int]] = []  # end of a request, problem, stage
    first: deque[tuple[int, int, int]] = deque()  # problem, stage, samples
    later: deque[tuple[int, int, int]] = deque()
    busy = {False: 0, True: 0}  # requests in flight of the first stage, of the later ones
    missing = [0] * len(problems)
    committed = asked = 0
    now, done = 0.0, set()

    def send(k: int, stage: int) -> None:
        counts = problems[k][1][stage]
        missing[k] = len(counts)
        (later if stage else first).extend((k, stage, count) for count in counts)

    def begin(k: int, stage: int, count: int) -> None:
        ends = []
        for index in range(count):
            ends.append(max(now, heapq.heappop(sequences)) + seconds_of(problems[k][0], index))
            heapq.heappush(sequences, ends[-1])
        heapq.heappush(events, (max(ends), k, stage))
        busy[stage > 0] += 1

    while True:
        while asked < min(len(problems), committed + window):
            send(asked, 0)
            asked += 1
        while later and sum(busy.values()) < in_flight:
            begin(*later.popleft())
        while first and sum(busy.values()) < in_flight:
            begin(*first.popleft())
        if not events:
            return now
        now, k, stage = heapq.heappop(events)
        busy[stage > 0] -= 1
        missing[k] -= 1
        if not missing[k] and stage + 1 < len(problems[k][1]):
            send(k, stage + 1)
        elif not missing[k]:
            done.add(k)
        while committed in done:
            committed += 1


def compare(url: str, problems: list[str], samples: int, in_flight: int) -> None:
    """Measure generator 1 and the bare client in turn, and print a line for each way to learn."""
    print(f"{in_flight} in flight")
    for name, flags in (("learning off", LEARNING_OFF), ("learning on", ())):
        got(f"{url}/seen")
        took = generator(url, len(problems), samples, in_flight, *flags)
        traffic = got(f"{url}/seen")
        chains = chains_of(traffic["bodies"])
        alone = bare(url, chains.values(), in_flight)
        counts = [(text, [[body.get("n", 1) for body in stage] for stage in chain]) for text, chain in chains.items()]
        least = critical_path(counts, in_flight, WINDOW_PER_SLOT * in_flight)
        analyses = sum(map(for_analyst, traffic["bodies"]))
        print(
            f"  {name}: {len(traffic['bodies']) - analyses} requests for {len(chains)} problems, {analyses} to the "
            f"analyst; generator 1 {took:.1f} s, bare client {alone:.1f} s ({least:.1f} s), ratio {alone / took:.2f} "
            f"(critical path {alone / least:.2f}), at most {traffic['most']} requests for problems in flight",
            flush=True,
        )


def main() -> int:
    """Measure each number of requests once, the clients in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--in-flight", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.problems))
        return 0
    for package in (engine, grpo_training, prompts):
        compileall.compile_dir(package.__path__[0], quiet=1)
    problems = [instance.problem.text for instance in drawn(arguments.problems)]
    with running_server(arguments.problems) as url:
        for in_flight in arguments.in_flight:
            compare(url, problems, arguments.samples, in_flight)
    return 0


@contextlib.contextmanager
def running_server(problems: int) -> Iterator[str]:
    """Yield the address of a simulated server in a process of its own."""
    command = [sys.executable, "-m", "bench.full_server", "--serve", "--problems", str(problems)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
