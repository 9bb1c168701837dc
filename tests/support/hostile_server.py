"""A chat server that treats each request as its messages say, and counts what it worked on.

The conversation is ``<kind> <anything>``. A kind is one fault; the first attempt meets it, later attempts are answered,
except for kinds that never end. ``billed`` counts, per conversation, how often the server did the work: it is what a
provider would charge, whether or not a reply arrived.
"""

import asyncio
import contextlib
import gzip
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

ANSWERED, OPEN = "ok", "infra_fault"
"""How a request ends: with the right answer, or unanswered."""


@dataclass
class Attempt:
    """One request: its parts, and the reply that the server would send."""

    server: "HostileServer"
    request: web.Request
    body: dict
    message: str
    number: int

    def whole(self) -> dict:
        """The proper reply. The server has worked on it: it is billed."""
        self.server.billed[self.message] += 1
        first = int(self.request.headers.get("X-Sample-Index", "0"))
        texts = [self.server.answers(self.message, first + index) for index in range(self.body.get("n", 1))]
        payload = reply(texts, self.body["model"])
        self.server.billed_tokens += payload["usage"]["prompt_tokens"] + payload["usage"]["completion_tokens"]
        return payload

    @property
    def key(self) -> str:
        return self.request.headers.get("Authorization", "").removeprefix("Bearer ")

    def send_raw(self, data: bytes) -> web.StreamResponse:
        """Write bytes to the connection and close it."""
        transport = self.request.transport
        transport.write(data)
        transport.close()
        return web.Response()

    def reset(self) -> web.StreamResponse:
        self.request.transport.abort()
        return web.Response()


@dataclass(frozen=True)
class Kind:
    """A fault.

    Args:
        act: makes the reply of an attempt that meets the fault.
        ends: how the request ends.
        bills: how often the server works on one request.
        lasts: whether all attempts meet it.
    """

    act: Callable[[Attempt], Awaitable[web.StreamResponse]]
    ends: str = ANSWERED
    bills: int = 1
    lasts: bool = False


KINDS: dict[str, Kind] = {}
"""All faults by name."""


class HostileServer:
    """See the module. ``seen`` lists all messages that arrived; ``billed`` counts those that were worked on.

    Args:
        latency_s: seconds before each reply.
        kind: the fault of all requests, whatever their messages say.
        answers: the text for a message and a sample index.

    From the request number ``refuse_from`` on, all requests are refused at once with the status ``refusal``.
    """

    def __init__(
        self,
        latency_s: float = 0.0,
        kind: str | None = None,
        answers: Callable[[str, int], str] = lambda message, index: f"{message}/{index}",
    ) -> None:
        self.latency_s, self.answers = latency_s, answers
        self.refuse_from: int | None = None
        self.refusal = 401
        self.billed: Counter[str] = Counter()
        self.billed_tokens = 0
        self.seen: list[str] = []
        self.in_flight = 0
        self._kind = kind
        self.app = web.Application(client_max_size=1 << 26)
        self.app.router.add_post("/{path:.*}", self._chat)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        message = "\n".join(turn["content"] for turn in body["messages"])
        self.seen.append(message)
        attempt = Attempt(self, request, body, message, self.seen.count(message))
        kind = KINDS.get(self._kind or message.split()[0], FINE)
        if self.refuse_from is not None and len(self.seen) >= self.refuse_from:
            return web.json_response({"error": {"message": "refused"}}, status=self.refusal)
        self.in_flight += 1
        try:
            await asyncio.sleep(self.latency_s)
            if attempt.number > 1 and not kind.lasts and self._kind is None:
                kind = FINE
            return await kind.act(attempt)
        finally:
            self.in_flight -= 1


def reply(texts, model="m", **fields) -> dict:
    """A reply of the chat protocol; ``fields`` are added to each choice."""
    choices = [
        {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **fields}
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 11, "completion_tokens": sum(map(len, texts))}
    return {"id": "1", "object": "chat.completion", "model": model, "choices": choices, "usage": usage}


async def _fine(attempt: Attempt) -> web.StreamResponse:
    return web.json_response(attempt.whole())


FINE = Kind(_fine)


def _add(name: str, act: Callable[[Attempt], web.StreamResponse | Awaitable], **fields) -> None:
    async def acting(attempt: Attempt) -> web.StreamResponse:
        result = act(attempt)
        return await result if asyncio.iscoroutine(result) else result

    KINDS[name] = Kind(acting, **fields)


# Statuses. Nothing is billed: the server refuses before it works.
def _status(status: int, headers: dict | None = None, text: str | None = None, **error: object):
    def act(attempt):
        if text is not None:
            return web.Response(status=status, headers=headers, text=text)
        return web.json_response({"error": {"message": "refused", **error}}, status=status, headers=headers)

    return act


for _name, _headers in {
    "429": {},
    "429_seconds": {"Retry-After": "0.01"},
    "429_milliseconds": {"retry-after-ms": "10"},
    "429_past_date": {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"},
    "429_negative": {"Retry-After": "-5"},
    "429_nan": {"Retry-After": "nan"},
    "429_words": {"Retry-After": "in a while"},
    "429_reset_header": {"x-ratelimit-reset-requests": "12ms", "x-ratelimit-remaining-requests": "0"},
    "429_huge_number": {"Retry-After": "9" * 400},
}.items():
    _add(_name, _status(429, _headers))
for _code in (408, 409, 425, 500, 502, 503, 504, 529, 599):
    _add(str(_code), _status(_code))
_add("500_html", _status(500, {"Content-Type": "text/html"}, "<html><h1>502 Bad Gateway</h1></html>"))
_add("500_list", lambda attempt: web.json_response(["error", None], status=500))
_add("500_deep", lambda attempt: web.Response(status=500, text="[" * 50_000, content_type="application/json"))
_add("500_bytes", lambda attempt: web.Response(status=500, body=b"\xff\xfe\x00", content_type="application/json"))
_add("filtered_400", _status(400, code="content_filter"), ends=OPEN, bills=0, lasts=True)
_add("too_long_400", _status(400, code="context_length_exceeded"), ends=OPEN, bills=0, lasts=True)
_add("too_large_413", _status(413), ends=OPEN, bills=0, lasts=True)
_add("refused_400", _status(400, param="messages"), ends=OPEN, bills=0, lasts=True)
_add("do_not_retry", _status(503, {"x-should-retry": "false"}), ends=OPEN, bills=0, lasts=True)
_add("always_503", _status(503), ends=OPEN, bills=0, lasts=True)
_add("redirect_loop", lambda attempt: web.Response(status=307, headers={"Location": str(attempt.request.url)}))


# Bodies with status 200 that are no reply. The server has worked on them, so the request is billed twice.
def _body(make: Callable[[dict], object], content_type: str = "application/json"):
    def act(attempt):
        content = make(attempt.whole())
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return web.Response(body=body, content_type=content_type)

    return act


def _changed(**fields):
    return _body(lambda body: {**body, **fields})


def _choice(**fields):
    return _body(lambda body: {**body, "choices": [{**choice, **fields} for choice in body["choices"]]})


def _part(**fields):
    """A choice whose text is cut off, with further fields."""

    def make(body):
        for choice in body["choices"]:
            choice["message"]["content"] = choice["message"]["content"][:3]
            choice.update(fields)
        return body

    return _body(make)


_UPSTREAM = {"code": 502, "message": "Provider returned error"}
for _name, _act in {
    "empty_body": _body(lambda body: b""),
    "html": _body(lambda body: b"<html>please log in</html>", "text/html"),
    "null": _body(lambda body: None),
    "list": _body(lambda body: []),
    "string": _body(lambda body: "answer"),
    "number": _body(lambda body: 7),
    "deep": _body(lambda body: b"[" * 100_000),
    "huge_integer": _body(lambda body: b'{"choices": ' + b"9" * 5000 + b"}"),
    "two_documents": _body(lambda body: json.dumps(body).encode() * 2),
    "truncated": _body(lambda body: json.dumps(body).encode()[:60]),
    "not_utf8": _body(lambda body: b'{"choices": "\xff\xfe"}'),
    "event_stream": _body(lambda body: b"data: " + json.dumps(body).encode() + b"\n\ndata: [DONE]\n\n"),
    "no_choices": _changed(choices=None),
    "choices_object": _changed(choices={}),
    "choices_empty": _changed(choices=[]),
    "choice_null": _changed(choices=[None]),
    "choice_text": _changed(choices=["answer"]),
    "message_null": _choice(message=None),
    "message_list": _choice(message=["answer"]),
    "content_number": _choice(message={"role": "assistant", "content": 7}),
    "empty": _body(lambda body: {**reply([""]), "usage": {"prompt_tokens": 7, "completion_tokens": 0}}),
    "choice_error": _part(error=_UPSTREAM, finish_reason="error"),
    "choice_error_stop": _part(error=_UPSTREAM),
    "finish_error": _part(finish_reason="error"),
    "finish_abort": _part(finish_reason="abort"),
    "finish_abort_object": _part(finish_reason={"type": "abort"}),
    "finish_null": _part(finish_reason=None),
    "finish_network": _part(finish_reason="network_error"),
    "error_beside_choices": _changed(error=_UPSTREAM),
    "error_text": _changed(error="the model is overloaded"),
    "error_object": _body(lambda body: {"object": "error", "message": "engine is dead", "code": 500}),
    "error_429_text": _body(lambda body: {"error": {"message": "slow down", "code": "429"}}),
}.items():
    _add(_name, _act, bills=2)


# Replies that lie but hold the answer.
def _mixed(body):
    body["choices"].reverse()
    return body


for _name, _act in {
    "usage_missing": _changed(usage=None),
    "usage_text": _changed(usage={"prompt_tokens": "many", "completion_tokens": []}),
    "usage_negative": _changed(usage={"prompt_tokens": -5, "completion_tokens": -1}),
    "usage_nan": _body(lambda body: json.dumps({**body, "usage": {"completion_tokens": float("nan")}}).encode()),
    "model_number": _changed(model=7),
    "other_model": _changed(model="another"),
    "choices_reversed": _body(_mixed),
    "more_choices": _body(lambda body: {**body, "choices": body["choices"] + reply(["too much"])["choices"]}),
    "error_empty": _changed(error={"message": "", "code": None}),
    "bom": _body(lambda body: b"\xef\xbb\xbf" + json.dumps(body).encode()),
    "wrong_type": _body(lambda body: body, "text/plain"),
    "logprobs_text": _choice(logprobs="none"),
    "token_ids_text": _choice(token_ids=["a"]),
    "tool_calls": _choice(tool_calls=[{"function": None}]),
}.items():
    _add(_name, _act)


# Connections that break. The server has done the work, so it is paid twice.
async def _stalls(attempt):
    attempt.whole()
    await asyncio.sleep(30)
    return attempt.reset()


async def _byte_by_byte(attempt):
    data = json.dumps(attempt.whole()).encode()
    response = web.StreamResponse(headers={"Content-Length": str(len(data))})
    await response.prepare(attempt.request)
    with contextlib.suppress(ConnectionError):  # the client does not wait for the end
        for byte in data:
            await response.write(bytes([byte]))
            await asyncio.sleep(0.1)
    return response


def _announced(extra: int, cut: int = 0, abort: bool = False):
    """Announce a length that is not that of the body, then close."""

    def act(attempt):
        data = json.dumps(attempt.whole()).encode()
        sent = data[: cut or None]
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data) + extra}\r\n\r\n"
        attempt.request.transport.write(head.encode() + sent)
        return attempt.reset() if abort else attempt.send_raw(b"")

    return act


def _raw(data: bytes):
    def act(attempt):
        attempt.whole()
        return attempt.send_raw(data)

    return act


def _bad_gzip(attempt):
    data = gzip.compress(json.dumps(attempt.whole()).encode())[:40]
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(data)}\r\n\r\n"
    return attempt.send_raw(head.encode() + data)


def _reset(attempt):
    attempt.whole()
    return attempt.reset()


for _name, _act in {
    "stall": _stalls,
    "byte_by_byte": _byte_by_byte,
    "reset": _reset,
    "cut_off": _announced(0, cut=40, abort=True),
    "too_short": _announced(50),
    "chunk_missing": _raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc"),
    "not_http": _raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "bad_status": _raw(b"HTTP/1.1 twohundred OK\r\n\r\n"),
    "bad_header": _raw(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"),
    "huge_header": _raw(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n"),
    "bad_gzip": _bad_gzip,
}.items():
    _add(_name, _act, bills=2)


# Echoes of the key.
def _echo(make: Callable[[dict, str], dict], status: int = 200, escaped: bool = False):
    def act(attempt):
        text = json.dumps(make(attempt.whole(), attempt.key))
        if escaped:
            text = text.replace("-", "\\u002d").replace("/", "\\/")
        return web.Response(status=status, text=text, content_type="application/json")

    return act


def _says(body, key):
    body["choices"][0]["message"]["content"] = f"You sent Bearer {key}\n{key[:20]} and {key[-16:]}."
    return body


def _thinks(body, key):
    body["choices"][0]["message"]["reasoning_content"] = f"The key is {key}"
    return body


ECHOES = {
    "echo_text": _echo(_says),
    "echo_escaped": _echo(_says, escaped=True),
    "echo_reasoning": _echo(_thinks),
    "echo_model": _echo(lambda body, key: {**body, "model": key}),
    "echo_finish": _echo(lambda body, key: {**body, "choices": [{**body["choices"][0], "finish_reason": key}]}),
    "echo_error": _echo(lambda body, key: {"error": {"message": f"bad key {key}", "code": 503}}),
    "echo_503": _echo(lambda body, key: {"error": {"message": f"key {key[:20]} is over its limit"}}, status=503),
    "echo_400": _echo(lambda body, key: {"error": {"message": f"filtered for {key}", "code": "content_filter"}}, 400),
}
for _name, _act in ECHOES.items():
    _add(_name, _act, bills=2 if _name in ("echo_error", "echo_503") else 1, ends=OPEN if "400" in _name else ANSWERED)
