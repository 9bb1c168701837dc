"""Numbers that are written with a decimal comma, as in 1.234,5."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?(?![.,]?\d)", re.ASCII)
_WITH_COMMA = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:\.\d{3})+,\d+|0,\d+|\d+,(?!\d{3}(?!\d))\d+)(?![.,]?\d)", re.ASCII)
_WITH_POINT = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:,\d{3})+\.\d+|0\.\d+|\d+\.(?!\d{3}(?!\d))\d+)(?![.,]?\d)", re.ASCII)
_SPACED_GROUP = re.compile(r"(?<=\d)[ \u00a0\u202f](?=\d{3}(?!\d))", re.ASCII)
_AT_START = re.compile(
    r"\A[+-]?(?:(?:0,\d+|\d+,(?!\d{3}(?!\d))\d+)(?![\d,])(?=[^,;]*\Z)|[1-9]\d{0,2}(?:[. ]\d{3})+,\d+(?![\d.,]))",
    re.ASCII,
)
_ONE_POINT = re.compile(r"\d{1,3}\.\d{3}", re.ASCII)


def uses_decimal_commas(numbers: Sequence[str]) -> bool:
    """Whether some number has a decimal comma for certain, and none a decimal point. 1,234 may have either."""
    return any(map(_WITH_COMMA.search, numbers)) and not any(map(_WITH_POINT.search, numbers))


def with_decimal_points(text: str, *, grouping_points: bool = True) -> str:
    """A text in which 1.234,5 and 1 234,5 are 1234.5. A number that cannot be of this form is left as it is.

    Args:
        text: a number, also with a unit.
        grouping_points: whether 1.234 is 1234; else its point is a decimal one.
    """

    def with_point(found: re.Match[str]) -> str:
        is_decimal = not grouping_points and _ONE_POINT.fullmatch(found[0])
        return found[0] if is_decimal else found[0].replace(".", "").replace(",", ".")

    return _NUMBER.sub(with_point, _SPACED_GROUP.sub("", text).replace("{,}", ","))


def with_decimal_point(text: str) -> str:
    """A text whose first number has a decimal point in place of its comma: ``1.234,5 kg`` is ``1234.5 kg``."""
    return _AT_START.sub(lambda number: re.sub("[. ]", "", number[0]).replace(",", "."), text, count=1)
