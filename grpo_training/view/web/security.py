"""Who may see the pages: hosts, a token, and headers of every response."""

from __future__ import annotations

import ipaddress
import secrets

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "scaffold_viewer"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""No inline script or style, nothing from another origin: every text on the pages is a model's."""
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
_STRANGE_NAME = "This server answers to names of this machine only."


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware that refuses strangers and sets the headers.

    Without a token, only names of this machine are accepted in ``Host``, so that a page of another site whose name was
    pointed at this machine (DNS rebinding) sees nothing. With one, the first visit has it in the address; a cookie
    then holds it.

    Args:
        app: the application.
        token: required of every request; None if only this machine can reach the server.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refusal = self._refusal(Request(scope))
        await (self._app if refusal is None else refusal)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        if self._token is None:
            host = request.headers.get("host", "")
            name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
            return None if is_loopback(name.lower().strip("[]")) else PlainTextResponse(_STRANGE_NAME, 421)
        given = request.query_params.get("token")
        if given is not None and secrets.compare_digest(given.encode(), self._token.encode()):
            address = request.url.remove_query_params("token").replace(scheme="", netloc="")
            response = RedirectResponse(str(address), 303)
            response.set_cookie(COOKIE, self._token, httponly=True, samesite="strict")
            return response
        if secrets.compare_digest(request.cookies.get(COOKIE, "").encode(), self._token.encode()):
            return None
        return PlainTextResponse("Open the address that the command printed: it has the token.", 401)
