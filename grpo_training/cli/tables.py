"""Tables and lines on stdout: formatted by rich on a terminal, plain elsewhere."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Any, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grpo_training.cli.terminal_text import harmless


class View:
    """Writes text that may come from a model: control characters are escaped first.

    Args:
        stream: where to write; a terminal gets colours and boxes.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        """Whether people read the output as it is."""

    def raw(self, text: str) -> None:
        """Write lines for another program."""
        self._stream.write(harmless(text, keep="\n") + "\n")

    def json(self, value: Any) -> None:
        """Write a value as JSON, in ASCII: what a terminal could obey stays escaped."""
        self._stream.write(json.dumps(value, indent=2, default=str) + "\n")

    def ascii(self, text: str) -> None:
        """Write a line of JSON with everything beyond ASCII escaped."""
        self._stream.write(json.dumps(json.loads(text)) + "\n")

    def text(self, text: str, indent: str = "") -> None:
        """Write a text of several lines."""
        for line in text.expandtabs(4).split("\n"):
            self.line(indent + line)

    def line(self, text: str, style: str = "") -> None:
        """Write a line; the style is used on a terminal only."""
        if self.is_terminal:
            Console(file=self._stream).print(Text(harmless(text), style=style))
        else:
            self.raw(text)

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table. Without a terminal each row is one line with two spaces or more between its cells.

        Long texts belong into the last column, as every cell before it is as wide as its column.
        """
        if self.is_terminal:
            self._rich_table(title, head, rows)
            return
        self.raw(title)
        cells = [[harmless(cell, keep="\n").replace("\n", " | ") for cell in row] for row in (head, *rows)]
        widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
        for row in cells if rows else ():
            padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
            self.raw("  " + "  ".join(padded).rstrip())
        self.raw("" if rows else "  none yet\n")

    def lines(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write rows whose last cell is a long text: on a terminal one line each, cut at its width, elsewhere whole."""
        if not self.is_terminal:
            self.table(title, head, rows)
            return
        console = Console(file=self._stream)
        console.print(Text(harmless(title)))
        cells = [[harmless(cell) for cell in row] for row in (head, *rows)]
        widths = [max(map(cell_len, column)) for column in list(zip(*cells, strict=True))[:-1]]
        for number, (*short, text) in enumerate(cells if rows else ()):
            padded = [set_cell_size(cell, width) + "  " for cell, width in zip(short, widths, strict=True)]
            line = Text.assemble((padded[0], "bold"), *padded[1:], text, style="dim" if number == 0 else "")
            line.truncate(console.width, overflow="ellipsis")
            console.print(line, no_wrap=True, highlight=False)
        if not rows:
            console.print("  none yet")

    def _rich_table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        table = Table(
            title=Text(harmless(title)), title_justify="left", show_lines=any("\n" in c for r in rows for c in r)
        )
        for name in head:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*(Text(harmless(cell, keep="\n")) for cell in row))
        Console(file=self._stream).print(table)


def _width(text: str) -> int:
    """Terminal columns of a text; wide characters, such as Chinese ones, take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
