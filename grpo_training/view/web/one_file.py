"""Pages as one HTML file with scripts and styles inside, which opens from disk without requests."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
from collections.abc import Iterable
from importlib.resources import files

from grpo_training.view.web.page import Page
from grpo_training.view.web.rendering import render_alone

_STYLES, _FIRST_SCRIPT, _SCRIPTS = ("theme.css", "base.css"), "theme.js", ("base.js",)
_SHELL = "one_file.js"
_VENDOR = "vendor/"


def in_one_file(pages: Iterable[tuple[Page, str, str]]) -> tuple[str, int]:
    """Pages in one file.

    Args:
        pages: entry in the registry, path and HTML of each; the first is shown first.

    Returns:
        HTML whose script ``one_file.js`` shows the page that the address names, and the number of pages. They are
        compressed one by one.
    """
    stored: list[tuple[str, str]] = []
    scripts, styles = dict.fromkeys((_FIRST_SCRIPT, *_SCRIPTS)), dict.fromkeys(_STYLES)
    for page, path, html in pages:
        packed = gzip.compress(html.encode(errors="replace"), compresslevel=6, mtime=0)
        stored.append((path, base64.b64encode(packed).decode()))
        scripts |= dict.fromkeys(page.scripts)
        styles |= dict.fromkeys(page.styles)
    assets = json.dumps({f"assets/{name}": _text(name) for name in (*styles, *scripts)}, ensure_ascii=False)
    html = render_alone(
        "one_file",
        policy=f"default-src 'none'; script-src {_hashes([_SHELL, *scripts])}; style-src {_hashes(styles)}; "
        "img-src data:; form-action 'none'; base-uri 'none'",
        assets=assets.replace("<", "\\u003c"),
        pages=stored,
        shell=_text(_SHELL),
    )
    return html, len(stored)


@functools.cache
def _text(name: str) -> str:
    """A file of the assets, with the licence of a library."""
    path = files("grpo_training.view") / "assets" / name
    text = path.read_text(encoding="utf-8")
    if name.startswith(_VENDOR):
        licence = files("grpo_training.view") / "assets" / name.rpartition("/")[0] / "LICENSE"
        text = f"/*!\n{licence.read_text(encoding='utf-8').strip()}\n*/\n{text}"
    return text


def _hashes(names: Iterable[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(_text(name).encode()).digest()).decode() for name in names)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
