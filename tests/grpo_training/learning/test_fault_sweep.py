"""A generator against more than a hundred kinds of fault that ``tests.support.hostile_server`` does not have.

The first attempt of a request meets one of them, and the next one is answered. The files of the run are those of a run
against a server without faults.
"""

import asyncio
import functools
import gzip
import json
import re
import types
import warnings
import zlib

import pytest
from aiohttp import web

from engine.llm.client import LLMClient
from engine.llm.retry import RetryPolicy
from grpo_training import generator1
from tests.support.analyst import for_analyst, with_lesson
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.hostile_server import KINDS
from tests.support.main_loop import normalised

pytestmark = pytest.mark.timeout(300)

PROBLEMS, ROLLOUTS = 8, 3
TIMEOUT_S = 2.0
TOPICS = (
    "carries of units", "signs before sums", "bounds on totals", "parity of terms",
    "order without effect", "estimates by rounding", "checks by subtraction", "columns of tens",
)  # fmt: skip


def answer(body, index):
    """Right for the first sample only, so that each group has something to learn from; or an experience."""
    text = "\n".join(message["content"] for message in body["messages"])
    left, right = map(int, re.findall(r"What is (\d+) \+ (\d+)\?", text)[-1])
    if for_analyst(body):
        return with_lesson(f"Remember {TOPICS[left % PROBLEMS]}.")
    return f"The final answer is {left + right + index}."


class Sweep:
    """Faults for the first attempts of requests, one after another. The first request of all is answered."""

    def __init__(self, kinds):
        self.left, self.met, self._seen = list(kinds.items()), [], set()

    def middleware(self):
        @web.middleware
        async def inject(request, handler):
            body = await request.read()
            is_first = body not in self._seen
            self._seen.add(body)
            proper = await handler(request)
            if not is_first or len(self._seen) == 1 or not self.left:
                return proper
            name, act = self.left.pop(0)
            self.met.append(name)
            response = act(request, proper.body)
            return await response if asyncio.iscoroutine(response) else response

        return inject


# What a server may send in place of the proper reply.
def status(code, headers=None, text='{"error": {"message": "try later"}}'):
    return lambda request, body: web.Response(status=code, headers=headers, text=text)


def here(code, address=str):
    """A redirect to the same address."""
    return lambda request, body: web.Response(status=code, headers={"Location": address(request.url)})


def raw(make):
    """Bytes on the connection, which is then closed; ``make`` gets the proper body."""

    def act(request, body):
        request.transport.write(make(body))
        request.transport.close()
        return web.Response()

    return act


def head(*lines, first=b"HTTP/1.1 200 OK"):
    return b"\r\n".join([first, b"Content-Type: application/json", *lines, b"", b""])


def chunked(*chunks, end=b"0\r\n\r\n"):
    return raw(lambda body: head(b"Transfer-Encoding: chunked") + b"".join(make(body) for make in chunks) + end)


def whole(body, extension=b""):
    return b"%x%s\r\n%s\r\n" % (len(body), extension, body)


def sized(body):
    return b"Content-Length: %d" % len(body)


def sent(make, headers=None, content_type="application/json"):
    """Status 200 and another body, made of the bytes of the proper one."""
    return lambda request, body: web.Response(body=make(body), headers=headers, content_type=content_type)


def changed_reply(change):
    """Status 200 and a changed reply, made of its JSON value."""
    return sent(lambda body: json.dumps(change(json.loads(body))).encode())


def beside(**fields):
    return changed_reply(lambda reply: {**reply, **fields})


def beside_text(text):
    """A field whose JSON text is written as it is."""
    return sent(lambda body: b"{" + text.encode() + b", " + body[1:])


def choices(change):
    return changed_reply(lambda reply: {**reply, "choices": change(reply["choices"])})


def each(change):
    return choices(lambda all_choices: [change(index, dict(choice)) for index, choice in enumerate(all_choices)])


def indices(*values):
    return each(lambda index, choice: {**choice, "index": values[index % len(values)]})


def without(*names):
    return each(lambda _, choice: {name: value for name, value in choice.items() if name not in names})


def cut_off(**fields):
    """Choices with a part of their text."""
    return each(lambda _, choice: {**choice, "message": {**choice["message"], "content": "The final"}, **fields})


def message(change):
    return each(lambda _, choice: {**choice, "message": change(choice["message"])})


def slowly(seconds):
    """The head of a reply in pieces."""

    async def act(request, body):
        data = head(sized(body)) + body
        for start in range(0, 60, 20):
            request.transport.write(data[start : start + 20])
            await asyncio.sleep(seconds)
        if not request.transport.is_closing():
            request.transport.write(data[60:])
        request.transport.close()
        return web.Response()

    return act


SECTIONS = {
    "statuses": {
        **{f"status_{code}": status(code) for code in (501, 505, 507, 511, 520, 521, 522, 524, 530, 598)},
        **{f"status_{code}": status(code) for code in (407, 420, 421, 423, 424, 431, 444, 451, 460, 499, 600, 888)},
        "status_503_date": status(503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        "status_503_hours": status(503, {"Retry-After": "3600"}),
        "status_500_empty": status(500, text=""),
        "status_503_days": status(503, {"Retry-After": "9" * 400 + "d"}),
        "status_503_list": status(503, {"Retry-After": "5, 7"}),
        "status_502_page": status(502, {"Content-Type": "text/html"}, "<html>Bad Gateway</html>"),
    },
    "limits and empty statuses": {
        "status_429_page": status(429, {"Content-Type": "text/html"}, "<html>slow down</html>"),
        "status_429_iso": status(429, {"Retry-After": "2015-10-21T07:28:00Z"}),
        "status_429_resets": status(429, {"x-ratelimit-reset-tokens": "0m1.5s", "x-ratelimit-reset-requests": "never"}),
        "status_429_infinite": status(429, {"Retry-After": "inf"}),
        "status_400_again": status(400, {"x-should-retry": "true"}),
        "status_418_again": status(418, {"x-should-retry": "true"}),
        **{f"status_{code}": status(code, text="") for code in (202, 203, 204, 205, 206, 226, 299)},
    },
    "redirects": {
        **{f"redirect_{code}_nowhere": status(code) for code in (300, 301, 302, 303, 304, 305, 307, 308)},
        "redirect_307_here": here(307),
        "redirect_308_here": here(308),
        "redirect_307_relative": here(307, lambda url: url.path),
        "redirect_307_long_name": here(307, lambda url: f"http://{'a' * 70}/"),
        "redirect_308_dots": here(308, lambda url: "http://../"),
        "redirect_307_bracket": raw(lambda body: b"HTTP/1.1 307 Moved\r\nLocation: http://[::1\r\n\r\n"),
        "redirect_307_file": here(307, lambda url: "file:///etc/hosts"),
        "redirect_302_here": here(302),  # another endpoint has been found to be the right one before
        "redirect_303_here": here(303),
    },
    "chunks": {
        "chunk_size_word": chunked(lambda body: b"many\r\n" + body + b"\r\n"),
        "chunk_size_negative": chunked(lambda body: b"-5\r\n" + body + b"\r\n"),
        "chunk_size_huge": chunked(lambda body: b"f" * 30 + b"\r\n" + body + b"\r\n"),
        "chunk_size_empty": chunked(lambda body: b"\r\n" + body + b"\r\n"),
        "chunk_no_end": chunked(whole, end=b""),
        "chunk_cut_in_size": chunked(whole, end=b"1"),
        "chunk_too_long": chunked(lambda body: b"5\r\n" + body + b"\r\n"),
        "chunk_extension": chunked(lambda body: whole(body, b";name=value")),
        "chunk_trailer": chunked(whole, end=b"0\r\nX-Checksum: 7\r\n\r\n"),
        "chunk_per_byte": chunked(lambda body: b"".join(whole(body[at : at + 1]) for at in range(len(body)))),
        "chunk_bare_newline": chunked(lambda body: b"%x\n%s\n" % (len(body), body), end=b"0\n\n"),
        "chunk_and_length": raw(
            lambda body: head(sized(body), b"Transfer-Encoding: chunked") + whole(body) + b"0\r\n\r\n"
        ),
    },
    "heads": {
        "length_negative": raw(lambda body: head(b"Content-Length: -1") + body),
        "length_word": raw(lambda body: head(b"Content-Length: all") + body),
        "length_twice": raw(lambda body: head(sized(body), b"Content-Length: 3") + body),
        "length_too_small": raw(lambda body: head(b"Content-Length: 20") + body),
        "length_none": raw(lambda body: head(b"Connection: close") + body),
        "http_1_0": raw(lambda body: head(first=b"HTTP/1.0 200 OK") + body),
        "http_0_9": raw(lambda body: body),
        "http_2": raw(lambda body: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        "http_9_9": raw(lambda body: head(sized(body), first=b"HTTP/9.9 200 OK") + body),
        "no_reason": raw(lambda body: head(sized(body), first=b"HTTP/1.1 200") + body),
        "status_000": raw(lambda body: head(sized(body), first=b"HTTP/1.1 000 Nothing") + body),
        "status_999": raw(lambda body: head(sized(body), first=b"HTTP/1.1 999 Denied") + body),
        "status_negative": raw(lambda body: head(sized(body), first=b"HTTP/1.1 -20 Minus") + body),
    },
    "connections": {
        "interim_100": raw(lambda body: b"HTTP/1.1 100 Continue\r\n\r\n" + head(sized(body)) + body),
        "interim_103": raw(lambda body: b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + head(sized(body)) + body),
        "interim_only": raw(lambda body: b"HTTP/1.1 100 Continue\r\n\r\n"),
        "header_space": raw(lambda body: head(sized(body), b"X-Name : value") + body),
        "header_folded": raw(lambda body: head(sized(body), b"X-Name: one", b" two") + body),
        "header_zero": raw(lambda body: head(sized(body), b"X-Name: a\0b") + body),
        "cookie_not_ascii": raw(lambda body: head(sized(body), b"Set-Cookie: \xc3\xa4=\xc3\xb6") + body),
        "cookie_control": raw(lambda body: head(sized(body), b"Set-Cookie: \x01=\x02") + body),
        "header_64_kib": sent(bytes, {"X-Name": "a" * 65_000}),
        "length_list": raw(lambda body: head(b"Content-Length: %d, %d" % (len(body), len(body))) + body),
        "header_not_ascii": raw(lambda body: head(sized(body), b"X-Name: \xff\xfe") + body),
        "half_a_status": raw(lambda body: b"HTTP/1."),
        "half_a_head": raw(lambda body: head(sized(body))[:40]),
        "nothing": raw(lambda body: b""),
        "newlines": raw(lambda body: b"\r\n" * 50),
        "tls_alert": raw(lambda body: b"\x15\x03\x01\x00\x02\x02\x16"),
        "body_twice": raw(lambda body: head(sized(body)) + body + body),
        "slow_head": slowly(0.05),
        "stopped_head": slowly(TIMEOUT_S),
    },
    "encodings": {
        "gzip": sent(gzip.compress, {"Content-Encoding": "gzip"}),
        "deflate": sent(zlib.compress, {"Content-Encoding": "deflate"}),
        "gzip_in_gzip": sent(lambda body: gzip.compress(gzip.compress(body)), {"Content-Encoding": "gzip, gzip"}),
        "gzip_without_end": sent(lambda body: gzip.compress(body)[:-8], {"Content-Encoding": "gzip"}),
        "gzip_of_300_mib": sent(lambda body: gzip.compress(b" " * (300 << 20) + body, 1), {"Content-Encoding": "gzip"}),
        "gzip_plain": sent(bytes, {"Content-Encoding": "gzip"}),
        "gzip_twice": sent(lambda body: gzip.compress(gzip.compress(body)), {"Content-Encoding": "gzip"}),
        "gzip_unsaid": sent(gzip.compress),
        "deflate_plain": sent(bytes, {"Content-Encoding": "deflate"}),
        "br_plain": sent(bytes, {"Content-Encoding": "br"}),
        "zstd_plain": sent(bytes, {"Content-Encoding": "zstd"}),
        "encoding_unknown": sent(bytes, {"Content-Encoding": "shorthand"}),
        "utf_16": sent(lambda body: body.decode().encode("utf-16")),
        "utf_32": sent(lambda body: body.decode().encode("utf-32")),
        "latin_1": sent(lambda body: b'{"note": "\xe9", ' + body[1:]),
        "overlong": sent(lambda body: b'{"note": "\xc0\xaf", ' + body[1:]),
        "bom_twice": sent(lambda body: b"\xef\xbb\xbf" * 2 + body),
    },
    "documents": {
        "type_image": sent(bytes, content_type="image/png"),
        "type_charset": sent(bytes, {"Content-Type": "application/json; charset=utf-16"}, None),
        "type_none": raw(lambda body: b"HTTP/1.1 200 OK\r\n" + sized(body) + b"\r\n\r\n" + body),
        "xml": sent(lambda body: b"<?xml version='1.0'?><reply/>", content_type="application/xml"),
        "python_literal": sent(lambda body: repr(json.loads(body)).encode()),
        "comment": sent(lambda body: b"/* reply */ " + body),
        "trailing_comma": sent(lambda body: body[:-1] + b",}"),
        "zero_bytes": sent(lambda body: body + b"\0\0"),
        "spaces_before": sent(lambda body: b" " * 100_000 + body),
        "json_in_json": sent(lambda body: json.dumps(body.decode()).encode()),
        "in_a_list": changed_reply(lambda reply: [reply]),
        "boolean": sent(lambda body: b"true"),
        "keepalives": sent(lambda body: b": ping\n\n" * 3 + b"data: " + body),
        "half_in_a_text": sent(lambda body: body[: body.index(b"content") + 14]),
    },
    "values": {
        "nan_beside": beside_text('"created": NaN'),
        "infinite_beside": beside_text('"created": -Infinity, "usage": {"prompt_tokens": Infinity}'),
        "number_1e999": beside_text('"created": 1e999'),
        "digits_beside": beside_text('"created": ' + "7" * 5000),
        "deep_beside": beside_text('"trace": ' + "[" * 500 + "]" * 500),
        "deeper_beside": beside_text('"trace": ' + "[" * 100_000 + "]" * 100_000),
        "surrogate_beside": beside_text('"note": "\\ud800"'),
        "choices_first_empty": beside_text('"choices": []'),
        "choices_last_empty": sent(lambda body: body[:-1] + b', "choices": []}'),
        "identifiers": beside(id=7, object=None, created="now", system_fingerprint={}),
        "error_false": beside(error=False),
        "error_list": beside(error=[]),
        "error_zero": beside(error=0),
        "error_code_superscript": beside(error={"code": "\u2074\u00b2\u2079", "message": "later"}),
        "warnings": beside(warnings=["deprecated"], detail="ok", status="completed"),
    },
    "usage": {
        **{
            f"usage_{name}": beside(usage=value)
            for name, value in {
                "list": [1, 2],
                "true": True,
                "word": "unknown",
                "empty": {},
                "floats": {"prompt_tokens": 11.0, "completion_tokens": 5.5},
                "huge_float": {"prompt_tokens": 1e308, "completion_tokens": 1e308},
                "huge": {"prompt_tokens": 2**70, "completion_tokens": 2**63},
                "booleans": {"prompt_tokens": True, "completion_tokens": False},
                "zero": {"prompt_tokens": 0, "completion_tokens": 0},
                "lists": {"prompt_tokens": [11], "completion_tokens": {"text": 5}},
                "cached": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 10**9}},
                "details": {"prompt_tokens": 1, "prompt_tokens_details": [7]},
            }.items()
        }
    },
    "choices": {
        "index_missing": without("index"),
        "index_text": indices("0", "1", "2"),
        "index_from_1": indices(1, 2, 3),
        "index_from_7": indices(7, 8, 9),
        "index_negative": indices(-1, -2, -3),
        "index_float": indices(0.0, 1.0, 2.0),
        "index_null": indices(None),
        "index_twice": indices(0, 0, 1),
        "index_text_reversed": choices(
            lambda all_choices: [{**choice, "index": str(choice["index"])} for choice in all_choices][::-1]
        ),
        "index_float_reversed": choices(
            lambda all_choices: [{**choice, "index": float(choice["index"])} for choice in all_choices][::-1]
        ),
        "index_true": indices(True, False, 2),
        "one_choice": choices(lambda all_choices: all_choices[:1]),
        "last_choice": choices(lambda all_choices: all_choices[-1:]),
        "one_null": choices(lambda all_choices: [None, *all_choices[1:]]),
        "one_failed": each(lambda index, choice: {**choice, "finish_reason": "error"} if index == 0 else choice),
        "one_without_message": each(lambda index, choice: {"index": index} if index == 0 else choice),
        "choices_object_by_index": choices(
            lambda all_choices: {str(choice["index"]): choice for choice in all_choices}
        ),
    },
    "finish reasons": {
        **{
            f"finish_{reason}": cut_off(finish_reason=reason)
            for reason in ("upstream_error", "deadline_exceeded", "service_unavailable", "worker_killed", "503")
        },
        "parts_texts": message(lambda turn: {**turn, "content": [turn["content"]]}),
    },
    "messages": {
        "finish_missing_in_one": each(lambda index, choice: {**choice, "finish_reason": "stop" if index else None}),
        "finish_number": each(lambda _, choice: {**choice, "finish_reason": 7}),
        "finish_list": each(lambda _, choice: {**choice, "finish_reason": ["stop"]}),
        "delta": each(lambda _, choice: {"index": choice["index"], "delta": choice["message"]}),
        "text": each(lambda _, choice: {"index": choice["index"], "text": choice["message"]["content"]}),
        "parts": message(lambda turn: {**turn, "content": [{"type": "text", "text": turn["content"]}, None, 7, {}]}),
        "no_parts": message(lambda turn: {**turn, "content": []}),
        "content_object": message(lambda turn: {**turn, "content": {"text": turn["content"]}}),
        "content_true": message(lambda turn: {**turn, "content": True}),
        "role_missing": message(lambda turn: {"content": turn["content"]}),
        "role_user": message(lambda turn: {**turn, "role": "user"}),
        "reasoning_number": message(lambda turn: {**turn, "reasoning_content": 7}),
        "calls_null": message(lambda turn: {**turn, "tool_calls": None, "function_call": None, "audio": None}),
        "logprobs_infinite": each(lambda _, choice: {**choice, "logprobs": {"content": [{"logprob": -1e308}, {}]}}),
        "token_ids_huge": each(lambda _, choice: {**choice, "token_ids": [1e30, True]}),
    },
}
ALL = {name: kind for section in SECTIONS.values() for name, kind in section.items()}


def run(folder, kinds):
    """The files of a run against a server with these faults, and the names of those that were met."""
    sweep = Sweep(kinds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        app = chat_app(answer)
        app.middlewares.append(sweep.middleware())
    rows = [{"id": f"p{n}", "problem": f"What is {n + 3} + {2 * n + 5}?", "answer": str(3 * n + 8), "task": "math"}
            for n in range(PROBLEMS)]  # fmt: skip
    folder.mkdir()
    (folder.parent / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    world = types.SimpleNamespace(cache=folder / "cache", experiences=folder / "experiences")
    with serve_in_thread(app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m", "timeout_s": TIMEOUT_S}
        (folder / "api.json").write_text(json.dumps({"generator_1": entry}))
        words = ["--api-config", folder / "api.json", "--dataset", folder.parent / "problems.jsonl"]
        words += ["--cache-dir", world.cache, "--experiences-dir", world.experiences, "--rollouts", ROLLOUTS]
        assert generator1.main([str(word) for word in (*words, "--window", 2)]) == 0
    return normalised(world), sweep.met


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch):
    """Waits between attempts take no time, however long a server asks for."""
    quick = functools.partial(LLMClient, sleep=lambda _: asyncio.sleep(0))
    monkeypatch.setattr("grpo_training.serve.endpoints.LLMClient", quick)
    monkeypatch.setattr("grpo_training.serve.endpoints.RetryPolicy", functools.partial(RetryPolicy, total_s=1e6))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    files, _ = run(folder / "clean", {})
    assert files["generator_1_rollouts.jsonl"].count('"is_correct":true') == PROBLEMS
    assert files["generator_1_rollouts.jsonl"].count('"is_correct":false') == PROBLEMS * (ROLLOUTS - 1)
    assert all(topic in files["generator_1_experiences.json"] for topic in TOPICS[:4])
    return files


def test_there_are_more_than_a_hundred_kinds_that_the_other_sweep_does_not_have():
    assert len(ALL) == sum(map(len, SECTIONS.values())) >= 100
    assert not ALL.keys() & KINDS.keys()


@pytest.mark.parametrize("section", SECTIONS)
def test_the_files_of_a_run_are_those_of_a_server_without_faults(tmp_path, undisturbed, section):
    files, met = run(tmp_path / "run", SECTIONS[section])
    assert sorted(met) == sorted(SECTIONS[section])
    assert files == undisturbed
