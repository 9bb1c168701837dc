"""Charts as one SVG file that needs nothing else: styles inside, no script."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from grpo_training.view.charts import BOTTOM, COLORS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart, draw
from grpo_training.view.series import Row

_TEMPLATES = Environment(
    loader=PackageLoader("grpo_training.view"), autoescape=True, undefined=StrictUndefined, trim_blocks=False
)
_SIZE = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}
_HEAD, _LEGEND_LINE, _GAP, _PER_LINE = 44, 16, 18, 4


def picture(title: str, charts: Sequence[tuple[Chart, Sequence[Row]]]) -> str:
    """Charts below each other, each with its title, note and legend. A chart without any value is left out.

    Args:
        title: of the picture.
        charts: each chart with its rows.
    """
    placed, top = [], 30.0
    for chart, rows in charts:
        drawing = draw(chart, rows)
        if drawing is None:
            continue
        placed.append((top, drawing))
        top += _HEAD + HEIGHT + _LEGEND_LINE * -(-len(drawing.series) // _PER_LINE) + _GAP
    return _TEMPLATES.get_template("picture.svg.j2").render(
        title=title,
        placed=placed,
        width=WIDTH,
        height=top,
        size=_SIZE,
        head=_HEAD,
        legend_line=_LEGEND_LINE,
        per_line=_PER_LINE,
        colors=COLORS,
    )
