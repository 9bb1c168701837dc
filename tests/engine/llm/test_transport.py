"""What a request looks like to the server, and how each way to get no reply is classified."""

import asyncio
import gzip
import json
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from aiohttp import web

from engine.api_manager import ApiManager
from engine.llm import transport
from engine.llm.retry import RequestContext, RetryAction
from engine.llm.transport import BodyTooLargeError, StatusError, Transport, classify_exception
from engine.storage.web_rows import rows_from_web
from tests.support.fault_server import serve
from tests.support.llm_client import SECRET, refusing_url


def endpoint(url):
    return ApiManager(Path("c.json"), {"g": {"api_key": SECRET, "base_url": url, "model": "m"}}).endpoint("g")


def app_of(handler):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    return app


async def post(url, body=None, headers=None):
    sender = Transport(endpoint(url), 2)
    try:
        return await sender.post(body or {}, headers or {})
    finally:
        await sender.close()


@pytest.mark.parametrize(
    ("ending", "address"),
    [
        ("?api-version=2", "/v1/chat/completions?api-version=2"),
        ("/", "/v1/chat/completions"),
        ("#x", "/v1/chat/completions"),
    ],
)
def test_address_body_and_headers_of_a_request(monkeypatch, ending, address):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.delenv("OPENAI_PROJECT_ID", raising=False)
    requests = []

    async def handler(request):
        requests.append((request.method, request.path_qs, await request.read(), request.headers))
        return web.json_response({})

    async def run():
        async with serve(app_of(handler)) as url:
            return await post(url + ending, {"model": "m", "text": "1 ≤ π", "n": 0.5}, {"X-Sample-Index": "3"})

    assert asyncio.run(run()) == b"{}"
    ((method, path, body, headers),) = requests
    assert (method, path) == ("POST", address)
    assert json.loads(body) == {"model": "m", "text": "1 ≤ π", "n": 0.5}
    wanted = {
        "Accept": "application/json",
        "Authorization": f"Bearer {SECRET}",
        "Content-Type": "application/json",
        "OpenAI-Organization": "org-1",
        "User-Agent": "scaffold-grpo",
        "X-Sample-Index": "3",
    }
    assert {name: headers[name] for name in wanted} == wanted
    assert "OpenAI-Project" not in headers
    assert not any(name.startswith("X-Stainless-OS") for name in headers)


@pytest.mark.parametrize(
    ("status", "body", "read"),
    [
        (400, b'{"error": {"message": "no"}}', {"error": {"message": "no"}}),
        (502, b" <html>bad gateway</html>\n", "<html>bad gateway</html>"),
        (500, b"\xff{", "\ufffd{"),
        (500, b"[" * 50_000, "[" * 50_000),
        (304, b"", ""),
        (301, b"", ""),  # no Location
        (307, b"", ""),
        (308, b"moved", "moved"),
    ],
)
async def test_a_status_that_is_not_2xx_is_an_error_with_headers_and_body(status, body, read):
    async def handler(request):
        return web.Response(status=status, body=body, headers={"Retry-After": "7"})

    async with serve(app_of(handler)) as url:
        with pytest.raises(StatusError) as caught:
            await post(url)
    assert (caught.value.status, caught.value.body) == (status, read)
    assert caught.value.headers.get("retry-after") == "7"


async def test_a_redirect_to_another_host_does_not_get_the_key():
    arrived = []

    async def other(request):
        arrived.append((request.method, await request.json(), request.headers.get("Authorization")))
        return web.json_response({})

    async with serve(app_of(other)) as target:

        async def handler(request):
            return web.Response(status=307, headers={"Location": target.replace("127.0.0.1", "localhost")})

        async with serve(app_of(handler)) as url:
            assert await post(url, {"model": "m"}) == b"{}"
    assert arrived == [("POST", {"model": "m"}, None)]


@pytest.mark.parametrize("host", ["a" * 70, ".."])
async def test_a_redirect_to_a_host_name_that_does_not_exist_is_retried(host):
    async def handler(request):
        return web.Response(status=307, headers={"Location": f"http://{host}/v1"})

    async with serve(app_of(handler)) as url:
        decision = await classified(url)
    assert (decision.action, decision.code) == (RetryAction.RETRY, "connection")


@pytest.mark.parametrize("cookie", ["session=4f9Kq27ZtLw83hXv", "\u00e4=\u00f6", "\x01=\x02"])
async def test_cookies_are_not_sent_back(cookie):
    """Some of them are no valid header of a request."""
    received = []

    async def handler(request):
        received.append(request.headers.get("Cookie"))
        await request.read()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nSet-Cookie: {cookie}\r\n\r\n"
        request.transport.write(head.encode() + b"{}")
        request.transport.close()
        return web.Response()

    async with serve(app_of(handler)) as url:
        transport = Transport(endpoint(url), 1)
        for _ in range(2):
            assert await transport.post({"model": "m"}, {}) == b"{}"
        await transport.close()
    assert received == [None, None]


async def test_a_redirect_that_does_not_keep_the_request_names_the_new_address():
    async def handler(request):
        if request.path == "/new":
            return web.json_response({"object": "list", "data": []})
        return web.Response(status=301, headers={"Location": "/new?token=4f9Kq27ZtLw83hXv"})

    async with serve(app_of(handler)) as url:
        decision = await classified(url)
    assert (decision.action, decision.code) == (RetryAction.STOP, "http_301")
    assert decision.message == "it redirects to /new?token=***; give that address as base_url"


@pytest.mark.parametrize(
    ("environment", "uses_proxy"),
    [
        ({"http_proxy": "URL"}, True),
        ({"ALL_PROXY": "URL"}, True),
        ({"http_proxy": "HOST"}, True),
        ({"http_proxy": "URL", "no_proxy": "models.test"}, False),
        ({"https_proxy": "URL"}, False),
        ({}, False),
    ],
)
async def test_the_proxy_of_the_environment_is_used(monkeypatch, environment, uses_proxy):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    asked = []

    async def proxy(request):
        asked.append(request.raw_path)
        return web.json_response({})

    async with serve(app_of(proxy)) as url:
        host = url.removesuffix("/v1")
        for name, value in environment.items():
            monkeypatch.setenv(name, {"URL": host, "HOST": host.removeprefix("http://")}.get(value, value))
        try:
            await post("http://models.test/v1")
        except transport.HTTP.TransportError:  # there is no such host
            assert not uses_proxy
    assert asked == ["http://models.test/v1/chat/completions"] * uses_proxy


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_dead_proxy_is_named_without_its_password(monkeypatch, scheme):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with refusing_url() as url:
        monkeypatch.setenv(f"{scheme}_proxy", url.replace("http://", "http://user:password@").removesuffix("/v1"))
        decision = await classified(f"{scheme}://models.test/v1")
    message = "the proxy of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY: connection refused"
    assert (decision.code, decision.message, decision.may_be_billed) == ("connection", message, False)


async def test_a_proxy_that_wants_a_password_is_named(monkeypatch):
    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        proxy = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:password@{proxy}")
        monkeypatch.delenv("https_proxy", raising=False)
        decision = await classified("https://models.test/v1")
    assert decision.message.startswith("the proxy of HTTPS_PROXY")
    assert decision.message.endswith(": HTTP 407 Proxy Authentication Required")
    assert not decision.may_be_billed


@pytest.fixture
def certificate(tmp_path):
    """A folder with a certificate of its own for localhost and its key, and a folder of trusted ones with it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", *subject]
    subprocess.run([*command, "-keyout", "key.pem", "-out", "cert.pem"], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "trusted").mkdir()
    shutil.copy(tmp_path / "cert.pem", tmp_path / "trusted")
    subprocess.run(["openssl", "rehash", "trusted"], cwd=tmp_path, check=True)
    return tmp_path


async def test_a_certificate_is_checked_against_those_of_the_system_or_of_ssl_cert_file(certificate, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}/v1"
        decision = await classified(url)
        assert decision.message.startswith("its certificate is not trusted (self-signed certificate)")
        assert not decision.may_be_billed
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
        assert await post(url) == b"{}"
        monkeypatch.delenv("SSL_CERT_FILE")
        monkeypatch.setenv("SSL_CERT_DIR", str(certificate / "trusted"))
        assert await post(url) == b"{}"
        monkeypatch.setenv("XDG_CACHE_HOME", str(certificate))
        assert await asyncio.to_thread(rows_from_web, "one_row", url, "a1", lambda rows: "") == [{}]


async def classified(url):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is what the test is about
        await post(url)
    return classify_exception(caught.value, RequestContext())


async def test_nothing_was_sent_to_a_server_that_is_not_there():
    with refusing_url() as url:
        refused = await classified(url)
    assert (refused.code, refused.message, refused.may_be_billed) == ("connection", "connection refused", False)
    unknown = await classified("http://no-such-host.invalid/v1")
    assert (unknown.action, unknown.code, unknown.may_be_billed) == (RetryAction.RETRY, "connection", False)
    assert unknown.message.startswith("the host name is not known (")
    assert unknown.message.endswith(": no-such-host.invalid")


async def test_nothing_was_sent_to_a_server_that_accepts_no_connection(monkeypatch):
    monkeypatch.setattr(transport, "_CONNECT_S", 0.2)
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)  # room for one connection that is not accepted
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        decision = await classified(f"http://127.0.0.1:{full.getsockname()[1]}/v1")
    assert (decision.code, decision.message) == ("connection", "no connection within 0.2 s")
    assert not decision.may_be_billed


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"", "the connection was closed before a reply"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", "the reply cannot be read: Not enough data"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 10\r\n\r\n{", "the reply cannot be read: Not enough data"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Encoding: gzip\r\n\r\n{}",
            "the reply cannot be read: Error -3",
        ),
        (b"no HTTP\r\n\r\n", "the reply cannot be read: Bad status line"),
    ],
)
async def test_a_request_whose_reply_is_cut_off_or_unreadable_may_be_billed(sent, message):
    async def answer(reader, writer):
        await reader.read(1 << 16)
        writer.write(sent)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        decision = await classified(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    assert (decision.action, decision.code, decision.may_be_billed) == (RetryAction.RETRY, "connection", True)
    assert decision.message.startswith(message)


@pytest.mark.parametrize(("coding", "encoded"), [("identity", bytes), ("gzip", gzip.compress)])
async def test_a_reply_is_read_up_to_32_mib_for_each_sample(coding, encoded):
    """64 samples of 8,000 tokens with ids and log-probs have 60 MB, which one sample never has."""
    most = 32 << 20

    async def handler(request):
        return web.Response(body=encoded(bytes(most + 1)), headers={"Content-Encoding": coding})

    async with serve(app_of(handler)) as url:
        assert len(await post(url, {"n": 2})) == most + 1
        with pytest.raises(BodyTooLargeError) as caught:
            await post(url, {"n": 1})
    decision = classify_exception(caught.value, RequestContext())
    assert (decision.action, decision.code, decision.may_be_billed) == (RetryAction.RETRY, "too_long", True)
    assert decision.message == "it has more than 32 MiB and was not read to its end"


@pytest.mark.parametrize("n", [16, 64, 10**6])
async def test_a_reply_is_read_up_to_512_mib_in_all(n, monkeypatch):
    assert transport._MOST_IN_ALL == 512 << 20 == 16 * transport._MOST_PER_SAMPLE
    monkeypatch.setattr(transport, "_MOST_PER_SAMPLE", 32 << 10)
    monkeypatch.setattr(transport, "_MOST_IN_ALL", 512 << 10)

    async def handler(request):
        return web.Response(body=bytes(int(request.headers["X-Size"])))

    async with serve(app_of(handler)) as url:
        assert len(await post(url, {"n": n}, {"X-Size": str(512 << 10)})) == 512 << 10
        with pytest.raises(BodyTooLargeError):
            await post(url, {"n": n}, {"X-Size": str((512 << 10) + 1)})


@pytest.mark.parametrize(("status", "error", "most"), [(200, BodyTooLargeError, 32 << 20), (500, StatusError, 1 << 20)])
async def test_a_body_that_never_ends_is_left(status, error, most):
    sent = asyncio.get_running_loop().create_future()

    async def endless(request):
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        count = 0
        try:
            while True:
                await response.write(bytes(1 << 18))
                count += 1 << 18
        except ConnectionError:
            sent.set_result(count)
            raise

    async with serve(app_of(endless)) as url:
        async with asyncio.timeout(60):
            with pytest.raises(error):
                await post(url)
            assert most <= await sent < most + (32 << 20)  # what the buffers of both sides hold is not read
