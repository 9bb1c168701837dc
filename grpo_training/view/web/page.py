"""What a page is: the server and the export both go through the same list of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_training.view.data.runs import Kind, Run, Store

Params = Mapping[str, str]
"""The variable parts of a page's path, by name."""
CHART_SCRIPTS = ("vendor/uPlot-1.6.32/uPlot.iife.min.js", "charts.js")
CHART_STYLES = ("vendor/uPlot-1.6.32/uPlot.min.css", "charts.css")
"""The files in ``view/assets`` of a page with curves."""
GRAPH_SCRIPTS = ("vendor/dagre-3.1.3/dagre.min.js", "graph.js", "group.js")
"""Those of a page with causal graphs."""


@dataclass(frozen=True)
class Request:
    """What a page is built for.

    Args:
        params: the variable parts of the path.
        live: whether a server renders the page, so that it may change.
        budget_s: how long reading files may take; None reads everything.
        groups: the groups that have a page, by run id, as line numbers; None: all of them.
    """

    params: Params = field(default_factory=dict)
    live: bool = True
    budget_s: float | None = None
    groups: Mapping[str, frozenset[int]] | None = None

    def has_group(self, run: Run, line: int) -> bool:
        """Whether the group of this line has a page. An export may leave groups out."""
        return self.groups is None or line in self.groups.get(run.id, ())


@dataclass(frozen=True)
class Page:
    """One kind of page.

    Args:
        name: for ``url(name, ...)`` in templates; its own template is ``view/templates/NAME.html.j2``, which extends
            ``base.html.j2``.
        title: in the navigation and of the window; a template may have a title of its own.
        path: relative to the root, with variable parts in braces: ``{run}/groups/{line}.html``.
        build: returns the template's variables. A page of a run returns it as ``run``, for the navigation. May raise
            NotFoundError.
        instances: the parameters of all pages of this kind, for the export; None: of one for each run of ``kinds``, or
            of one without parameters.
        kinds: the kinds of run that have the page once each; empty for other pages.
        key: the letter of the keyboard shortcut ``g`` + letter. A page with one is in the navigation bar of its runs,
            or in that of the site.
        scripts, styles: files in ``view/assets``, loaded after the ones of every page.
    """

    name: str
    title: str
    path: str
    build: Callable[[Store, Request], dict[str, Any]]
    instances: Callable[[Store, Request], Iterable[Params]] | None = None
    kinds: tuple[Kind, ...] = ()
    key: str = ""
    scripts: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()

    def path_of(self, params: Params) -> str:
        """The path with its variable parts filled in."""
        return self.path.format_map(params)

    def all_params(self, store: Store, request: Request) -> Iterable[Params]:
        """The parameters of all pages of this kind."""
        if self.instances is not None:
            return self.instances(store, request)
        return [{"run": run.id} for run in store.runs if run.kind in self.kinds] if self.kinds else [{}]
