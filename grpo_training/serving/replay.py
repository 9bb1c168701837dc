"""Serve recorded replies over the OpenAI chat protocol, for tests and for trying things without a model.

``python -m grpo_training.replay_server --recorded generator_1_rollouts.jsonl critic_results.jsonl --port 8000``

* The model that is asked for (``generator_1``, ``critic``) picks the file; the problem text in the prompt picks
  the record; for ``critic`` the generator named in the prompt picks the fusion.
* Sample k of a request is rollout (``seed`` + k) modulo the number of rollouts, with ``seed`` 0 where none is
  sent. A client that sends its base seed (0) + sample index walks through the rollouts in order, with ``n``
  samples in one request or with single requests.
* A request for the model ``analyst``, with a reply schema named ``operations``, or whose instructions ask for
  a JSON object with a list of ``"operations"`` gets an empty list of operations. Instructions are the system
  messages, or all messages where there is none: a proposal's variable may be called so too.
* Anything else is a 404 that says what was not found.

Token counts are counts of words and signs: the same everywhere, but no tokenizer's.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.errors import InputError
from grpo_training.cli.entry import CommandParser
from grpo_training.serving.recorded_replies import NotRecordedError, RecordedReplies, count_tokens

if TYPE_CHECKING:
    from aiohttp import web

MAX_BODY_BYTES = 8 << 20
MAX_SAMPLES = 128
_SHUTDOWN_S = 2.0
_ANALYST = "analyst"
_NO_OPERATIONS = '{"operations": []}'
_OPERATIONS = re.compile(r'"operations"\s*:\s*[\[{]')


class Seen(NamedTuple):
    """One kind of request that arrived; equal requests have equal values. ``body`` is a hash of its bytes."""

    model: str
    problem_id: str
    generator_id: str
    seed: int | None
    n: int
    status: int
    body: str


class ApiError(Exception):
    """A refusal in the protocol's own form."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


@dataclass(frozen=True)
class ChatBody:
    """What the server reads of a request; sampling parameters do not change what was recorded."""

    model: str
    messages: tuple[str, ...]
    instructions: tuple[str, ...]
    n: int
    seed: int | None
    schema_name: str

    @classmethod
    def parse(cls, raw: bytes) -> ChatBody:
        """Check a request's body; raises ApiError (400) that names the parameter."""
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise _bad("invalid_json", f"The body is not JSON: {str(error)[:200]}") from error
        if not isinstance(body, dict):
            raise _bad("invalid_json", f"The body must be a JSON object, not {type(body).__name__}")
        model, n, seed = body.get("model"), body.get("n"), body.get("seed")
        if not isinstance(model, str) or not model:
            raise _bad("invalid_type", "'model' must be a text", "model")
        n = 1 if n is None else n
        if type(n) is not int or not 1 <= n <= MAX_SAMPLES:
            raise _bad("invalid_value", f"'n' must be an integer from 1 to {MAX_SAMPLES}", "n")
        if seed is not None and type(seed) is not int:
            raise _bad("invalid_type", "'seed' must be an integer", "seed")
        if body.get("stream"):
            raise _bad("unsupported_value", "'stream' is not served; ask without it", "stream")
        turns = _turns(body.get("messages"))
        texts = tuple(text for _, text in turns)
        instructions = tuple(text for role, text in turns if role in ("system", "developer")) or texts
        return cls(model, texts, instructions, n, seed, _schema_name(body.get("response_format")))

    @property
    def for_analyst(self) -> bool:
        """Whether this asks for changes of an experience library."""
        return (
            self.model == _ANALYST
            or self.schema_name == "operations"
            or any(_OPERATIONS.search(text) for text in self.instructions)
        )


def _bad(code: str, message: str, param: str | None = None) -> ApiError:
    return ApiError(400, code, message, param)


def _turns(messages: Any) -> list[tuple[str, str]]:
    """The (role, text) pairs of a conversation; a content of several parts is joined."""
    if not isinstance(messages, list) or not messages:
        raise _bad("invalid_type", "'messages' must be a list with at least one message", "messages")
    turns = []
    for position, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):
            parts = [part.get("text") for part in content if isinstance(part, dict)]
            content = "\n".join(part for part in parts if isinstance(part, str))
        if not isinstance(content, str) or not isinstance(role, str):
            param = f"messages[{position}]"
            raise _bad("invalid_type", f"'{param}' must have a text 'role' and 'content'", param)
        turns.append((role, content))
    return turns


def _schema_name(response_format: Any) -> str:
    if response_format is None:
        return ""
    if not isinstance(response_format, dict):
        raise _bad("invalid_type", "'response_format' must be an object", "response_format")
    schema = response_format.get("json_schema")
    return str(schema.get("name", "")) if isinstance(schema, dict) else ""


# ------------------------------------------------------------------ the application


class _Handlers:
    """The three addresses of the server."""

    def __init__(
        self,
        replies: RecordedReplies,
        seen: Counter[Seen],
        latency_s: float,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._replies, self._seen, self._latency_s, self._sleep = replies, seen, latency_s, sleep

    async def chat(self, request: web.Request) -> web.Response:
        from aiohttp import web

        raw = await request.read()
        asked = Seen("", "", "", None, 0, 200, hashlib.sha256(raw).hexdigest()[:16])
        try:
            body = ChatBody.parse(raw)
            asked = asked._replace(model=body.model, n=body.n, seed=body.seed)
            if body.for_analyst:
                samples: Sequence[str] = [_NO_OPERATIONS] * body.n
            else:
                found = self._replies.find(body.model, body.messages)
                asked = asked._replace(problem_id=found.problem_id, generator_id=found.generator_id)
                first = body.seed or 0
                samples = [found.replies[(first + k) % len(found.replies)] for k in range(body.n)]
        except NotRecordedError as error:
            asked = asked._replace(status=404)
            raise ApiError(404, error.code, str(error)) from error
        except ApiError as error:
            asked = asked._replace(status=error.status)
            raise
        finally:
            self._seen[asked] += 1
        if self._latency_s:
            await self._sleep(self._latency_s)
        return web.json_response(_completion(body, samples, asked.body))

    async def models(self, request: web.Request) -> web.Response:
        from aiohttp import web

        names = sorted({*self._replies.problems, _ANALYST})
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "replay"} for name in names]
        return web.json_response({"object": "list", "data": data})

    async def health(self, request: web.Request) -> web.Response:
        from aiohttp import web

        return web.json_response({"status": "ok", "problems": dict(self._replies.problems)})


def _completion(body: ChatBody, samples: Sequence[str], key: str) -> dict[str, Any]:
    """The reply object; the same request always gets the same bytes."""
    prompt, completion = count_tokens(body.messages), count_tokens(samples)
    return {
        "id": f"replay-{key}",
        "object": "chat.completion",
        "created": 0,
        "model": body.model,
        "choices": [
            {
                "index": index,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "finish_reason": "stop",
                "logprobs": None,
            }
            for index, text in enumerate(samples)
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }


def build_app(
    files: Sequence[Path],
    latency_s: float = 0.0,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> web.Application:
    """Make the server's application; ``app["seen"]`` counts the chat requests that arrived (Counter of Seen).

    Args:
        files: recorded rollouts and fusions, see RecordedReplies.
        latency_s: seconds from a chat request to its reply; refusals are not delayed.
        sleep: waits so many seconds.

    Raises:
        MissingInputError, InputError: a file is missing, empty or broken.
    """
    from aiohttp import web

    @web.middleware
    async def errors(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as error:
            return _refusal(error.status, error.code, str(error), error.param)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            code = re.sub(r"\W+", "_", error.reason.lower())
            return _refusal(error.status, code, f"{request.method} {request.path}: {error.reason}")

    seen: Counter[Seen] = Counter()
    app = web.Application(middlewares=[errors], client_max_size=MAX_BODY_BYTES)
    with warnings.catch_warnings():  # a plain name: whoever wraps the application needs no import to read it
        warnings.simplefilter("ignore", web.NotAppKeyWarning)
        app["seen"] = seen
    handlers = _Handlers(RecordedReplies(files), seen, latency_s, sleep)
    app.router.add_post("/v1/chat/completions", handlers.chat)
    app.router.add_get("/v1/models", handlers.models)
    app.router.add_get("/health", handlers.health)
    return app


def _refusal(status: int, code: str, message: str, param: str | None = None) -> web.Response:
    from aiohttp import web

    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return web.json_response({"error": error}, status=status)


# ------------------------------------------------------------------ the command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server until it is interrupted; returns 128 + the signal's number (130 for Ctrl-C).

    Raises:
        InputError, MissingInputError: wrong flags or files, or an address that cannot be used.
    """
    parser = CommandParser(
        prog="python -m grpo_training.replay_server",
        description="Serve recorded rollouts and fusions over the OpenAI chat protocol.",
    )
    parser.add_argument("--recorded", nargs="+", type=Path, required=True, metavar="FILE",
                        help="generator_X_rollouts.jsonl and critic_results.jsonl files")  # fmt: skip
    parser.add_argument("--port", type=int, required=True, help="0: any free port; it is printed")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--latency-s", type=float, default=0.0, metavar="X",
                        help="seconds that a reply takes (default: %(default)s)")  # fmt: skip
    flags = parser.parse_args(argv)
    if not 0 <= flags.port <= 65535:
        raise InputError(f"--port: {flags.port} is not a port", fix="Give a number from 0 to 65535.")
    if not 0 <= flags.latency_s < math.inf:
        raise InputError(f"--latency-s: {flags.latency_s} is no duration", fix="Give seconds, 0 or more.")
    app = build_app(flags.recorded, flags.latency_s)
    return asyncio.run(_serve(app, flags.host, flags.port))


async def _serve(app: web.Application, host: str, port: int) -> int:
    from aiohttp import web

    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def stop(number: int) -> None:
        if not stopped.done():
            stopped.set_result(number)

    for caught in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(caught, stop, int(caught))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            fix = "Give another --port (0: any free one) or --host."
            raise InputError(f"Cannot listen on {host}:{port}: {error.strerror}", fix=fix) from error
        print(_greeting(app, runner.addresses[0]), flush=True)
        number = await stopped
    finally:
        await runner.cleanup()
    seen: Mapping[Seen, int] = app["seen"]
    print(f"Stopped after {sum(seen.values())} requests.", file=sys.stderr)
    return 128 + number


def _greeting(app: web.Application, address: Any) -> str:
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"Serving on http://{host}:{address[1]}/v1 (Ctrl-C stops)"
