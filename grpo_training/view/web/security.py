"""Who may see the pages: hosts, a token, and headers of every response."""

from __future__ import annotations

import ipaddress
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
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
_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


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

        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._token is None and _name_of(host) not in _OWN_NAMES and not is_loopback(_name_of(host).strip("[]")):
            return PlainTextResponse("This server answers to names of this machine only.", 421)
        return None if self._token is None else self._token_refusal(scope, headers, self._token)

    def _token_refusal(self, scope: Scope, headers: Headers, token: str) -> ASGIApp | None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token")
        if given is not None and secrets.compare_digest(given.encode(), token.encode()):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            response = RedirectResponse(scope["path"] + (f"?{rest}" if rest else ""), 303)
            response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return response
        if secrets.compare_digest(_cookie(headers).encode(), token.encode()):
            return None
        return PlainTextResponse("Open the address that the command printed: it has the token.", 401)


def _name_of(host: str) -> str:
    """A ``Host`` header without its port."""
    return host.lower().rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host.lower()


def _cookie(headers: Headers) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookie[COOKIE].value if COOKIE in cookie else ""
