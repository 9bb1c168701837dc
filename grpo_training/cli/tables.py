"""Tables and lines on stdout, which a terminal shows in colours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from grpo_training.cli.terminal_text import harmless


class View:
    """Writes text that may come from a model: control characters are escaped first.

    Args:
        stream: where to write; a terminal gets colours.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        """Whether people read the output as it is."""

    def json(self, value: Any, indent: int | None = 2) -> None:
        """Write a value as JSON, in ASCII: what a terminal could obey stays escaped."""
        self._stream.write(json.dumps(value, indent=indent, default=str) + "\n")

    def text(self, text: str, indent: str = "") -> None:
        """Write a text of several lines."""
        for line in text.expandtabs(4).split("\n"):
            self.line(indent + line)

    def line(self, text: str, style: str = "", *, is_cut: bool = False) -> None:
        """Write a line. A terminal gets it with the style, and if ``is_cut`` not more than its width."""
        if not self.is_terminal:
            self._stream.write(harmless(text, keep="\n") + "\n")
            return
        console, shown = Console(file=self._stream), Text(harmless(text), style=style)
        if is_cut:
            shown.truncate(console.width, overflow="ellipsis")
        console.print(shown, no_wrap=is_cut, highlight=False)

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, is_cut: bool = False) -> None:
        """Write a table: each row is one line with two spaces or more between its cells.

        Long texts belong into the last column, as every cell before it is as wide as its column. With ``is_cut`` a
        terminal shows them as far as its width allows.
        """
        self.line(title)
        cells = [[harmless(cell) for cell in row] for row in (head, *rows)]
        widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
        for number, row in enumerate(cells if rows else ()):
            padded = (set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True))
            self.line("  " + "  ".join(padded).rstrip(), style="bold" if number == 0 else "", is_cut=is_cut)
        self.line("" if rows else "  none yet\n")
