"""Rows of tables: fields between commas, semicolons, tabs or vertical bars."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice, zip_longest

from engine.errors import InputError
from engine.storage.column_names import are_numbered, has_known_name, other_number, why_row, without_names
from engine.storage.json_lines import bad_line
from engine.storage.source_files import TABLE_LINE_BYTES, SourceFile

_MARKS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars"}
"""What separates fields, the most reliable first."""

_LINES = 2000
_CHARACTERS = 1 << 20
"""Lines and characters of a file that decide how it is read."""

_IN_QUOTES = 'Put a field with a comma, a quote or a line break in double quotes, and write a quote in it twice: "".'

Record = tuple[int, list[str]]
"""The line where a row begins, and its fields."""


class CsvRow(dict[str, str]):
    """A row of a table.

    Args:
        fields: name and value; those with a value are the items.
        line: where the row begins in the file.

    Attributes:
        empty: names of the fields without a value.
    """

    def __init__(self, fields: Mapping[str, str], line: int) -> None:
        super().__init__({name: value for name, value in fields.items() if value.strip()})
        self.line = line
        self.empty = fields.keys() - self.keys()


class Table:
    """A file as a table.

    Args:
        source: the file.

    Attributes:
        likely: the share of its first lines that have as many fields as the first one; 0 if that has one field, or
            if there is one line only.
        is_empty: whether it has blank lines only.

    Raises:
        InputError: it is no text, or a line is too long.
    """

    def __init__(self, source: SourceFile) -> None:
        csv.field_size_limit(TABLE_LINE_BYTES)  # 131,072 by default
        self._source = source
        self._encoding = source.encoding
        with closing(source.text(self._encoding)) as text:
            lines = text.readlines(_CHARACTERS)[:_LINES]
        named = re.fullmatch(r'"?sep=([^"\w])"?[\r\n]*', lines[0], re.IGNORECASE) if lines else None
        self._skipped = 1 if named else 0  # Excel writes the delimiter into a line of its own
        self._lines = lines[self._skipped :]
        shares = {mark: self._share(mark) for mark in _MARKS}
        self.mark = named[1] if named else max(shares, key=lambda mark: round(shares[mark], 2))
        if not shares.get(self.mark, 1):
            self.mark = ","
        filled = sum(bool(line.strip()) for line in self._lines)
        self.likely = shares.get(self.mark, 1.0) if filled > 1 else 0.0
        self.is_empty = not filled
        quoted, spaced = f'{self.mark}"', f'{self.mark} "'
        self._spaced = any(spaced in line for line in self._lines) and not any(quoted in line for line in self._lines)

    def _share(self, mark: str) -> float:
        """How much of the rows has as many fields as the first one; of tabs, which text does not have, of the lines."""
        try:
            counts = [len(row) for row in csv.reader(self._lines, delimiter=mark) if row]
        except csv.Error:
            counts = []
        by_line = [line.count(mark) + 1 for line in self._lines if line.strip()] if mark == "\t" else []
        usable = [widths for widths in (counts, by_line) if widths and widths[0] > 1]
        return max((sum(count == widths[0] for count in widths) / len(widths) for widths in usable), default=0.0)

    def rows(self, columns: Sequence[str] | None, numbered: bool) -> tuple[Iterator[CsvRow], list[str]]:
        """The rows, and notes for the screen. An empty field is left out, and so is a row of empty fields.

        Args:
            columns: names of the columns of a table without names.
            numbered: the names of the columns are 1, 2, ...

        Raises:
            InputError: the first line has no names, one twice, or not as many as ``columns``.
        """
        path, notes = self._source.path, []
        if self._encoding in ("gb18030", "cp1252"):
            notes.append(f"read as {self._encoding.upper()}")
        if self.mark != "," and (self.mark, self._source.suffix) != ("\t", ".tsv"):
            notes.append(f"fields are between {_MARKS.get(self.mark, repr(self.mark))}")
        try:
            sample = [row for _, row in self._records(iter(self._lines), by_line=self._is_plain())]
        except InputError:  # raised again when the row is reached
            sample = [row for row in csv.reader(self._lines, delimiter=self.mark) if row]
        first_line = sample[0] if sample else []
        filled = [position for position, cell in enumerate(first_line, start=1) if cell.strip()]
        first = first_line[: max(filled, default=0)]
        below = [row[: len(first)] for row in sample[1:]]
        has_names = True
        if columns is not None:
            if sample and not len(first) <= len(columns) <= len(first_line):
                raise other_number(columns, f"line of {path}", first)
            has_names = [name.strip().lower() for name in first] == [name.lower() for name in columns]
            names = list(columns)
        elif numbered:
            has_names = has_known_name(first, below)
            names = [str(number) for number in range(1, len(first) + 1)]
            if has_names:
                notes.append("the first line has names and is left out")
        elif why := why_row(first, below):
            raise without_names(path, first, below, why)
        else:
            names = [name.strip() for name in first_line]
        twice = next((name for name in names if name and names.count(name) > 1), None)
        if twice is not None:
            number = self._skipped + 1
            raise bad_line(path, number, f"the name {twice!r} occurs twice", fix="Rename one of the two.")
        leave_out = bool(names) and not names[0] and are_numbered([row[0] for row in below if row])
        if leave_out:
            notes.append("the numbers of the rows in the first column are left out")
        return self._named(names, has_names, leave_out), notes

    def _named(self, names: list[str], has_names: bool, leave_out: bool) -> Iterator[CsvRow]:
        with closing(self._source.text(self._encoding)) as text:
            records = self._records(islice(text, self._skipped, None), len(names), self._is_plain())
            for line, row in islice(records, 1 if has_names else 0, None):
                if any(cell.strip() for cell in row[len(names) :]):
                    why = "more fields than the first line has names"
                    raise bad_line(self._source.path, line + self._skipped, why, fix=_IN_QUOTES)
                fields = {}
                for index, (name, value) in enumerate(zip_longest(names, row[: len(names)], fillvalue="")):
                    if name or (value.strip() and not (leave_out and index == 0)):
                        fields[name or str(index + 1)] = value
                if csv_row := CsvRow(fields, line + self._skipped):
                    yield csv_row

    def _is_plain(self) -> bool:
        """Whether each line is a row, so that a quote at the begin of a field is one of its text.

        So it is in tables with tabs, which text does not have, unless the names are in quotes; in others a quote that
        is not closed is a fault.
        """
        first = next((line.rstrip("\r\n") for line in self._lines if line.strip("\r\n")), "")
        if self.mark != "\t" or all(_unquoted(field) != field for field in first.split("\t")):
            return False
        with closing(self._source.text(self._encoding)) as text:
            counts = (line.count(self.mark) for line in islice(text, self._skipped, None) if line.strip("\r\n"))
            return all(count == first.count("\t") for count in counts)

    def _records(self, lines: Iterator[str], width: int | None = None, by_line: bool = False) -> Iterator[Record]:
        if by_line:
            for number, line in enumerate(lines, start=1):
                if line.strip("\r\n"):
                    yield number, [_unquoted(field) for field in line.rstrip("\r\n").split(self.mark)]
            return
        taken: list[str] = []

        def read() -> Iterator[str]:
            for line in lines:
                taken.append(line)
                yield line

        reader = csv.reader(read(), strict=True, delimiter=self.mark, skipinitialspace=self._spaced)
        while True:
            begin = reader.line_num + 1
            taken.clear()
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                fields = self._with_lone_quotes(taken)
                if fields is None or len(fields) != (width or len(fields)):
                    why = f"not CSV: {error}"
                    raise bad_line(self._source.path, begin + self._skipped, why, fix=_IN_QUOTES) from error
                row = fields
            width = width or len(row)
            if row:
                yield begin, row

    def _with_lone_quotes(self, lines: Sequence[str]) -> list[str] | None:
        """The fields of one line in which a quote closes a field only before a delimiter or the end.

        A quote may also have a backslash before it, as Spark writes it.
        """
        if len(lines) != 1:
            return None
        mark, line = re.escape(self.mark), lines[0].rstrip("\r\n")
        quoted = rf'\s*"(?P<quoted>(?:\\"|""|[^"]|"(?!{mark}|$))*+)"(?={mark}|$)'
        pattern = re.compile(rf'{quoted}|(?P<bare>[^"{mark}][^{mark}]*|(?={mark}|$))')
        fields, position = [], 0
        while position <= len(line):
            match = pattern.match(line, position)
            if match is None:
                return None
            text = match["quoted"]
            fields.append(match["bare"] if text is None else re.sub(r'\\"|""', '"', text))
            position = match.end() + 1
        return fields


def _unquoted(field: str) -> str:
    match = re.fullmatch(r'\s*"((?:[^"]|"")*)"\s*', field)
    return match[1].replace('""', '"') if match else field
