"""A proxy that counts the requests of an arm, and scores replies for it.

The path names who asks: ``/learn/generator/v1/chat/completions`` is an answer to a problem while something learns, and
``/learn/reflection/...`` any other request of it; ``/use/...`` is the test. So tokens of our commands and of peers are
counted in the same way, from the ``usage`` of the server. A line for each request is appended to ``learn.jsonl`` or
``use.jsonl`` in the folder of the job, so that a job that goes on later counts what it has asked before.
``/learn/program/...`` and ``/use/program/...`` run the program of a data set, whose calls are answers to problems.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from bench.real_data.programs import Function, ProgramError, run_program

LEARN, USE = "learn", "use"
Score = Callable[[str, str], bool]
"""Whether a reply to the problem with an id is right."""


@dataclass(frozen=True)
class Spent:
    """What a phase of a job has cost.

    Args:
        rollouts: answers to problems; of a program, its calls.
        requests: of all kinds.
        prompt_tokens, completion_tokens: of all requests.
        seconds: from its first request to its last reply; of a job that was interrupted, the sum.
    """

    rollouts: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float

    @classmethod
    def of(cls, lines: Sequence[dict[str, Any]]) -> Spent:
        """The sums of the lines of a phase."""
        asked = [line for line in lines if "role" in line]
        bounds = [*(index for index, line in enumerate(lines) if line.get("starts")), len(lines)]
        return cls(
            sum(line["choices"] for line in asked if line["role"] == "generator"),
            len(asked),
            sum(line["prompt_tokens"] for line in asked),
            sum(line["completion_tokens"] for line in asked),
            round(sum(lines[end - 1]["at"] - lines[start]["at"] for start, end in pairwise(bounds)), 1),
        )

    @classmethod
    def read(cls, folder: Path, phase: str) -> Spent:
        """The sums of a phase of the job in a folder."""
        path = folder / f"{phase}.jsonl"
        return cls.of([json.loads(line) for line in path.read_text().splitlines()] if path.exists() else [])


class Proxy:
    """Forwards requests to a server.

    Args:
        url: of the server.
        port: of the proxy.
        concurrency: the most requests in flight at the server.
    """

    def __init__(self, url: str, port: int, concurrency: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self._url, self._port, self._free = url, port, asyncio.Semaphore(concurrency)

    async def run(self) -> web.AppRunner:
        """Start it; ``cleanup`` of the result ends it."""
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None), connector=aiohttp.TCPConnector(limit=0)
        )
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/score", self._scored)
        app.router.add_post("/{phase:learn|use}/program/v1/chat/completions", self._ran)
        app.router.add_route("*", "/{phase:learn|use}/{role}/v1/{path:.*}", self._forward)

        async def close(_: web.Application) -> None:
            await self._session.close()

        app.on_cleanup.append(close)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port, backlog=1024).start()
        return runner

    def begin(self, folder: Path, score: Score, program: Function | None) -> None:
        """Count what is asked from now on for the job in a folder, of a program or of none."""
        self._folder, self._score, self._program, self._begun = folder, score, program, set[str]()

    def _write(self, phase: str, line: dict[str, Any]) -> None:
        with (self._folder / f"{phase}.jsonl").open("a") as file:
            file.write(json.dumps({"at": time.time(), **line}) + "\n")

    async def _forward(self, request: web.Request) -> web.Response:
        phase, path, body = request.match_info["phase"], request.match_info["path"], await request.read()
        if phase not in self._begun:
            self._begun.add(phase)
            self._write(phase, {"starts": True})
        headers = {"Content-Type": "application/json"}
        try:
            async with (
                self._free,
                self._session.request(request.method, f"{self._url}/{path}", data=body, headers=headers) as reply,
            ):
                content = await reply.read()
        except aiohttp.ClientError as error:
            return web.Response(status=502, text=f"no reply of {self._url}: {error}")
        if reply.status == 200 and path.endswith("completions"):
            completion = json.loads(content)
            line = {key: completion["usage"][key] for key in ("prompt_tokens", "completion_tokens")}
            line |= {"role": request.match_info["role"], "choices": len(completion["choices"])}
            self._write(phase, line)
        return web.Response(status=reply.status, body=content, content_type=reply.content_type)

    async def _ran(self, request: web.Request) -> web.Response:
        """What the program returns, as the content of a reply."""
        if self._program is None:
            return web.Response(status=404, text="the data set has no program")
        url = f"{self.address}/{request.match_info['phase']}/generator/v1/chat/completions"
        try:
            text = await run_program(self._program, self._session, url, await request.json())
        except ProgramError as error:
            return web.Response(status=502, text=str(error))
        return web.json_response({"choices": [{"message": {"role": "assistant", "content": text}}]})

    async def _scored(self, request: web.Request) -> web.Response:
        """Whether a reply is right: by the same reading for all."""
        asked = await request.json()
        return web.json_response({"right": await asyncio.to_thread(self._score, asked["id"], asked["reply"])})
