"""Requests to one endpoint, sent by the HTTP client of the OpenAI SDK.

No other module of the client sends requests. Importing the SDK takes longer than reading a configuration and a dataset,
so the client imports this module, with the connections, when it opens its first connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import zlib
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp
from aiohttp import http_exceptions
from openai import DEFAULT_CONNECTION_LIMITS, DefaultAioHttpClient, Timeout

from engine.api_manager import Endpoint
from engine.llm.requests import format_of
from engine.llm.retry import RequestContext, RetryAction, RetryDecision, classify_status
from engine.reading.masking import shown_url
from engine.storage.certificates import trusted_certificates

HTTP: Any = import_module(type(DEFAULT_CONNECTION_LIMITS).__module__.partition(".")[0])
"""The HTTP package of the installed SDK: ``httpx`` of version 2, ``httpx2`` of version 3."""

_OWN_HEADER = "x-api-key"
_CONNECT_S = 10.0
# Servers commonly close idle connections after 5 s; a request on a connection that is being closed fails.
_KEEPALIVE_S = 4.0
_MOST_PER_SAMPLE, _MOST_IN_ALL = 32 << 20, 512 << 20
"""Bytes of a reply. A token with its log-prob and id takes about 120: 280,000 tokens for one sample, of 64 samples
70,000 each."""
_MOST_OF_AN_ERROR = 1 << 20
_MOST_OF_A_FILE = 2 << 30
"""Bytes of a file with the replies of a batch, of up to 50,000 requests."""
_NOT_SENT = (
    *(aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError, aiohttp.ConnectionTimeoutError),
    ConnectionRefusedError,
)
"""Errors before a request was sent."""


class StatusError(Exception):
    """A reply whose status is not 2xx.

    Args:
        status: the HTTP status.
        headers: the reply's headers, looked up by name in any case.
        body: the decoded JSON body, or text.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: object) -> None:
        super().__init__(f"HTTP {status}")
        self.status, self.headers, self.body = status, headers, body


class BodyTooLargeError(Exception):
    """A reply with status 2xx that is longer than any proper reply; it is not read to its end."""


class Transport:
    """Connections to one endpoint. For one event loop, in which it is made.

    Proxies, the organisation and the project of OpenAI are those of the environment. Trusted certificates are those of
    the system, or those that ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` name.

    Args:
        endpoint: gives the address, the API and the key.
        concurrency: the largest number of requests in flight.
    """

    def __init__(self, endpoint: Endpoint, concurrency: int) -> None:
        api, key = format_of(endpoint), endpoint.api_key.get_secret_value()
        of_key = api.headers(key) if api.headers else {"Authorization": f"Bearer {key}"}
        named = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
        of_account = {header: os.environ[name] for header, name in named.items() if os.environ.get(name)}
        self._address, self._path, self._mask = urlsplit(endpoint.base_url), api.path, endpoint.mask
        self._client: Any = DefaultAioHttpClient(
            headers={"User-Agent": "scaffold-grpo", "Accept": "application/json"} | of_key | of_account,
            # The limit exceeds the concurrency: a request never waits for a connection.
            limits=HTTP.Limits(max_connections=concurrency + 16, keepalive_expiry=_KEEPALIVE_S),
            timeout=Timeout(None, connect=_CONNECT_S),  # the caller limits the whole time of a request
            verify=trusted_certificates(endpoint.base_url),
            event_hooks={"response": [_refuse_errors]},
            # No cookies: one with a name that no header may have would fail every later request.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )

    async def post(self, body: dict[str, Any], headers: dict[str, str]) -> bytes:
        """Send one request and return the body of the reply, without keys that the server repeats.

        Args:
            body: the body, as JSON values.
            headers: further headers.

        Raises:
            StatusError: the status is not 2xx.
            BodyTooLargeError: the body has more than 32 MiB for each of ``n`` samples, or more than 512 MiB.
            httpx.HTTPError, aiohttp.ClientError, OSError: there is no complete reply.
        """
        samples = body.get("n")
        most = _MOST_PER_SAMPLE * (samples if isinstance(samples, int) and samples > 0 else 1)
        return await self._content("POST", self._path, min(most, _MOST_IN_ALL), json=body, headers=headers)

    async def call(self, path: str, body: dict[str, Any] | None = None, file: bytes | None = None) -> bytes:
        """Use another part of the API, such as that of files, and return the body of the reply, as :meth:`post`.

        Args:
            path: below the base URL.
            body: fields of a POST request; None: a GET request.
            file: is sent with the fields, as a form.

        Raises:
            As :meth:`post`; the largest body has 2 GiB.
        """
        sent: dict[str, Any] = {} if body is None else {"json": body}
        if file is not None:
            sent = {"data": body, "files": [("file", ("requests.jsonl", file))]}
        return await self._content("GET" if body is None else "POST", f"/{path}", _MOST_OF_A_FILE, **sent)

    async def _content(self, method: str, path: str, most: int, **sent: Any) -> bytes:
        """The body of a reply of at most so many bytes; raises as :meth:`post`."""
        path, _, query = path.partition("?")
        address = self._address
        path, query = address.path.rstrip("/") + path, "&".join(filter(None, (address.query, query)))
        url = urlunsplit(address._replace(path=path, query=query, fragment=""))
        async with self._client.stream(method, url, **sent) as response:
            content = await _first_bytes(response, most + 1)
        if len(content) > most:
            raise BodyTooLargeError(f"it has more than {most >> 20} MiB and was not read to its end")
        return self._mask.reply(content)

    async def close(self) -> None:
        """Close the HTTP connections."""
        await self._client.aclose()


def classify_exception(error: Exception, context: RequestContext) -> RetryDecision | None:
    """Classify an exception of :meth:`Transport.post`. None for unrelated exceptions; the caller re-raises."""
    if isinstance(error, StatusError):
        return classify_status(error.status, error.headers, error.body, context)
    if isinstance(error, BodyTooLargeError):
        return RetryDecision(RetryAction.RETRY, "too_long", str(error), may_be_billed=True)
    causes: list[BaseException] = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    # The HTTP client wraps the errors of aiohttp and of the system, which say more.
    known = [cause for cause in causes if isinstance(cause, aiohttp.ClientError | ConnectionError | TimeoutError)]
    if not known and not isinstance(error, HTTP.HTTPError | UnicodeError):
        return None  # UnicodeError: a redirect names a host that cannot be looked up
    first, reason = (known or causes)[0], _reason(causes[-1])
    was_sent = not isinstance(first, _NOT_SENT)
    if isinstance(first, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        reason = f"the proxy of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY: {reason}"
    elif isinstance(first, aiohttp.ClientConnectorDNSError):  # of the server, or of a proxy
        reason = f"{reason}: {first.host}"
    elif isinstance(first, aiohttp.ConnectionTimeoutError):
        reason = f"no connection within {_CONNECT_S:g} s"
    elif was_sent and any(isinstance(cause, TimeoutError) for cause in (first, causes[-1])):
        return RetryDecision(RetryAction.RETRY, "timeout", "no complete reply in time", may_be_billed=True)
    return RetryDecision(RetryAction.RETRY, "connection", reason, may_be_billed=was_sent)


async def _refuse_errors(response: Any) -> None:
    """Raise ``StatusError`` for a reply that is not 2xx, with the beginning of its body.

    A redirect that keeps the request and has a place is followed, to another server without ``Authorization``. A key
    that has a header of its own would be sent there too: such a request follows none. As 301, 302 and 303 ask for a GET
    request, the server has not seen the body.
    """
    redirects = response.status_code in (301, 302, 303, 307, 308) and "Location" in response.headers
    may_follow = response.status_code in (307, 308) and _OWN_HEADER not in response.request.headers
    if response.is_success or (redirects and may_follow):
        return
    body: Any
    if redirects:
        body = f"it redirects to {shown_url(response.headers['Location'])}; give that address as base_url"
    else:
        body = (await _first_bytes(response, _MOST_OF_AN_ERROR)).decode(errors="replace").strip()
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(body)
    raise StatusError(response.status_code, response.headers, body)


async def _first_bytes(response: Any, most: int) -> bytes:
    """The body, or its first ``most`` bytes. What is left of it is never received: the connection is closed."""
    chunks, remaining = [], most
    async for chunk in response.aiter_bytes():
        chunks.append(chunk[:remaining])
        remaining -= len(chunks[-1])
        if not remaining:
            break
    return b"".join(chunks)


def _reason(cause: BaseException) -> str:
    """Why there is no reply, in the words of the system."""
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(cause, ConnectionResetError | BrokenPipeError | aiohttp.ServerDisconnectedError):
        return "the connection was closed before a reply"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({cause.verify_message}); SSL_CERT_FILE can name trusted certificates"
    if isinstance(cause, socket.gaierror):
        return f"the host name is not known ({cause.strerror or cause})"
    if isinstance(cause, aiohttp.ClientHttpProxyError):
        return f"HTTP {cause.status} {cause.message}".strip()
    if isinstance(cause, http_exceptions.HttpProcessingError | zlib.error):
        return f"the reply cannot be read: {' '.join(getattr(cause, 'message', str(cause)).split())}"[:300]
    return f"{type(cause).__name__}: {cause}"[:300]
