"""Requests to one endpoint, sent by the OpenAI SDK.

No other module of the client sends requests. Importing the SDK takes longer than reading a configuration and a dataset,
so the client imports this module, with the connections, when it opens its first connection.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import zlib
from collections.abc import Awaitable, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import aiohttp
from aiohttp import http_exceptions
from openai import (
    DEFAULT_CONNECTION_LIMITS,
    APIConnectionError,
    AsyncOpenAI,
    AsyncStream,
    DefaultAioHttpClient,
    Timeout,
    omit,
)

from engine.api_manager import Endpoint
from engine.llm.requests import format_of
from engine.llm.retry import RequestContext, RetryAction, RetryDecision, classify_status
from engine.reading.masking import shown_url
from engine.storage.certificates import trusted_certificates

HTTP: Any = import_module(type(DEFAULT_CONNECTION_LIMITS).__module__.partition(".")[0])
"""The HTTP package of the installed SDK: ``httpx`` of version 2, ``httpx2`` of version 3."""

_HEADERS: Any = {"User-Agent": "scaffold-grpo"} | {
    f"X-Stainless-{name}": omit
    for name in ("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async")
}
"""Without those with which the SDK describes the machine, which cost a tenth of a request's processor time."""

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

    The SDK takes proxies, organisation and project from the environment. Trusted certificates are those of the system,
    or those that ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` name.

    Args:
        endpoint: gives the address, the API and the key.
        concurrency: the largest number of requests in flight.
    """

    def __init__(self, endpoint: Endpoint, concurrency: int) -> None:
        parts = urlsplit(endpoint.base_url)
        timeout = Timeout(None, connect=_CONNECT_S)  # the caller limits the whole time of a request
        self._format, key = format_of(endpoint), endpoint.api_key.get_secret_value()
        self._of_key: Any = {"Authorization": omit, **self._format.headers(key)} if self._format.headers else {}
        self._client = AsyncOpenAI(
            api_key=key,
            base_url=urlunsplit(parts._replace(query="", fragment="")),
            default_query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            default_headers=_HEADERS,
            max_retries=0,
            timeout=timeout,
            http_client=DefaultAioHttpClient(
                # The limit exceeds the concurrency: a request never waits for a connection.
                limits=HTTP.Limits(max_connections=concurrency + 16, keepalive_expiry=_KEEPALIVE_S),
                timeout=timeout,
                verify=trusted_certificates(endpoint.base_url),
                event_hooks={"response": [_refuse_errors]},
                # No cookies: one with a name that no header may have would fail every later request.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            ),
        )
        self._base = str(self._client.base_url).rstrip("/")
        self._mask = endpoint.mask

    async def post(self, body: dict[str, Any], headers: dict[str, str]) -> bytes:
        """Send one request and return the body of the reply, without keys that the server repeats.

        Args:
            body: the body, as JSON values.
            headers: further headers.

        Raises:
            StatusError: the status is not 2xx.
            BodyTooLargeError: the body has more than 32 MiB for each of ``n`` samples, or more than 512 MiB.
            openai.APIConnectionError, aiohttp.ClientError, OSError: there is no complete reply.
        """
        samples = body.get("n")
        most = _MOST_PER_SAMPLE * (samples if isinstance(samples, int) and samples > 0 else 1)
        # Not the SDK's typed methods: their check of messages takes as long as the rest of a request.
        sending = self._client.post(
            f"{self._base}{self._format.path}",  # a whole address: a relative one costs a tenth more
            cast_to=object,
            body=body,
            options={"headers": self._of_key | headers},
            stream=True,
            stream_cls=AsyncStream[object],
        )
        return await self._content(sending, min(most, _MOST_IN_ALL))

    async def call(self, path: str, body: dict[str, Any] | None = None, file: bytes | None = None) -> bytes:
        """Use another part of the API, such as that of files, and return the body of the reply, as :meth:`post`.

        Args:
            path: below the base URL.
            body: fields of a POST request; None: a GET request.
            file: is sent with the fields, as a form.

        Raises:
            As :meth:`post`; the largest body has 2 GiB.
        """
        url, kind = f"{self._base}/{path}", AsyncStream[object]
        if body is None:
            sending = self._client.get(url, cast_to=object, stream=True, stream_cls=kind)
        else:
            options: Any = {"body": body}
            if file is not None:
                options["files"] = [("file", ("requests.jsonl", file))]
                options["options"] = {"headers": {"Content-Type": "multipart/form-data"}}
            sending = self._client.post(url, cast_to=object, stream=True, stream_cls=kind, **options)
        return await self._content(sending, _MOST_OF_A_FILE)

    async def _content(self, sending: Awaitable[AsyncStream[object]], most: int) -> bytes:
        """The body of a reply of at most so many bytes; raises as :meth:`post`."""
        try:
            async with await sending as stream:
                content = await _first_bytes(stream.response, most + 1)
        except APIConnectionError as error:
            if isinstance(error.__cause__, StatusError):  # version 2 of the SDK wraps what its event hooks raise
                raise error.__cause__ from None
            raise
        if len(content) > most:
            raise BodyTooLargeError(f"it has more than {most >> 20} MiB and was not read to its end")
        return self._mask.reply(content)

    async def close(self) -> None:
        """Close the HTTP connections."""
        await self._client.close()


def classify_exception(error: Exception, context: RequestContext) -> RetryDecision | None:
    """Classify an exception of :meth:`Transport.post`. None for unrelated exceptions; the caller re-raises."""
    if isinstance(error, StatusError):
        return classify_status(error.status, error.headers, error.body, context)
    if isinstance(error, BodyTooLargeError):
        return RetryDecision(RetryAction.RETRY, "too_long", str(error), may_be_billed=True)
    causes: list[BaseException] = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    # The SDK and its HTTP client wrap the errors of aiohttp and of the system, which say more.
    known = [cause for cause in causes if isinstance(cause, aiohttp.ClientError | ConnectionError | TimeoutError)]
    if not known and not isinstance(error, (APIConnectionError, HTTP.HTTPError, UnicodeError)):
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
    parts, left = [], most
    async for part in response.aiter_bytes():
        parts.append(part[:left])
        left -= len(parts[-1])
        if not left:
            break
    return b"".join(parts)


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
