"""The pages as a folder of files that needs no server."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from engine.errors import InputError, MissingInputError
from grpo_training.viewer.pages.registry import PAGES
from grpo_training.viewer.web.page import Request
from grpo_training.viewer.web.rendering import render

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_training.viewer.data.index import RolloutIndex
    from grpo_training.viewer.data.runs import Store


@dataclass(frozen=True)
class Exported:
    """What an export wrote."""

    pages: int


def export(store: Store, folder: Path, groups: int, language: str) -> Exported:
    """Write all pages.

    Args:
        store: what they show.
        folder: is created; it must be empty.
        groups: how many groups of each run get a page.
        language: of the texts.

    Raises:
        InputError: the folder has files, or the number is negative.
        MissingInputError: there is nothing to show.
    """
    if groups < 0:
        raise InputError(f"--export-groups must be at least 0, got {groups}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not an empty folder", fix="Pass a new folder as --export.")
    if not store.runs and not store.libraries:
        raise MissingInputError(
            "Nothing to export",
            why=f"No run or library was found in {', '.join(map(str, store.folders)) or 'the default folders'}.",
            fix="Pass the folder of a run.",
        )
    chosen = {}
    for run in store.runs:
        if run.kind == "generator":
            index = store.index(run)
            index.update()
            chosen[run.id] = _chosen(index, groups)
    count = 0
    for page in PAGES:
        for params in page.instances(store, Request(live=False, groups=chosen)):
            request = Request(params, live=False, groups=chosen)
            html = render(page, page.build(store, request), request, store, language)
            path = folder / page.path_of(params)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(html, encoding="utf-8", errors="replace")
            count += 1
    with as_file(files("grpo_training.viewer") / "assets") as assets:
        shutil.copytree(assets, folder / "assets")
    return Exported(count)


def _chosen(index: RolloutIndex, count: int) -> frozenset[int]:
    """Half of the groups by sigma, the others by age, newest first."""
    found = index.all()
    by_sigma = sorted(found, key=lambda group: (-(group.sigma or 0.0), group.line))[: (count + 1) // 2]
    lines = dict.fromkeys(group.line for group in by_sigma)
    for group in reversed(found):
        if len(lines) >= min(count, len(found)):
            break
        lines[group.line] = None
    return frozenset(lines)
