"""An address on this machine at which a run of a program can ask, for frameworks that take no client."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from engine.errors import ScaffoldError

if TYPE_CHECKING:
    from aiohttp import web

Answer = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Answers the body of a request to a path; the response is one of the SDK's HTTP package."""
_LARGEST_BODY = 64 << 20


class Address:
    """A server that listens while at least one run needs it. Each run has a path that nobody can guess."""

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}
        self._lock = asyncio.Lock()
        self._runner: web.AppRunner | None = None

    @asynccontextmanager
    async def of(self, answer: Answer) -> AsyncIterator[str]:
        """The base URL for one run, whose requests ``answer`` answers."""
        name = secrets.token_urlsafe(16)
        async with self._lock:
            self._answers[name] = answer
            runner = self._runner = self._runner or await self._started()
        host, port = runner.addresses[0][:2]
        try:
            yield f"http://{host}:{port}/{name}/v1"
        finally:
            async with self._lock:
                del self._answers[name]
                if not self._answers:
                    self._runner = None
                    await runner.cleanup()

    async def _started(self) -> web.AppRunner:
        from aiohttp import web

        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_post("/{run}/{path:.*}", self._respond)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    async def _respond(self, request: web.Request) -> web.Response:
        from aiohttp import web

        answer = self._answers.get(request.match_info["run"])
        if answer is None:
            return web.json_response({"error": {"message": "The run of this program has ended."}}, status=404)
        try:
            given = await answer(request.path, await request.json())
        except (ScaffoldError, ValueError) as error:  # the run ends with it, or the body is no JSON
            return web.json_response({"error": {"message": str(error)}}, status=400)
        return web.Response(
            status=given.status_code, body=given.content, headers={"content-type": given.headers["content-type"]}
        )
