"""All pages, in the order of the navigation."""

from __future__ import annotations

from grpo_training.view.pages import evaluations, experiences, fusions, group, groups, overview, runs, training
from grpo_training.view.web.page import Page

PAGES: tuple[Page, ...] = (
    runs.PAGE,
    overview.PAGE,
    groups.PAGE,
    group.PAGE,
    fusions.PAGE,
    training.PAGE,
    experiences.LIST,
    experiences.PAGE,
    evaluations.LIST,
    evaluations.PAGE,
)
