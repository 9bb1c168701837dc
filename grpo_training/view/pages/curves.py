"""Curves over time as one HTML file that opens from disk. It is no page of the viewer's site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grpo_training.view.pages.training import chart_of
from grpo_training.view.series import Row, thinned
from grpo_training.view.web.one_file import one_file
from grpo_training.view.web.page import CHART_SCRIPTS, CHART_STYLES, Page


def curves_by_second(title: str, note: str, charts: Mapping[str, Sequence[Row]]) -> str:
    """Charts below each other, each with one curve for every key of its rows. One without a number is left out.

    Args:
        title: of the page.
        note: what the values are.
        charts: title of a chart -> its rows in the order of time; ``step`` is the second.
    """
    drawn = {name: chart_of(["*"], thinned(rows), "second") for name, rows in charts.items()}
    return one_file(
        _PAGE, {"title": title, "note": note, "charts": {name: one for name, one in drawn.items() if one}}, {}
    )


_PAGE = Page("curves", "", "curves.html", lambda store, request: {}, scripts=CHART_SCRIPTS, styles=CHART_STYLES)
