"""Shared by the tests of the main loop: a replay server with an analyst, runs of the commands, comparisons."""

import functools
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from aiohttp import web

from engine.api_manager import LEARNERS
from grpo_training import critic, generator1, generator2, generator3
from tests.conftest import ROOT
from tests.support.analyst import for_analyst, with_lesson
from tests.support.fault_server import fault_middleware, serve_in_thread
from tests.support.forked_command import ForkedCommand
from tests.support.recorded_replies import RecordedReplies
from tests.support.replay import build_app

_WORDS = (
    "parity symmetry factor bound case diagram unit limit ratio graph check order sign residue pivot median "
    "vertex chord prime digit carry remainder overlap boundary variable constraint invariant recursion"
).split()
GENERATOR_COMMANDS = (generator1.main, generator2.main, generator3.main)


class Traffic:
    """The requests that a server received: body, time of arrival, time and text of the reply."""

    def __init__(self):
        self.requests = []
        self._guard = threading.Lock()

    def middleware(self):
        @web.middleware
        async def watch(request, handler):
            if request.method != "POST":
                return await handler(request)
            entry = {"body": await request.read(), "came": time.monotonic(), "left": None, "reply": None}
            with self._guard:
                self.requests.append(entry)
            response = await handler(request)
            entry["left"] = time.monotonic()
            entry["status"], entry["reply"] = response.status, response.body
            return response

        return watch

    def counts(self):
        """Body -> number of requests."""
        return Counter(entry["body"] for entry in self.requests)


def teaching_middleware():
    """Answers the analyst with an experience that depends on its whole prompt, so that any wrong prompt is detected."""

    @web.middleware
    async def teach(request, handler):
        if request.method != "POST":
            return await handler(request)
        body = await request.json()
        if not for_analyst(body):
            return await handler(request)
        choice = random.Random(hashlib.sha256(json.dumps(body["messages"]).encode()).digest())
        words = choice.sample(_WORDS, 7)
        content = f"When a {words[0]} meets a {words[1]}, test the {' and the '.join(words[2:])} first."
        text = with_lesson(content)
        return web.json_response(
            {
                "object": "chat.completion",
                "model": body["model"],
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 50, "completion_tokens": 20},
            }
        )

    return teach


def latency_middleware(seed, longest_s):
    """Delays each reply by a seeded random time."""
    rng = random.Random(seed)

    @web.middleware
    async def delay(request, handler):
        import asyncio

        await asyncio.sleep(rng.random() * longest_s)
        return await handler(request)

    return delay


class World:
    """A server, a configuration and the directories of one run."""

    def __init__(
        self, directory, files, *, plan=None, seed=None, longest_s=0.0, latency_s=0.0, copies=True, barrier=None
    ):
        self.directory = Path(directory)
        self.cache, self.experiences = self.directory / "cache", self.directory / "experiences"
        self.config = self.directory / "keys" / "api_config.json"
        self.traffic = Traffic()
        app = build_app(_recorded(tuple(files), copies), latency_s)
        # The first one is the outermost.
        layers = [self.traffic.middleware()]
        if plan is not None:
            layers.append(fault_middleware(plan))
        if seed is not None:
            layers.append(latency_middleware(seed, longest_s))
        if barrier is not None:
            layers.append(barrier.middleware())
        app.middlewares[0:0] = [*layers, teaching_middleware()]
        self._server = serve_in_thread(app)

    def __enter__(self):
        self.write_config(self._server.__enter__())
        return self

    def __exit__(self, *error):
        self._server.__exit__(*error)

    def write_config(self, base_url, **overrides):
        self.base_url = base_url
        self.config.parent.mkdir(parents=True, exist_ok=True)
        roles = {
            role: {"api_key": "EMPTY", "base_url": base_url, "model": role, "timeout_s": 5, **overrides}
            for role in LEARNERS
        }
        self.config.write_text(json.dumps(roles))

    def arguments(self, *more):
        return [
            *("--api-config", str(self.config), "--cache-dir", str(self.cache)),
            *("--experiences-dir", str(self.experiences), *map(str, more)),
        ]

    def generate(self, number, dataset, *more):
        """Run a generator in this process."""
        return GENERATOR_COMMANDS[number - 1](self.arguments("--dataset", dataset, *more))

    def criticise(self, *more):
        """Run the critic in this process."""
        return critic.main(self.arguments(*more))

    def start(self, command, *more, **variables):
        """Start a command in a process of its own, with environment variables."""
        return subprocess.Popen(
            [sys.executable, "-m", f"grpo_training.{command}", *self.arguments(*more)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

    def fork(self, command, *more):
        """Start a command, or the text of a script that takes its arguments, from a process with its modules."""
        program = command if "\n" in command else f"grpo_training.{command}"
        return ForkedCommand(program, self.arguments(*more))


@functools.cache
def _recorded(files, copies):
    """The replies in some files, read once per process; if generator 3 is missing, with generator 2's in its place."""
    files = {path.name: path for path in map(Path, files)}
    if not copies or "generator_3_rollouts.jsonl" in files:
        return RecordedReplies(list(files.values()))
    with tempfile.TemporaryDirectory() as extra:
        third, fused = (Path(extra) / name for name in ("generator_3_rollouts.jsonl", "critic_results.jsonl"))
        third.write_bytes(files["generator_2_rollouts.jsonl"].read_bytes())
        lines = files[fused.name].read_text().splitlines()
        copied = [line.replace('"generator_id": "generator_2"', '"generator_id": "generator_3"') for line in lines]
        fused.write_text("\n".join([*lines, *(line for line in copied if "generator_3" in line)]) + "\n")
        return RecordedReplies([*(files | {third.name: third, fused.name: fused}).values()])


_VOLATILE = re.compile(r'"(timestamp|at|created_at|run)": ?"[^"]*"|"latency_s": ?[-0-9.e]+|"usage": ?\{[^{}]*\}')


def normalised(world):
    """The caches and libraries as text, without times, usage and the run's id; caches in the order of the problems.

    A temporary file, which kill -9 may leave between its writing and its renaming, is none of them.
    """
    files = sorted(world.cache.glob("*.jsonl")) + sorted(world.experiences.glob("*.json*"))
    texts = {file: file.read_text() for file in files if not file.name.endswith((".lock", ".tmp"))}
    for file, text in texts.items():
        if file.parent == world.cache:
            lines = sorted(text.splitlines(keepends=True), key=lambda line: json.loads(line).get("step", 0))
            texts[file] = "".join(lines)
    return {file.name: _VOLATILE.sub("", text) for file, text in texts.items()}


def groups_of(world, number):
    """A generator's cache as plain objects in the order of the problems; empty if there is none."""
    groups = _whole_rows(world.cache / f"generator_{number}_rollouts.jsonl")
    return sorted(groups, key=lambda group: group["step"])


def fusions_of(world):
    """The critic's cache as plain objects."""
    return _whole_rows(world.cache / "critic_results.jsonl")


def _whole_rows(path):
    """The rows of a cache. Its last line may be half written when a test reads it beside a running command."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
