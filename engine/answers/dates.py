"""Dates in words, and times of day."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping

from dateutil import parser

from engine.answers.words import EDGES, half_width

_MONTHS = (
    "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
    "september sep sept", "october oct", "november nov", "december dec",
)  # fmt: skip
_NUMBERS: Mapping[str, int] = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_NAMES = tuple(names.split()[0].capitalize() for names in _MONTHS)
_MONTH = rf"(?:{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})(?![^\W\d_])\.?"
_IN_WORDS = re.compile(
    rf"(?:(?P<month>{_MONTH})\s+(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
    rf"|(?:the\s+)?(?P<day_before>[0-3]?\d)(?:st|nd|rd|th|\.)?\s+(?:of\s+)?(?P<month_after>{_MONTH}))"
    r"(?:,?\s+(?P<year>\d{4}))?",
    re.IGNORECASE | re.ASCII,
)
_IN_NUMBERS = re.compile(
    r"(?P<year>[12]\d{3})(?:-(?P<m1>\d\d?)-(?P<d1>\d\d?)|/(?P<m2>\d\d)/(?P<d2>\d\d)|年(?P<m3>\d\d?)月(?P<d3>\d\d?)[日号])"
    r"|(?P<d4>\d\d?)\.\s?(?P<m4>\d\d?)\.\s?(?P<year_after>[12]\d{3})|(?P<m5>\d\d?)月(?P<d5>\d\d?)[日号]",
    re.ASCII,
)
"""The year is first, or day and month end with a point. 3/4/2026 may have either of them first."""
_TIME = re.compile(
    r"(?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5]\d))?\s*(?P<half>[ap])\.?\s*m\.?", re.IGNORECASE | re.ASCII
)
_NAMED_TIMES = {"noon": "12:00", "midday": "12:00", "midnight": "0:00"}
_LAST_DAY, _LAST_MONTH = 31, 12


def plain_date(text: str) -> str | None:
    """A date as 2026-03-04, or as March 4 where it has no year: "the 4th of March, 2026"; else None."""
    found = _IN_WORDS.fullmatch(text)
    if found is not None:
        month = _NUMBERS[(found["month"] or found["month_after"]).rstrip(".").lower()]
        return _written(found["year"], month, int(found["day"] or found["day_before"]))
    found = _IN_NUMBERS.fullmatch(text)
    if found is None:
        return None
    month, day = (int(next(filter(None, (found[f"{part}{form}"] for form in range(1, 6))))) for part in "md")
    return _written(found["year"] or found["year_after"], month, day)


def _written(year: str | None, month: int, day: int) -> str | None:
    if not 1 <= month <= _LAST_MONTH or not 1 <= day <= _LAST_DAY:
        return None
    return f"{year}-{month:02}-{day:02}" if year else f"{_NAMES[month - 1]} {day}"


def time_of_day(text: str) -> str | None:
    """The time in 24 hours: "5 p.m." is 17:00; None for other texts."""
    if text.lower() in _NAMED_TIMES:
        return _NAMED_TIMES[text.lower()]
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    hour = int(found["hour"]) % 12 + 12 * (found["half"] in "pP")
    return f"{hour}:{found['minute'] or '00'}"


def read_date(text: str, day_first: bool = False) -> datetime.date | None:
    """The date that a text is; None if it is none, or leaves year, month or day out."""
    text = half_width(text.strip(EDGES)).rstrip("。")
    written = plain_date(text)
    text = written or text
    if not 6 <= len(text) <= 40 or not any(char.isdigit() for char in text):
        return None
    found = []
    for default in (datetime.datetime(2001, 1, 1), datetime.datetime(2002, 2, 2)):
        try:
            is_iso = re.match(r"\d{4}-\d", text) is not None
            found.append(parser.parse(text, default=default, dayfirst=day_first and not is_iso).date())
        except (ValueError, OverflowError, TypeError):
            return None
    return found[0] if found[0] == found[1] else None
