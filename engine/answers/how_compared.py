"""How the answers of a dataset are compared: their kind, and what it needs."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

from engine.answers.dates import read_date
from engine.answers.naming import Named
from engine.records import Record

Kind = Literal[
    "choice", "label", "number", "formula", "text", "contains", "list", "set", "json", "date", "sql", "rubric"
]
KINDS: tuple[str, ...] = get_args(Kind)
LETTERS = tuple("ABCDEFGHIJ")
"""The marks of options that have none."""
_named = lru_cache(maxsize=64)(Named)


class HowCompared(Record):
    """How the answers of a dataset are compared; stored with each problem.

    Args:
        kind: see :data:`KINDS`.
        also: further right answers beside the truth: any of them is right.
        marks: of ``choice`` and ``set``: the mark of each option, such as A, B, C.
        options: of ``choice`` and ``set``: the text of each option, in the order of ``marks``; may be unknown: empty.
        labels: of ``label``: all labels, as they are written in the dataset.
        ids: of ``label``: the class id of each label, in the order of ``labels``, if the dataset has ids too.
        keys: of ``json``, and of a ``list`` of objects: the keys of all rows; one that an object leaves out is empty.
        day_first: of ``date``: whether 3/4/2026 is the 3rd of April.
        tolerance: of ``number``: the largest relative error of a right answer; None: by the digits of the truth.
        unit: of ``number``: that of an answer without one, as the question names it.
        is_open: whether prompts say nothing of the kind, as the dataset has answers of several kinds.
    """

    kind: Kind
    also: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    day_first: bool = False
    tolerance: float | None = None
    unit: str = ""
    is_open: bool = False

    def with_unit(self, number: str) -> str:
        """A bare number with the unit."""
        times = r" \times " if self.unit.startswith("10^") else " "
        return f"{self.unit}{number}" if self.unit in ("$", "€", "£") else f"{number}{times}{self.unit}"

    def named(self) -> Named:
        """The labels, or the options with their marks."""
        return _named(self.labels or self.options, self.marks or (() if self.kind == "label" else LETTERS), self.ids)

    def is_value(self, line: str) -> bool:
        """Whether a line is a value of its own: of ``label``, ``choice`` and ``date``."""
        if self.kind == "date":
            return read_date(line, self.day_first) is not None
        return self.kind in ("label", "choice") and self.named().begins(line) is not None
