"""Numbers that are written with a decimal comma, as in 1.234,5."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?(?![.,]?\d)", re.ASCII)
_WITH_COMMA = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:\.\d{3})+,\d+|0,\d+|\d+,(?!\d{3}(?!\d))\d+)(?![.,]?\d)", re.ASCII)
_WITH_POINT = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:,\d{3})+\.\d+|0\.\d+|\d+\.(?!\d{3}(?!\d))\d+)(?![.,]?\d)", re.ASCII)


def uses_decimal_commas(numbers: Sequence[str]) -> bool:
    """Whether some number has a decimal comma for certain, and none a decimal point. 1,234 may have either."""
    return any(map(_WITH_COMMA.search, numbers)) and not any(map(_WITH_POINT.search, numbers))


def with_decimal_points(text: str) -> str:
    """A text in which 1.234,5 is 1234.5. A number that cannot be of this form is left as it is."""
    return _NUMBER.sub(lambda found: found[0].replace(".", "").replace(",", "."), text.replace("{,}", ","))
