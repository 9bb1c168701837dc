"""The pages as one file, which needs no server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.errors import InputError, MissingInputError
from engine.records import RolloutGroup
from engine.storage.append_log import write_file
from engine.storage.summaries import GroupSummary
from grpo_training.view.data.record_index import RecordIndex
from grpo_training.view.data.runs import Store
from grpo_training.view.pages.registry import PAGES
from grpo_training.view.web.one_file import in_one_file
from grpo_training.view.web.page import Page, Request
from grpo_training.view.web.rendering import render


def export(store: Store, target: Path, groups: int) -> int:
    """Write all pages.

    Args:
        store: what they show.
        target: a new file.
        groups: how many groups of each run get a page.

    Returns:
        the number of pages.

    Raises:
        InputError: the target exists, its name does not end in ``.html``, or the number is negative.
        MissingInputError: there is nothing to show.
    """
    if groups < 0:
        raise InputError(f"--export-groups must be at least 0, got {groups}")
    if target.exists() or target.suffix.lower() not in (".html", ".htm"):
        fault = "exists" if target.exists() else "is no name of an HTML file"
        raise InputError(f"{target} {fault}", fix="Pass a new name that ends in .html as --export.")
    if not store.runs and not store.libraries:
        raise MissingInputError(
            "Nothing to export",
            why=f"No run or library was found in {', '.join(map(str, store.folders)) or 'the default folders'}.",
            fix="Pass the folder of a run.",
        )
    chosen = {run.id: _chosen(store.index(run).update(), groups) for run in store.runs if run.kind == "generator"}
    html, count = in_one_file(_pages(store, chosen))
    write_file(target, html.encode())
    return count


def _pages(store: Store, chosen: Mapping[str, frozenset[int]]) -> Iterator[tuple[Page, str, str]]:
    """Entry in the registry, path and HTML of each page."""
    for page in PAGES:
        for params in page.all_params(store, Request(live=False, groups=chosen)):
            request = Request(params, live=False, groups=chosen)
            yield page, page.path_of(params), render(page, page.build(store, request), request)


def _chosen(index: RecordIndex[GroupSummary, RolloutGroup], count: int) -> frozenset[int]:
    """Half of the groups by sigma, the others by age, newest first."""
    every = index.all()
    by_sigma = sorted(every, key=lambda group: (-(group.sigma or 0.0), group.line))[: (count + 1) // 2]
    half = frozenset(group.line for group in by_sigma)
    others = [group.line for group in reversed(every) if group.line not in half]
    return half | frozenset(others[: count - len(half)])
