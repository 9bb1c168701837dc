"""The footer of a running command: lines that are redrawn below the permanent ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console, ConsoleRenderable, Group
from rich.constrain import Constrain
from rich.control import Control
from rich.live import Live
from rich.segment import ControlCode, ControlType
from rich.text import Text

COLUMNS = 58
"""Of the footer. A terminal of 80 columns that is narrowed to 60 wraps none of its lines."""


class Footer(Live):
    """Draws lines below what is printed on a console, four times a second, and removes them at the end.

    A terminal that becomes narrower than a line wraps it. The further rows are erased too; ``Live`` does not know them.

    Args:
        console: that of the permanent lines.
        lines: returns the lines.
    """

    def __init__(self, console: Console, lines: Callable[[], Sequence[Text]]) -> None:
        self._lines = lines
        self._newest: list[int] = []  # columns of the newest lines, and of those on the screen
        self._drawn: list[int] = []
        super().__init__(console=console, get_renderable=self._group, refresh_per_second=4, transient=True)

    def _group(self) -> Constrain:
        lines = self._lines()
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        self._newest = [line.cell_len for line in lines]
        return Constrain(Group(*lines), COLUMNS)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Erase the rows of lines that the terminal has wrapped, then as ``Live``."""
        width = self.console.width
        further = sum((cells - 1) // width for cells in self._drawn if cells)
        self._drawn = [min(cells, COLUMNS, width) for cells in self._newest]
        codes: list[ControlCode] = [(ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)] * further
        return [Control(*codes), *super().process_renderables(renderables)]
