"""The experience libraries: a list, and a page for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from grpo_training.view.data.runs import Run, Store
from grpo_training.view.pages.library_view import Place, library_view
from grpo_training.view.web.page import Page, Params, Request

_SAME_MEAN = 1e-9


def build_list(store: Store, request: Request) -> dict[str, Any]:
    """All libraries with their sizes."""
    return {"rows": [(library, library.summary()) for library in store.libraries]}


def build(store: Store, request: Request) -> dict[str, Any]:
    """One library."""
    library = store.library(request.params["library"])
    opened = library.open()
    runs = [run for run in store.runs if run.kind == "generator" and store.library_of(run) == library]
    return {
        "library": library,
        "state": opened.state,
        "notices": opened.notices,
        "view": library_view(opened.state, opened.history()),
        "group_of": _group_finder(store, request, runs),
    }


def _group_finder(store: Store, request: Request, runs: list[Run]) -> Callable[[Place], tuple[str, int] | None]:
    """A function from the place of a group to its run and line; None where it is in no file, or has no page."""
    groups: dict[tuple[str, int], list[tuple[str, int, float | None]]] = {}
    for run in runs:
        for group in store.index(run).update(request.budget_s).all():
            if request.has_group(run, group.line):
                groups.setdefault((group.problem_id, group.epoch), []).append((run.id, group.line, group.mean))

    def group_of(place: Place) -> tuple[str, int] | None:
        problem, epoch, mean = place
        for run, line, group_mean in groups.get((problem, epoch), ()):
            if mean is None or (group_mean is not None and abs(group_mean - mean) < _SAME_MEAN):
                return run, line
        return None

    return group_of


def _instances(store: Store, request: Request) -> Iterator[Params]:
    for library in store.libraries:
        if not library.summary()["error"]:  # the list says what is wrong with the others
            yield {"library": library.id}


_STYLES = ("library.css",)
LIST = Page("experiences", "Experiences", "experiences.html", build_list, key="e", styles=_STYLES)
PAGE = Page("library", "Library", "libraries/{library}.html", build, _instances, styles=_STYLES)
