"""Serves recorded replies over the OpenAI chat protocol, for tests.

* The requested model (``generator_1``, ``critic``) selects the file, and the problem text in the prompt selects the
  record. For ``critic``, the generator named in the prompt selects the fusion.
* Sample k of a request is rollout (first + k) modulo the number of rollouts. ``first`` is the header
  ``X-Sample-Index``, which the client of this project sends; without it, it is ``seed``, or 0. So the rollouts come in
  order, in one request or in single requests.
* A request to the analyst gets the first experience of the recorded library that comes from its problem, or ``none``.
* Any other request gets a 404 that names what was not found.

Token counts are counts of words and punctuation marks. They do not depend on a tokenizer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiohttp import web

from engine.api_manager import ANALYST_ROLE
from tests.support.analyst import for_analyst, with_lesson
from tests.support.recorded_replies import NotRecordedError, RecordedReplies, count_tokens

MAX_BODY_BYTES = 8 << 20
MAX_SAMPLES = 128


class Seen(NamedTuple):
    """A request that arrived; equal requests have equal values. ``body`` is a hash of its bytes."""

    model: str
    problem_id: str
    generator_id: str
    seed: int | None
    n: int
    status: int
    body: str


class ApiError(Exception):
    """An error response of the protocol."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


@dataclass(frozen=True)
class ChatBody:
    """The fields of a request that the server uses. Sampling parameters have no effect on recorded replies."""

    model: str
    messages: tuple[str, ...]
    n: int
    seed: int | None
    for_analyst: bool

    @classmethod
    def parse(cls, raw: bytes) -> ChatBody:
        """Check the body of a request.

        Raises:
            ApiError: status 400, with the name of the parameter.
        """
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise _bad("invalid_json", f"The body is not JSON: {str(error)[:200]}") from error
        if not isinstance(body, dict):
            raise _bad("invalid_json", f"The body must be a JSON object, got {type(body).__name__}")
        model, n, seed = body.get("model"), body.get("n"), body.get("seed")
        if not isinstance(model, str) or not model:
            raise _bad("invalid_type", "'model' must be a string", "model")
        n = 1 if n is None else n
        if type(n) is not int or not 1 <= n <= MAX_SAMPLES:
            raise _bad("invalid_value", f"'n' must be an integer from 1 to {MAX_SAMPLES}", "n")
        if seed is not None and type(seed) is not int:
            raise _bad("invalid_type", "'seed' must be an integer", "seed")
        if body.get("stream"):
            raise _bad("unsupported_value", "'stream' is not supported", "stream")
        texts = _texts(body.get("messages"))
        return cls(model, texts, n, seed, model == ANALYST_ROLE or for_analyst(body))


def _bad(code: str, message: str, param: str | None = None) -> ApiError:
    return ApiError(400, code, message, param)


def _texts(messages: Any) -> tuple[str, ...]:
    """The texts of a conversation; the parts of a content are joined."""
    if not isinstance(messages, list) or not messages:
        raise _bad("invalid_type", "'messages' must be a non-empty list", "messages")
    texts = []
    for position, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):
            parts = [part.get("text") for part in content if isinstance(part, dict)]
            content = "\n".join(part for part in parts if isinstance(part, str))
        if not isinstance(content, str) or not isinstance(role, str):
            param = f"messages[{position}]"
            raise _bad("invalid_type", f"'{param}' must have the strings 'role' and 'content'", param)
        texts.append(content)
    return tuple(texts)


@dataclass
class _Handlers:
    """The handlers of the server's three routes."""

    replies: RecordedReplies
    seen: Counter[Seen]
    latency_s: float
    sleep: Callable[[float], Awaitable[None]]

    async def chat(self, request: web.Request) -> web.Response:
        raw = await request.read()
        entry = Seen("", "", "", None, 0, 200, hashlib.sha256(raw).hexdigest()[:16])
        try:
            body = ChatBody.parse(raw)
            entry = entry._replace(model=body.model, n=body.n, seed=body.seed)
            if body.for_analyst:
                samples: Sequence[str] = [with_lesson(self.replies.lesson(body.model, body.messages))] * body.n
            else:
                recording = self.replies.find(body.model, body.messages)
                entry = entry._replace(problem_id=recording.problem_id, generator_id=recording.generator_id)
                first = _first_index(request.headers.get("X-Sample-Index"), body.seed)
                samples = [recording.replies[(first + k) % len(recording.replies)] for k in range(body.n)]
        except NotRecordedError as error:
            entry = entry._replace(status=404)
            raise ApiError(404, error.code, str(error)) from error
        except ApiError as error:
            entry = entry._replace(status=error.status)
            raise
        finally:
            self.seen[entry] += 1
        if self.latency_s:
            await self.sleep(self.latency_s)
        return web.json_response(_completion(body, samples, entry.body))

    async def models(self, request: web.Request) -> web.Response:
        names = sorted({*self.replies.problems, ANALYST_ROLE})
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "replay"} for name in names]
        return web.json_response({"object": "list", "data": data})

    async def health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "problems": dict(self.replies.problems)})


def _first_index(header: str | None, seed: int | None) -> int:
    """The index of a request's first sample."""
    return int(header) if header is not None and header.isdecimal() else seed or 0


def _completion(body: ChatBody, samples: Sequence[str], key: str) -> dict[str, Any]:
    """The response object; equal requests get equal bytes."""
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
    replies: RecordedReplies,
    latency_s: float = 0.0,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> web.Application:
    """The server's application; ``app["seen"]`` counts the chat requests (a Counter of :class:`Seen`).

    Args:
        replies: what is served.
        latency_s: seconds before a reply; error responses are not delayed.
        sleep: waits for a number of seconds.
    """

    @web.middleware
    async def errors(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as error:
            return _error_response(error.status, error.code, str(error), error.param)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            code = re.sub(r"\W+", "_", error.reason.lower())
            return _error_response(error.status, code, f"{request.method} {request.path}: {error.reason}")

    seen: Counter[Seen] = Counter()
    app = web.Application(middlewares=[errors], client_max_size=MAX_BODY_BYTES)
    with warnings.catch_warnings():  # a string key, so that callers need no import to read it
        warnings.simplefilter("ignore", web.NotAppKeyWarning)
        app["seen"] = seen
        app["problems"] = replies.problems
    handlers = _Handlers(replies, seen, latency_s, sleep)
    app.router.add_post("/v1/chat/completions", handlers.chat)
    app.router.add_get("/v1/models", handlers.models)
    app.router.add_get("/health", handlers.health)
    return app


def _error_response(status: int, code: str, message: str, param: str | None = None) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return web.json_response({"error": error}, status=status)
