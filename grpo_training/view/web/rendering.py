"""Pages as HTML. Every text is a model's or a user's: it is escaped, and loses its control characters."""

from __future__ import annotations

import json
import posixpath
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from engine.reading.model_text import without_control_characters
from grpo_training.view.pages.registry import PAGES
from grpo_training.view.web import formats
from grpo_training.view.web.page import Page, Request


def _clean(value: Any) -> Any:
    return without_control_characters(value) if type(value) is str else value


_TEMPLATES = Environment(
    loader=PackageLoader("grpo_training.view"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_clean,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters.update(formats.FILTERS)
_TEMPLATES.globals.update(formats.FILTERS)

_BY_NAME = {page.name: page for page in PAGES}


def json_script(name: str, value: Any) -> Markup:
    """A value for scripts, as ``<script type="application/json" id=NAME>``, which the browser does not execute.

    The scripts read it with ``viewer.data(NAME)``. It is replaced when a live page is refreshed.
    """
    text = json.dumps(cleaned(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(character, escape)
    return Markup('<script type="application/json" id="{}" data-live>').format(name) + Markup(text + "</script>")  # noqa: S704


def cleaned(value: Any) -> Any:
    """A JSON value whose texts have no control characters; numbers that are not finite become null."""
    if isinstance(value, str):
        return without_control_characters(value)
    if isinstance(value, dict):
        return {without_control_characters(str(key)): cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]
    if isinstance(value, float) and not float("-inf") < value < float("inf"):
        return None
    return value


def render(page: Page, context: dict[str, Any], request: Request, *, alone: bool = False) -> str:
    """A page as HTML. On a server its addresses are relative; in one file a page's path stands behind ``#page=``.

    Args:
        page: its entry in the registry.
        context: what its ``build`` returned.
        request: what it was built for.
        alone: without links to other pages.
    """
    folder = posixpath.dirname(page.path_of(request.params)) or "."
    run = context.get("run")

    def url(name: str, **params: object) -> str:
        """The address of a page by its name."""
        path = _BY_NAME[name].path_of({key: str(value) for key, value in params.items()})
        return posixpath.relpath(path, folder) if request.live else f"#page={quote(path, safe='/~')}"

    def asset(name: str) -> str:
        """The address of a file in ``view/assets``; in one file its name, see ``assets/one_file.js``."""
        return posixpath.relpath(f"assets/{name}", folder) if request.live else f"assets/{name}"

    return _TEMPLATES.get_template(f"{page.name}.html.j2").render(
        **{"run": None, "library": None, **context},
        page=page,
        live=request.live,
        alone=alone,
        site_pages=[other for other in PAGES if other.key and not other.kinds and not alone],
        run_pages=[other for other in PAGES if run is not None and run.kind in other.kinds],
        url=url,
        asset=asset,
        json_script=json_script,
    )


def render_alone(name: str, **values: Any) -> str:
    """A template that is no page of the registry.

    Args:
        name: ``one_file``, which has all pages of an export and does not escape the values, or ``error``, which says
            what is wrong, for addresses at the root.
        values: of the template.
    """
    return _TEMPLATES.get_template(f"{name}.html.j2").render(**values)
