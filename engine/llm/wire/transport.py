"""HTTP requests to one endpoint.

No other module of the client sends requests. Importing aiohttp takes as long as reading a configuration and a dataset,
so the client imports this module, with the connections, when it opens its first connection.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import truststore
from aiohttp import http_exceptions

from engine.api_manager import Endpoint
from engine.errors import ConfigurationError
from engine.llm.retry import RequestContext, RetryAction, RetryDecision, classify_status
from engine.reading.masking import shown_url

_CONNECT_S = 10.0
# Servers commonly close idle connections after 5 s; a request on a connection that is being closed fails.
_KEEPALIVE_S = 4.0
_MOST_PER_SAMPLE, _MOST_IN_ALL = 32 << 20, 512 << 20
"""Bytes of a reply. A token with its log-prob and id takes about 120: 280,000 tokens for one sample, of 64 samples
70,000 each."""
_MOST_OF_AN_ERROR = 1 << 20
_ACCOUNT_HEADERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
"""Header -> environment variable, as OpenAI defines them for keys of several organisations or projects."""


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

    Proxies are taken from the environment (``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY``, ``NO_PROXY``). Trusted
    certificates are those of the system, or those that ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` name.

    Args:
        endpoint: gives the address and the key.
        concurrency: the largest number of requests in flight.

    Raises:
        ConfigurationError: the proxy in the environment is not an HTTP proxy.
    """

    def __init__(self, endpoint: Endpoint, concurrency: int) -> None:
        self._url = endpoint.chat_url
        account = {
            name: os.environ[variable] for name, variable in _ACCOUNT_HEADERS.items() if os.environ.get(variable)
        }
        self._session = aiohttp.ClientSession(
            # The limit exceeds the concurrency: a request never waits for a connection.
            connector=aiohttp.TCPConnector(
                limit=concurrency + 16, keepalive_timeout=_KEEPALIVE_S, ssl=_certificates(endpoint.base_url)
            ),
            # The caller limits the whole time of a request.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            headers={
                "Accept": "application/json",
                "Authorization": f"Bearer {endpoint.api_key.get_secret_value()}",
                "Content-Type": "application/json",
                "User-Agent": "scaffold-grpo",
                **account,
            },
            proxy=_proxy_of(endpoint.base_url),
        )

    async def post(self, body: dict[str, Any], headers: dict[str, str], url: str | None = None) -> bytes:
        """Send one request and return the raw body of the reply.

        Args:
            body: the body, as JSON values.
            headers: further headers.
            url: an address other than that of chat completions.

        Raises:
            StatusError: the status is not 2xx.
            BodyTooLargeError: the body has more than 32 MiB for each of ``n`` samples, or more than 512 MiB.
            aiohttp.ClientError, OSError: there is no complete reply.
        """
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        async with self._session.post(url or self._url, data=data, headers=headers) as response:
            if response.method != "POST":  # as 301, 302 and 303 ask for; the server has not seen the body
                first = response.history[0]
                moved = f"it redirects to {shown_url(first.headers.get('Location', ''))}; give that address as base_url"
                raise StatusError(first.status, first.headers, moved)
            if not 200 <= response.status < 300:
                text = (await _first_bytes(response, _MOST_OF_AN_ERROR)).decode(errors="replace")
                raise StatusError(response.status, response.headers, _json_or_text(text))
            most = _most_bytes(body)
            content = await _first_bytes(response, most + 1)
            if len(content) > most:
                raise BodyTooLargeError(f"it has more than {most >> 20} MiB and was not read to its end")
            return content

    async def close(self) -> None:
        """Close the HTTP connections."""
        await self._session.close()


def classify_exception(error: Exception, context: RequestContext) -> RetryDecision | None:
    """Classify an exception of :meth:`Transport.post`. None for unrelated exceptions; the caller re-raises."""
    if isinstance(error, StatusError):
        return classify_status(error.status, error.headers, error.body, context)
    if isinstance(error, BodyTooLargeError):
        return RetryDecision(RetryAction.RETRY, "too_long", str(error), may_be_billed=True)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return RetryDecision(RetryAction.RETRY, "connection", f"no connection within {_CONNECT_S:g} s")
    if not isinstance(error, aiohttp.ClientError | ConnectionError | TimeoutError):
        return None
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    was_sent = not isinstance(error, aiohttp.ClientConnectorError | ConnectionRefusedError)
    if was_sent and (isinstance(error, TimeoutError) or isinstance(cause, TimeoutError)):
        return RetryDecision(RetryAction.RETRY, "timeout", "no complete reply in time", may_be_billed=True)
    return RetryDecision(RetryAction.RETRY, "connection", _connection_message(cause), may_be_billed=was_sent)


def _most_bytes(body: Mapping[str, Any]) -> int:
    """The largest reply to a request that is read."""
    samples = body.get("n")
    return min(_MOST_PER_SAMPLE * (samples if isinstance(samples, int) and samples > 0 else 1), _MOST_IN_ALL)


async def _first_bytes(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body, or its first ``most`` bytes. What is left of it is never received: the connection is closed."""
    parts, left = [], most
    async for part in response.content.iter_any():
        parts.append(part[:left])
        left -= len(parts[-1])
        if not left:
            break
    return b"".join(parts)


def _connection_message(cause: BaseException) -> str:
    """Why there is no connection, in the words of the system."""
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(cause, ConnectionResetError | BrokenPipeError | aiohttp.ServerDisconnectedError):
        return "the connection was closed before a reply"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({cause.verify_message}); SSL_CERT_FILE can name trusted certificates"
    if isinstance(cause, socket.gaierror):
        return f"the host name is not known ({cause.strerror or cause})"
    if isinstance(cause, http_exceptions.HttpProcessingError):
        return f"the reply cannot be read: {' '.join(cause.message.split())}"[:300]
    return f"{type(cause).__name__}: {cause}"[:300]


def _json_or_text(text: str) -> object:
    """The value of a JSON text; the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()


def _proxy_of(url: str) -> str | None:
    """The HTTP proxy that the environment names for an address."""
    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy and "://" not in proxy:
        return f"http://{proxy}"
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise ConfigurationError(
            f"A proxy of the kind {urlsplit(proxy).scheme!r} cannot be used",
            why=f"The environment names it for {parts.scheme} (HTTP_PROXY, HTTPS_PROXY or ALL_PROXY).",
            fix=f"Name an HTTP proxy, or add {parts.hostname} to NO_PROXY.",
        )
    return proxy


def _certificates(url: str) -> ssl.SSLContext | bool:
    """The trusted certificates for an address: Python alone does not find those of every system."""
    if urlsplit(url).scheme != "https":
        return True
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context()
    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
