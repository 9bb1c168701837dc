"""HTTP requests to one endpoint through the OpenAI SDK.

No other module imports the SDK. Importing it takes half a second, so the client imports this module, with the
connections, when it opens its first connection.
"""

from __future__ import annotations

import importlib
import socket
from typing import Any

import aiohttp
import openai

from engine.api_manager import Endpoint
from engine.llm.retry import RequestContext, RetryAction, RetryDecision, classify_status

# Version 3 of the SDK sends with httpx2, version 2 with httpx.
httpx: Any = importlib.import_module("httpx" if openai.__version__.startswith("2.") else "httpx2")

_CONNECT_S = 10.0
# Servers commonly close idle connections after 5 s; a request on a connection that is being closed fails.
_KEEPALIVE_S = 4.0


class Transport:
    """Connections to one endpoint: the SDK on its aiohttp transport, without its own retries.

    Args:
        endpoint: gives the address, the key and the timeout.
        concurrency: the largest number of requests in flight.
    """

    def __init__(self, endpoint: Endpoint, concurrency: int) -> None:
        # The caller limits the whole time of a request.
        timeout = httpx.Timeout(None, connect=_CONNECT_S)
        # Without a limit the transport allows 100 connections. The limit exceeds the concurrency, so that requests
        # never wait for a pooled connection, which would count towards their timeout.
        limits = httpx.Limits(max_connections=concurrency + 16, keepalive_expiry=_KEEPALIVE_S)
        self._sdk = openai.AsyncOpenAI(
            api_key=endpoint.api_key.get_secret_value(),
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAioHttpClient(limits=limits, timeout=timeout),
        )
        # Absolute: the SDK would parse and join a relative address for every request.
        self._url = endpoint.chat_url

    async def post(self, body: dict[str, Any], headers: dict[str, str], url: str | None = None) -> bytes:
        """Send one request and return the raw body of the reply. Raises the SDK's exceptions.

        The body is not parsed by the SDK: building its typed objects doubles the CPU time of a request.

        Args:
            body: the body, as JSON values.
            headers: further headers.
            url: an address other than that of chat completions.
        """
        response = await self._sdk.post(
            url or self._url, cast_to=httpx.Response, body=body, options={"headers": headers}
        )
        content: bytes = response.content
        return content

    async def close(self) -> None:
        """Close the HTTP connections."""
        await self._sdk.close()


def classify_exception(error: Exception, context: RequestContext) -> RetryDecision | None:
    """Classify an exception of the SDK or its transport. None for unrelated exceptions; the caller re-raises."""
    if isinstance(error, openai.APIStatusError):
        return classify_status(error.status_code, error.response.headers, error.body, context)
    if isinstance(error, TimeoutError):
        return RetryDecision(RetryAction.RETRY, "timeout", "no complete reply in time", may_be_billed=True)
    if isinstance(error, openai.APIConnectionError | aiohttp.ClientError | ConnectionError):
        # The transport reports resets and refused connections as timeouts; the innermost cause distinguishes them.
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, aiohttp.ConnectionTimeoutError):
            return RetryDecision(RetryAction.RETRY, "connection", f"no connection within {_CONNECT_S:g} s")
        if isinstance(cause, TimeoutError):
            return RetryDecision(RetryAction.RETRY, "timeout", "no complete reply in time", may_be_billed=True)
        was_sent = not isinstance(cause, ConnectionRefusedError | socket.gaierror | aiohttp.ClientConnectorError)
        return RetryDecision(RetryAction.RETRY, "connection", _connection_message(cause), may_be_billed=was_sent)
    return None


def _connection_message(cause: BaseException) -> str:
    """Why there is no connection, in the words of the system."""
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(cause, ConnectionResetError | BrokenPipeError | aiohttp.ServerDisconnectedError):
        return "the connection was closed before a reply"
    if isinstance(cause, socket.gaierror):
        return f"the host name is not known ({cause.strerror or cause})"
    return f"{type(cause).__name__}: {cause}"[:300]
