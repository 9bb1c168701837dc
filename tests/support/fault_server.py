"""A model server on loopback that injects faults. The faults are seeded and therefore reproducible.

``chat_app`` implements the chat protocol, ``fault_middleware`` injects faults into any aiohttp app, ``serve`` and
``serve_in_thread`` serve an app on a free port.
"""

import asyncio
import contextlib
import hashlib
import json
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from aiohttp import web

INFRA_KINDS = (
    "429",
    "429_retry_after",
    "500",
    "503",
    "stall",
    "reset",
    "cut_off",
    "truncated",
    "empty",
    "wrong_schema",
)
"""Faults of the infrastructure; a retry succeeds."""

FAILED_REPLY_KINDS = (
    "choice_error",
    "choice_error_stop",
    "finish_error",
    "finish_abort",
    "finish_abort_object",
    "finish_null",
    "finish_network_error",
    "error_beside_choices",
    "error_text",
    "error_object",
    "error_code_text",
)
"""Failed calls as gateways report them with status 200, most of them with part of a text; a retry succeeds."""

MODEL_KINDS = ("length",)
"""Faults of the model: the reply is valid, and a retry does not help."""

FATAL_KINDS = ("bad_key", "unknown_model", "rejected")
"""Refusals; a retry does not help."""


@dataclass
class FaultPlan:
    """Which attempts fail, and how. The result of the n-th attempt with a body depends only on seed, body and n.

    Args:
        seed: seed of the faults.
        rate: share of attempts that fail.
        kinds: kinds of faults, all equally likely.
        max_consecutive_per_request: maximum number of consecutive faults for one body.
        stall_s: seconds without a reply before a stalled connection is closed.
        retry_after_s: value of the ``Retry-After`` header of ``429_retry_after``.
    """

    seed: int
    rate: float = 0.3
    kinds: Sequence[str] = INFRA_KINDS
    max_consecutive_per_request: int = 3
    stall_s: float = 30.0
    retry_after_s: float = 0.05
    injected: dict[str, int] = field(default_factory=dict)
    _attempts: dict[str, int] = field(default_factory=dict)
    _in_a_row: dict[str, int] = field(default_factory=dict)

    def decide(self, body: bytes) -> str | None:
        """Count an attempt and return its fault, or None."""
        name = hashlib.sha256(body).hexdigest()
        attempt = self._attempts.get(name, 0)
        self._attempts[name] = attempt + 1
        draw = hashlib.sha256(f"{self.seed}/{name}/{attempt}".encode()).digest()
        fails = int.from_bytes(draw[:8]) / 2**64 < self.rate
        if not fails or self._in_a_row.get(name, 0) >= self.max_consecutive_per_request:
            self._in_a_row[name] = 0
            return None
        self._in_a_row[name] = self._in_a_row.get(name, 0) + 1
        kind = self.kinds[int.from_bytes(draw[8:16]) % len(self.kinds)]
        self.injected[kind] = self.injected.get(kind, 0) + 1
        return kind


def fault_middleware(plan: FaultPlan) -> Callable:
    """A middleware that injects the faults of a plan into the POST requests of an aiohttp app."""

    @web.middleware
    async def inject(request: web.Request, handler: Callable) -> web.StreamResponse:
        if request.method != "POST":
            return await handler(request)
        kind = plan.decide(await request.read())
        if kind is None:
            return await handler(request)
        return await _FAULTS[kind](plan, request, handler)

    return inject


def _error(status: int, message: str, headers: dict | None = None, **fields: object) -> web.Response:
    return web.json_response({"error": {"message": message, **fields}}, status=status, headers=headers)


async def _rate_limited(plan, request, handler):
    return _error(429, "Rate limit reached", code="rate_limit_exceeded")


async def _rate_limited_with_wait(plan, request, handler):
    return _error(429, "Rate limit reached", {"Retry-After": str(plan.retry_after_s)})


async def _internal_error(plan, request, handler):
    return web.Response(status=500, text="Internal Server Error")


async def _overloaded(plan, request, handler):
    return _error(503, "The server is overloaded")


async def _stall(plan, request, handler):
    await asyncio.sleep(plan.stall_s)
    return await _reset(plan, request, handler)


async def _reset(plan, request, handler):
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _cut_off(plan, request, handler):
    """Send half of the announced body, then close the connection."""
    body = (await handler(request)).body
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.abort()
    return response


async def _truncated(plan, request, handler):
    """A complete HTTP reply with truncated JSON."""
    body = (await handler(request)).body
    return web.Response(body=body[: len(body) // 2], content_type="application/json")


async def _empty(plan, request, handler):
    return web.json_response(_completion("m", [("", "stop")], prompt_tokens=7, completion_tokens=0))


async def _wrong_schema(plan, request, handler):
    return web.json_response({"object": "chat.completion", "result": "ok"})


async def _length(plan, request, handler):
    payload = json.loads((await handler(request)).body)
    for choice in payload["choices"]:
        choice["message"]["content"] = choice["message"]["content"][:3]
        choice["finish_reason"] = "length"
    return web.json_response(payload)


def _failed_reply(error: object = None, error_in: str = "", **fields: object) -> Callable:
    """A reply with status 200 whose choices are cut off and marked as failed.

    Args:
        error: an error of the reply, or of each choice.
        error_in: ``choice``, ``reply``, or ``alone``: without choices.
        fields: fields of each choice.
    """

    async def fail(plan, request, handler):
        payload = json.loads((await handler(request)).body)
        for choice in payload["choices"]:
            choice["message"]["content"] = choice["message"]["content"][:3]
            choice.update(fields)
            if error_in == "choice":
                choice["error"] = error
        if error_in == "reply":
            payload["error"] = error
        return web.json_response({"error": error} if error_in == "alone" else payload)

    return fail


async def _error_object(plan, request, handler):
    return web.json_response({"object": "error", "message": "engine is dead", "type": "InternalError", "code": 500})


_UPSTREAM = {"code": 502, "message": "Provider returned error", "metadata": {"provider_name": "p"}}


async def _bad_key(plan, request, handler):
    key = request.headers.get("Authorization", "").removeprefix("Bearer ")
    return _error(401, f"Incorrect API key provided: {key[:8]}***{key[-4:]}", code="invalid_api_key")


async def _unknown_model(plan, request, handler):
    return _error(404, "The model `m` does not exist", code="model_not_found")


async def _rejected(plan, request, handler):
    return _error(400, "'temperature' must be at most 2", param="temperature")


_FAULTS = {
    "429": _rate_limited,
    "429_retry_after": _rate_limited_with_wait,
    "500": _internal_error,
    "503": _overloaded,
    "stall": _stall,
    "reset": _reset,
    "cut_off": _cut_off,
    "truncated": _truncated,
    "empty": _empty,
    "wrong_schema": _wrong_schema,
    "choice_error": _failed_reply(_UPSTREAM, "choice", finish_reason="error"),
    "choice_error_stop": _failed_reply(_UPSTREAM, "choice"),
    "finish_error": _failed_reply(finish_reason="error"),
    "finish_abort": _failed_reply(finish_reason="abort"),
    "finish_abort_object": _failed_reply(finish_reason={"type": "abort", "message": "out of memory"}),
    "finish_null": _failed_reply(finish_reason=None),
    "finish_network_error": _failed_reply(finish_reason="network_error"),
    "error_beside_choices": _failed_reply(_UPSTREAM, "reply"),
    "error_text": _failed_reply("the model is overloaded", "reply"),
    "error_object": _error_object,
    "error_code_text": _failed_reply({"message": "RateLimitError", "type": "None", "code": "429"}, "alone"),
    "length": _length,
    "bad_key": _bad_key,
    "unknown_model": _unknown_model,
    "rejected": _rejected,
}


@dataclass
class Seen:
    """A received request."""

    body: dict
    first_index: int


def chat_app(
    answer: Callable[[dict, int], str] = lambda body, index: f"answer {index}",
    *,
    api_key: str | None = None,
    models: Sequence[str] | None = None,
    ignores_n: bool = False,
    rejects: Sequence[str] = (),
    latency_s: float = 0.0,
    reply_fields: Callable[[dict, int], dict] | None = None,
    refuse: Callable[[dict], tuple[int, object] | None] | None = None,
    prompt_tokens: Callable[[dict], int] = lambda body: 11,
    usage: Mapping[str, object] = MappingProxyType({}),
    faults: FaultPlan | None = None,
) -> web.Application:
    """A model server: ``/v1/chat/completions`` and ``/v1/models``.

    Args:
        answer: the text for a body and a sample index (the request's ``X-Sample-Index`` + index of the choice).
        api_key: the only accepted key; None: all keys are accepted.
        models: the known models; None: all names are accepted.
        ignores_n: reply with one choice whatever ``n`` is.
        rejects: parameters that are refused with status 400.
        latency_s: seconds before each reply.
        reply_fields: further fields of a choice, such as ``token_ids``.
        refuse: the status and the body with which a request is refused; None: it is answered.
        prompt_tokens: what the usage of a reply says.
        usage: further fields of the usage.
        faults: faults to inject.

    ``app["seen"]`` lists the requests that reached the handler, as :class:`Seen`.
    """

    async def chat(request: web.Request) -> web.Response:
        body = await request.json()
        first = int(request.headers.get("X-Sample-Index", "0"))
        seen.append(Seen(body, first))
        if api_key is not None and request.headers.get("Authorization") != f"Bearer {api_key}":
            return await _bad_key(None, request, None)
        if models is not None and body["model"] not in models:
            return _error(404, f"The model `{body['model']}` does not exist", code="model_not_found")
        for name in rejects:
            if name in body:
                hint = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
                return _error(400, f"Unsupported parameter: '{name}'.{hint}", param=name)
        refused = None if refuse is None else refuse(body)
        if refused is not None:
            return web.json_response(refused[1], status=refused[0])
        await asyncio.sleep(latency_s)
        count = 1 if ignores_n else body.get("n", 1)
        choices = [(answer(body, first + index), "stop") for index in range(count)]
        payload = _completion(body["model"], choices, prompt_tokens(body), sum(len(text) for text, _ in choices))
        payload["usage"] |= usage
        if reply_fields is not None:
            for index, choice in enumerate(payload["choices"]):
                choice.update(reply_fields(body, first + index))
        return web.json_response(payload)

    async def list_models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": name} for name in models or ("m",)]})

    middlewares = [fault_middleware(faults)] if faults else []
    app = web.Application(middlewares=middlewares, client_max_size=1 << 26)
    seen: list[Seen] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", web.NotAppKeyWarning)
        app["seen"] = seen
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/v1/models", list_models)
    return app


def _completion(model, choices, prompt_tokens, completion_tokens):
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [
            {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
            for index, (text, reason) in enumerate(choices)
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


@contextlib.asynccontextmanager
async def serve(app: web.Application) -> AsyncIterator[str]:
    """Serve an app on a free loopback port in this event loop; yields the base URL, which ends in ``/v1``.

    ``app["settle"]()``, called in another thread, waits until no client is connected: then all that clients sent before
    they were killed was read.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handle_signals=False)
    loop = asyncio.get_running_loop()

    async def settled() -> None:
        while runner.server and runner.server.connections:  # noqa: ASYNC110 - aiohttp has no event for it
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", web.NotAppKeyWarning)
        app["settle"] = lambda: asyncio.run_coroutine_threadsafe(settled(), loop).result(60)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def serve_in_thread(app: web.Application) -> Iterator[str]:
    """Serve an app in a separate thread, for clients in other processes; yields the base URL."""
    ready, url = threading.Event(), []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        async with serve(app) as base_url:
            url.append(base_url)
            ready.set()
            await stop.wait()

    def main() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(run())
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=main, name="fault-server", daemon=True)
    thread.start()
    ready.wait(60)
    if not url:
        raise RuntimeError("the server did not start")
    try:
        yield url[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
