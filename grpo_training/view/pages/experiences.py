"""The experience libraries: a list, a page for each, and the operations of ``python -m grpo_training.experiences``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from engine.errors import InputError
from engine.experience.library import ExperienceLibrary, library_prefix
from engine.records import Operation as LibraryOperation
from grpo_training.view.data.libraries import share_read
from grpo_training.view.data.runs import Run, Store
from grpo_training.view.pages.library_view import Place, change_views, library_view
from grpo_training.view.web.page import Operation, Page, Params, Request

_SAME_MEAN = 1e-9


def build_list(store: Store, request: Request) -> dict[str, Any]:
    """All libraries with their sizes."""
    found = store.library_index.summaries(store.libraries, request.budget_s)
    return {
        "rows": [(library, found.get(library.id)) for library in store.libraries],
        "progress": share_read(found, store.libraries),
        "folders": store.folders,
    }


def build(store: Store, request: Request) -> dict[str, Any]:
    """One library."""
    library = store.library(request.params["library"])
    opened = store.library_index.open(library)
    chosen = [next(iter(request.query.get(name, [])), "") for name in ("from", "to")]
    comparison: dict[str, Any] | None = None
    if all(chosen):
        before, after = map(opened.at_version, chosen)
        comparison = {"from": before.version, "to": after.version, "changes": change_views(before, after)}
    of_role = [run for run in store.runs if run.kind == "generator" and run.name.partition(".")[0] == library.name]
    runs = [run for run in of_role if store.library_of(run) == library]
    return {
        "library": library,
        "state": opened.state,
        "notices": opened.notices,
        "view": library_view(opened.state, opened.history()),
        "comparison": comparison,
        "group_of": _group_finder(store, request, runs),
    }


def _group_finder(store: Store, request: Request, runs: list[Run]) -> Callable[[Place], tuple[str, int] | None]:
    """A function from the place of a group to its run and line; None where it is in no file, or has no page."""
    found: dict[tuple[str, int], list[tuple[str, int, float | None]]] = {}
    for run in runs:
        index = store.index(run).update(request.budget_s)
        for group in index.all():
            if request.has_group(run, group.line):
                found.setdefault((group.problem_id, group.epoch), []).append((run.id, group.line, group.mean))

    def group_of(place: Place) -> tuple[str, int] | None:
        problem, epoch, mean = place
        for run, line, own in found.get((problem, epoch), ()):
            if mean is None or (own is not None and abs(own - mean) < _SAME_MEAN):
                return run, line
        return None

    return group_of


_MARKS = ("pin", "unpin", "forbid", "remove")


def change(store: Store, fields: Mapping[str, str]) -> tuple[str, Params]:
    """Make the change that a form asks for, with the functions and the lock of the command."""
    library = store.library(fields.get("library", ""))
    action, name = fields.get("action", ""), fields.get("id", "")
    library_prefix(library.name)  # refuses the library of another program
    opened = ExperienceLibrary(library.path)
    if action not in _MARKS:
        raise InputError(f"Unknown action {action[:40]!r}", fix=f"Use one of {', '.join(_MARKS)}.")
    opened.edit([LibraryOperation(op=action, id=name)])
    return "library", {"library": library.id}


def _instances(store: Store, request: Request) -> Iterator[Params]:
    for library in store.libraries:
        if not store.library_index.summary(library).error:  # the list says what is wrong with the others
            yield {"library": library.id}


_STYLES = ("library.css",)
LIST = Page("experiences", "Experiences", "experiences.html", build_list, key="e", styles=_STYLES)
PAGE = Page(
    "library", "Library", "libraries/{library}.html", build, _instances, scripts=("library.js",), styles=_STYLES
)
CHANGE = Operation("experiences", change)
