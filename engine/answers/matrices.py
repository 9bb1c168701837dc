r"""Matrices and determinants in LaTeX, read from text.

``pmatrix``, ``bmatrix`` and an ``array`` in brackets are matrices; ``vmatrix`` and an ``array`` between bars are
determinants, which are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_ENVIRONMENT = re.compile(
    r"(?P<open>[(\[|]?)\s*\\begin\{(?P<kind>[pbBv]?matrix|smallmatrix|array)\}(?:\{[^{}]*\})?"
    r"(?P<cells>.*)\\end\{(?P=kind)\}\s*(?P<close>[)\]|]?)"
)
_ENDS = {"(": ")", "[": "]", "|": "|", "": ""}
_ROW_END = re.compile(r"\\\\(?:\s*\[\s*-?[\d.]+\s*(?:pt|em|ex|mm|cm)\s*\])?")
_LARGEST_DETERMINANT = 4


def read_cells(text: str) -> tuple[bool, list[list[str]]] | None:
    """The cells of a text that is one matrix or one determinant, by rows; and whether it is a determinant."""
    if r"\begin{" not in text:
        return None
    found = _ENVIRONMENT.fullmatch(text)
    if found is None or r"\begin" in found["cells"] or found["close"] != _ENDS[found["open"]]:
        return None
    is_determinant = found["kind"] == "vmatrix" or found["open"] == "|"
    if found["kind"] == "array" and not found["open"]:
        return None
    rows = [[cell.strip() for cell in row.split("&")] for row in _ROW_END.split(found["cells"]) if row.strip()]
    if not rows or len({len(row) for row in rows}) > 1:
        return None
    return is_determinant, rows


def as_formula(rows: Sequence[Sequence[str]]) -> str | None:
    """A determinant as a formula of its cells; None where it is not square or too large."""
    size = len(rows)
    if size > _LARGEST_DETERMINANT or any(len(row) != size for row in rows):
        return None
    if size == 1:
        return f"({rows[0][0]})"
    terms = []
    for column, cell in enumerate(rows[0]):
        minor = as_formula([[*row[:column], *row[column + 1 :]] for row in rows[1:]])
        terms.append(f"{'-' if column % 2 else '+'}({cell})({minor})")
    return "".join(terms).removeprefix("+")


def as_text(rows: Sequence[Sequence[str]]) -> str:
    """A matrix as LaTeX."""
    return r"\begin{pmatrix}" + r"\\".join("&".join(row) for row in rows) + r"\end{pmatrix}"
