"""The pages over HTTP."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from importlib.resources import files

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
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
from grpo_training.view.web.security import Guard

_READING_S = 0.4
"""How long a request may read files; the page says how far it is, and asks again."""
_NOT_FOUND = "Not found"


def application(store: Store, *, token: str | None = None) -> Starlette:
    """The server's application.

    Args:
        store: what the pages show.
        token: required of every visitor; None: none.
    """
    site = _Site(store)
    pages = [Route(f"/{page.path}", site.page(page)) for page in PAGES]
    assets = Mount("/assets", StaticFiles(directory=str(files("grpo_training.view") / "assets")))
    return Starlette(
        routes=[Route("/", site.page(PAGES[0])), assets, *pages],
        middleware=[Middleware(Guard, token=token), Middleware(GZipMiddleware, minimum_size=4096, compresslevel=1)],
        exception_handlers={404: site.not_found, ScaffoldError: site.failed},
    )


class _Site:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._start = secrets.token_hex(4)

    def page(self, page: Page) -> Callable[[HTTPRequest], Awaitable[Response]]:
        async def answer(request: HTTPRequest) -> Response:
            return await run_in_threadpool(self._answer, page, request)

        return answer

    def _answer(self, page: Page, request: HTTPRequest) -> Response:
        tag = self._tag()
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        wanted = Request(
            params=request.path_params,
            budget_s=_READING_S,
        )
        context = page.build(self._store, wanted)
        tag = self._tag()  # building may have read more of a file
        html = render(page, context, wanted)
        return HTMLResponse(html, headers={"etag": tag, "cache-control": "no-cache"})

    async def not_found(self, request: HTTPRequest, error: Exception) -> Response:
        return HTMLResponse(render_alone("error", title=_NOT_FOUND, text=request.url.path), 404)

    async def failed(self, request: HTTPRequest, error: Exception) -> Response:
        title, status = (_NOT_FOUND, 404) if isinstance(error, NotFoundError) else ("This did not work", 409)
        return HTMLResponse(render_alone("error", title=title, text=str(error)), status)

    def _tag(self) -> str:
        digest = hashlib.sha256(repr((self._start, self._store.stamp())).encode())
        return f'"{digest.hexdigest()[:24]}"'
