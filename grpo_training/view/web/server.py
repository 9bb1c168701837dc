"""The pages over HTTP."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from importlib.resources import files

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request as HTTPRequest
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from engine.errors import ScaffoldError
from grpo_training.view.data.record_index import NotFoundError
from grpo_training.view.data.runs import Store
from grpo_training.view.pages.registry import PAGES
from grpo_training.view.web.page import Page, Request
from grpo_training.view.web.rendering import render, render_alone

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
_READING_S = 0.3
"""How long a request may read files; the page says how far it is, and asks again."""

_COMPRESSED = Middleware(GZipMiddleware, minimum_size=4096, compresslevel=1)
_HOSTS = ["localhost", "127.0.0.1"]
"""A page of another site whose name was pointed at this machine (DNS rebinding) sees nothing."""


def application(store: Store) -> Starlette:
    """The server's application; ``store`` is what the pages show."""
    start = secrets.token_hex(4)

    def tag() -> str:
        return f'"{hashlib.sha256(repr((start, store.stamp())).encode()).hexdigest()[:24]}"'

    def endpoint(page: Page) -> Callable[[HTTPRequest], Response]:
        def answer(request: HTTPRequest) -> Response:
            if request.headers.get("if-none-match") == tag():
                return Response(status_code=304, headers={"etag": tag()})
            wanted = Request(request.path_params, budget_s=_READING_S)
            html = render(page, page.build(store, wanted), wanted)
            return HTMLResponse(html, headers={"etag": tag(), "cache-control": "no-cache"})

        return answer

    pages = [Route(f"/{page.path}", endpoint(page)) for page in PAGES]
    assets = Mount("/assets", StaticFiles(directory=str(files("grpo_training.view") / "assets")))
    headers, hosts = Middleware(BaseHTTPMiddleware, _with_headers), Middleware(TrustedHostMiddleware, _HOSTS)
    return Starlette(
        routes=[Route("/", endpoint(PAGES[0])), assets, *pages],
        middleware=[headers, hosts, _COMPRESSED],
        exception_handlers={404: _not_found, ScaffoldError: _failed},
    )


async def _with_headers(request: HTTPRequest, answer: RequestResponseEndpoint) -> Response:
    response = await answer(request)
    response.headers.update(_HEADERS)
    return response


def _not_found(request: HTTPRequest, error: Exception) -> Response:
    return HTMLResponse(render_alone("error", title="Not found", text=request.url.path), 404)


def _failed(request: HTTPRequest, error: Exception) -> Response:
    title, status = ("Not found", 404) if isinstance(error, NotFoundError) else ("This did not work", 409)
    return HTMLResponse(render_alone("error", title=title, text=str(error)), status)
