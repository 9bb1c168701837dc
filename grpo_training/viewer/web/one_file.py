"""A page as one HTML file with its scripts and styles inside, which opens from disk and makes no request."""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from grpo_training.viewer.data.runs import Store
from grpo_training.viewer.web.page import Request
from grpo_training.viewer.web.rendering import Addresses, render

if TYPE_CHECKING:
    from grpo_training.viewer.web.page import Page, Params

_STYLES, _FIRST_SCRIPT, _SCRIPTS = ("base.css",), "theme.js", ("base.js",)
_END = "</body>"
_VENDOR = "vendor/"


def one_file(page: Page, context: dict[str, Any], params: Params, language: str = "en") -> str:
    """A page without links to others.

    Args:
        page: its entry in the registry.
        context: what its template needs.
        params: the variable parts of its path.
        language: of its texts.

    Returns:
        HTML whose content security policy allows the scripts and styles in it, by their hashes, and nothing else.
    """
    html = render(page, context, Request(params, live=False), Store([]), language, alone=True)
    address = Addresses(page.path_of(params)).asset
    styles = [*_STYLES, *page.styles]
    for name in styles:
        html = _replaced(html, f'<link rel="stylesheet" href="{address(name)}">', f"<style>{_text(name)}</style>")
    html = _replaced(
        html, f'<script src="{address(_FIRST_SCRIPT)}"></script>', f"<script>{_text(_FIRST_SCRIPT)}</script>"
    )
    scripts = [*_SCRIPTS, *page.scripts]
    for name in scripts:
        html = _replaced(html, f'<script src="{address(name)}" defer></script>', "")
    inline = "".join(f"<script>{_text(name)}</script>" for name in scripts)  # where deferred ones run: at the end
    head, end, rest = html.rpartition(_END)
    html = f"{head}{inline}{end}{rest}"
    policy = (
        f"default-src 'none'; script-src {_hashes([_FIRST_SCRIPT, *scripts])}; style-src {_hashes(styles)}; "
        "img-src data:; form-action 'none'; base-uri 'none'"
    )
    before, old, after = html.partition('<meta http-equiv="Content-Security-Policy"')
    return f'{before}{old} content="{policy}">{after.partition(">")[2]}'


@functools.cache
def _text(name: str) -> str:
    """A file of the assets, with the licence of a library; it must not end the element that it is put into."""
    path = files("grpo_training.viewer") / "assets" / name
    text = path.read_text(encoding="utf-8")
    if name.startswith(_VENDOR):
        licence = files("grpo_training.viewer") / "assets" / name.rpartition("/")[0] / "LICENSE"
        text = f"/*!\n{licence.read_text(encoding='utf-8').strip()}\n*/\n{text}"
    if "</script" in text or "</style" in text or "<!--" in text:
        raise ValueError(f"{name} cannot be part of a page")
    return text


def _hashes(names: list[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(_text(name).encode()).digest()).decode() for name in names)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def _replaced(html: str, old: str, new: str) -> str:
    if html.count(old) != 1:
        raise ValueError(f"{old} is {html.count(old)} times on the page")
    return html.replace(old, new)
