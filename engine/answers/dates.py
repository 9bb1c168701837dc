"""Dates in words, and times of day."""

from __future__ import annotations

import calendar
import datetime
import re

from dateutil import parser

from engine.answers.words import EDGES, half_width

_NAMES = parser.parserinfo()
_MONTH = r"(?P<name>[a-z]{3,9})(?![^\W\d_])\.?"
_YEAR = r"(?:,?\s+(?P<year>\d{4}))?"
_FORMS = tuple(
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        rf"{_MONTH}\s+(?P<day>[0-3]?\d)(?:st|nd|rd|th)?{_YEAR}",
        rf"(?:the\s+)?(?P<day>[0-3]?\d)(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}{_YEAR}",
        r"(?P<year>[12]\d{3})-(?P<month>\d\d?)-(?P<day>\d\d?)",
        r"(?P<year>[12]\d{3})/(?P<month>\d\d)/(?P<day>\d\d)",
        r"(?:(?P<year>[12]\d{3})年)?(?P<month>\d\d?)月(?P<day>\d\d?)[日号]",
        r"(?P<day>\d\d?)\.\s?(?P<month>\d\d?)\.\s?(?P<year>[12]\d{3})",
    )
)
"""3/4/2026 may have either of day and month first."""
_TIME = re.compile(
    r"(?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5]\d))?\s*(?P<half>[ap])\.?\s*m\.?", re.IGNORECASE | re.ASCII
)
_NAMED_TIMES = {"noon": "12:00", "midday": "12:00", "midnight": "0:00"}
_LAST_DAY, _LAST_MONTH = 31, 12


def plain_date(text: str) -> str | None:
    """A date as 2026-03-04, or as March 4 where it has no year: "the 4th of March, 2026"; else None."""
    match = next(filter(None, (form.fullmatch(text) for form in _FORMS)), None)
    if match is None:
        return None
    given = match.groupdict()
    month, day = int(given.get("month") or _NAMES.month(given["name"]) or 0), int(given["day"])
    if not 1 <= month <= _LAST_MONTH or not 1 <= day <= _LAST_DAY:
        return None
    return f"{given['year']}-{month:02}-{day:02}" if given["year"] else f"{calendar.month_name[month]} {day}"


def time_of_day(text: str) -> str | None:
    """The time in 24 hours: "5 p.m." is 17:00; None for other texts."""
    match = _TIME.fullmatch(text)
    if match is None:
        return _NAMED_TIMES.get(text.lower())
    hour = int(match["hour"]) % 12 + 12 * (match["half"] in "pP")
    return f"{hour}:{match['minute'] or '00'}"


def read_date(text: str, day_first: bool = False) -> datetime.date | None:
    """The date that a text is; None if it is none, or leaves year, month or day out."""
    text = half_width(text.strip(EDGES)).rstrip("。")
    text = plain_date(text) or text
    if not 6 <= len(text) <= 40 or not any(char.isdigit() for char in text):
        return None
    day_first = day_first and re.match(r"\d{4}-\d", text) is None
    defaults = (datetime.datetime(2001, 1, 1), datetime.datetime(2002, 2, 2))
    try:
        dates = {parser.parse(text, default=default, dayfirst=day_first).date() for default in defaults}
    except (ValueError, OverflowError, TypeError):
        return None
    return dates.pop() if len(dates) == 1 else None
