"""The pages over HTTP."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from importlib.resources import files
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request as HTTPRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from engine.errors import ScaffoldError
from grpo_training.view.data.file_index import NotFoundError
from grpo_training.view.data.runs import Store
from grpo_training.view.pages.registry import OPERATIONS, PAGES
from grpo_training.view.web import languages
from grpo_training.view.web.page import Operation, Page, Request
from grpo_training.view.web.rendering import Addresses, render, render_alone
from grpo_training.view.web.security import Guard

_READING_S = 0.1
"""How long a request may read files; the page says how far it is, and asks again."""
_MAX_FORM_BYTES = 1 << 20


def application(store: Store, *, token: str | None = None, language: str | None = None) -> Starlette:
    """The server's application.

    Args:
        store: what the pages show.
        token: required of every visitor; None: none.
        language: of all pages; None: what the visitor chose, or the browser asks for.
    """
    site = _Site(store, language)
    pages = [Route(f"/{page.path}", site.page(page)) for page in PAGES]
    operations = [
        Route(f"/operations/{one.name}", site.operation(one), methods=["POST"], name=f"operation {one.name}")
        for one in OPERATIONS
    ]
    assets = Mount("/assets", StaticFiles(directory=str(files("grpo_training.view") / "assets")))
    return Starlette(
        routes=[Route("/", site.page(PAGES[0])), assets, *operations, *pages],
        middleware=[Middleware(Guard, token=token), Middleware(GZipMiddleware, minimum_size=4096, compresslevel=1)],
        exception_handlers={404: site.not_found, ScaffoldError: site.failed},
    )


class _Site:
    def __init__(self, store: Store, language: str | None) -> None:
        self._store, self._language = store, language
        self._csrf = secrets.token_urlsafe(24)

    def page(self, page: Page) -> Callable[[HTTPRequest], Awaitable[Response]]:
        async def answer(request: HTTPRequest) -> Response:
            with self._store.visit():
                return await run_in_threadpool(self._answer, page, request)

        return answer

    def _answer(self, page: Page, request: HTTPRequest) -> Response:
        language = self._language_of(request)
        tag = self._tag(language)
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        wanted = Request(
            params=request.path_params,
            query={name: request.query_params.getlist(name) for name in request.query_params},
            budget_s=_READING_S,
        )
        context = page.build(self._store, wanted)
        tag = self._tag(language)  # building may have read more of a file
        html = render(page, context, wanted, language, self._csrf)
        return HTMLResponse(html, headers={"etag": tag, "cache-control": "no-cache"})

    def operation(self, operation: Operation) -> Callable[[HTTPRequest], Awaitable[Response]]:
        async def answer(request: HTTPRequest) -> Response:
            body = b""
            async for part in request.stream():
                body += part
                if len(body) > _MAX_FORM_BYTES:
                    return Response("The form is too long.", 413)
            fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
            if not secrets.compare_digest(fields.pop("csrf", "").encode(), self._csrf.encode()):
                return Response("The page is from an earlier start of the server. Load it again.", 403)
            name, params = await run_in_threadpool(operation.run, self._store, fields)
            return RedirectResponse("/" + Addresses("").url(name, **params), 303)

        return answer

    async def not_found(self, request: HTTPRequest, error: Exception) -> Response:
        language = self._language_of(request)
        title = languages.text(language, "error.not_found")
        return HTMLResponse(render_alone("error", language, title=title, text=request.url.path), 404)

    async def failed(self, request: HTTPRequest, error: Exception) -> Response:
        language = self._language_of(request)
        key, status = ("error.not_found", 404) if isinstance(error, NotFoundError) else ("error.failed", 409)
        title = languages.text(language, key)
        return HTMLResponse(render_alone("error", language, title=title, text=str(error)), status)

    def _language_of(self, request: HTTPRequest) -> str:
        if self._language is not None:
            return self._language
        chosen = request.cookies.get("language")
        return (
            chosen if chosen in languages.LANGUAGES else languages.preferred(request.headers.get("accept-language", ""))
        )

    def _tag(self, language: str) -> str:
        digest = hashlib.sha256(repr((self._csrf, language, self._store.stamp())).encode())
        return f'"{digest.hexdigest()[:24]}"'
