"""The texts of the pages in each language: one JSON file per language in ``viewer/languages``."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib.resources import files

LANGUAGES = ("en", "zh")


@functools.cache
def catalogue(language: str) -> Mapping[str, str]:
    """Key -> text of one of :data:`LANGUAGES`."""
    path = files("grpo_training.view") / "languages" / f"{language}.json"
    texts: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return texts


def text(language: str, key: str, **values: object) -> str:
    """A text with its values filled in.

    Raises:
        KeyError: the catalogue has no such key.
    """
    return catalogue(language)[key].format(**values)


def preferred(header: str) -> str:
    """The language that an ``Accept-Language`` header asks for first, of those that there are; else English."""
    wanted: list[tuple[float, str]] = []
    for part in header.split(",")[:20]:
        name, _, quality = part.strip().partition(";q=")
        try:
            wanted.append((-float(quality or 1), name.lower()[:2]))
        except ValueError:
            continue
    return next((name for _, name in sorted(wanted, key=lambda one: one[0]) if name in LANGUAGES), "en")
