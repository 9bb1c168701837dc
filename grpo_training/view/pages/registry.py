"""All pages and operations, in the order of the navigation."""

from __future__ import annotations

from grpo_training.view.pages import (
    evaluations,
    experiences,
    fusions,
    group,
    groups,
    overview,
    runs,
    training,
)
from grpo_training.view.web.page import Operation, Page

PAGES: tuple[Page, ...] = (
    runs.PAGE,
    overview.PAGE,
    groups.PAGE,
    group.PAGE,
    fusions.LIST,
    fusions.PAGE,
    training.PAGE,
    experiences.LIST,
    experiences.PAGE,
    evaluations.LIST,
    evaluations.PAGE,
)

OPERATIONS: tuple[Operation, ...] = (experiences.CHANGE,)
