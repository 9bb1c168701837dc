"""The pages as a folder of files, or as one file, that needs no server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import as_file, files
from pathlib import Path

from engine.errors import InputError, MissingInputError
from engine.records import RolloutGroup
from engine.storage.append_log import replace_file
from engine.storage.folders import replace_folder
from engine.storage.summaries import GroupSummary
from grpo_training.view.data.record_index import RecordIndex
from grpo_training.view.data.runs import Store
from grpo_training.view.pages.registry import PAGES
from grpo_training.view.web.one_file import in_one_file
from grpo_training.view.web.page import Page, Request
from grpo_training.view.web.rendering import AddressesInOneFile, render


def export(store: Store, target: Path, groups: int) -> int:
    """Write all pages.

    Args:
        store: what they show.
        target: a new or empty folder, or a new file whose name ends in ``.html``.
        groups: how many groups of each run get a page.

    Returns:
        the number of pages.

    Raises:
        InputError: the target exists, or the number is negative.
        MissingInputError: there is nothing to show.
    """
    if groups < 0:
        raise InputError(f"--export-groups must be at least 0, got {groups}")
    is_file = target.suffix.lower() in (".html", ".htm")

    def check() -> None:
        if target.exists() and (is_file or not target.is_dir() or any(target.iterdir())):
            raise InputError(f"{target} exists and is not an empty folder", fix="Pass a new name as --export.")

    check()
    if not store.runs and not store.libraries:
        raise MissingInputError(
            "Nothing to export",
            why=f"No run or library was found in {', '.join(map(str, store.folders)) or 'the default folders'}.",
            fix="Pass the folder of a run.",
        )
    chosen = {}
    for run in store.runs:
        if run.kind == "generator":
            index = store.index(run).update()
            chosen[run.id] = _chosen(index, groups)
    pages = _pages(store, chosen, in_one_file=is_file)
    if is_file:
        html, count = in_one_file(pages)
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, html.encode())
        return count
    count = 0

    def write(folder: Path) -> None:
        nonlocal count
        for _, name, html in pages:
            count += 1
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(html, encoding="utf-8", errors="replace")
        with as_file(files("grpo_training.view") / "assets") as assets:
            for source in (path for path in assets.rglob("*") if path.is_file()):
                copied = folder / "assets" / source.relative_to(assets)
                copied.parent.mkdir(parents=True, exist_ok=True)
                copied.write_bytes(source.read_bytes())  # copytree has one error for all files, without a name

    replace_folder(target, write, check)
    return count


def _pages(store: Store, chosen: Mapping[str, frozenset[int]], *, in_one_file: bool) -> Iterator[tuple[Page, str, str]]:
    """Entry in the registry, path and HTML of each page."""
    for page in PAGES:
        for params in page.all_params(store, Request(live=False, groups=chosen)):
            request = Request(params, live=False, groups=chosen)
            path = page.path_of(params)
            addresses = AddressesInOneFile(path) if in_one_file else None
            yield page, path, render(page, page.build(store, request), request, addresses=addresses)


def _chosen(index: RecordIndex[GroupSummary, RolloutGroup], count: int) -> frozenset[int]:
    """Half of the groups by sigma, the others by age, newest first."""
    found = index.all()
    by_sigma = sorted(found, key=lambda group: (-(group.sigma or 0.0), group.line))[: (count + 1) // 2]
    lines = dict.fromkeys(group.line for group in by_sigma)
    for group in reversed(found):
        if len(lines) >= min(count, len(found)):
            break
        lines[group.line] = None
    return frozenset(lines)
