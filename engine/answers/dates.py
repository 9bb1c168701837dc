"""Dates in words of several languages, and times of day."""

from __future__ import annotations

import re
from collections.abc import Mapping

_MONTHS = (
    "january jan januar janvier enero gennaio janeiro",
    "february feb februar février febrero febbraio fevereiro",
    "march mar märz mars marzo março",
    "april apr avril abril aprile",
    "may mai mayo maggio maio",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août agosto",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre diciembre dicembre dezembro",
)
_NUMBERS: Mapping[str, int] = {
    name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()
}  # fmt: skip
_NAMES = tuple(names.split()[0].capitalize() for names in _MONTHS)
_MONTH = rf"(?:{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})(?![^\W\d_])\.?"
_IN_WORDS = re.compile(
    rf"(?:(?P<month>{_MONTH})\s+(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
    rf"|(?:the\s+|le\s+|el\s+|il\s+|am\s+|der\s+)?(?P<day_before>[0-3]?\d)(?:st|nd|rd|th|er|\.)?\s+(?:of\s+|de\s+)?(?P<month_after>{_MONTH}))"
    r"(?:,?\s+(?:de\s+)?(?P<year>\d{4}))?",
    re.IGNORECASE | re.ASCII,
)
_IN_NUMBERS = re.compile(
    r"(?P<year>[12]\d{3})(?:-(?P<m1>\d\d?)-(?P<d1>\d\d?)|/(?P<m2>\d\d)/(?P<d2>\d\d)|年(?P<m3>\d\d?)月(?P<d3>\d\d?)[日号])"
    r"|(?P<d4>\d\d?)\.\s?(?P<m4>\d\d?)\.\s?(?P<year_after>[12]\d{3})|(?P<m5>\d\d?)月(?P<d5>\d\d?)[日号]",
    re.ASCII,
)
"""The year is first, or day and month end with a point. 3/4/2026 may have either of them first."""
_LONG_FORMS = re.compile(rf"(?<![^\W\d_]){_MONTH}", re.IGNORECASE | re.ASCII)
_TIME = re.compile(
    r"(?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5]\d))?\s*(?P<half>[ap])\.?\s*m\.?", re.IGNORECASE | re.ASCII
)
_CLOCK = re.compile(r"(?P<hour>[01]?\d|2[0-4])(?:[:.](?P<minute>[0-5]\d))?\s*Uhr", re.ASCII)
_NAMED_TIMES = {"noon": "12:00", "midday": "12:00", "midnight": "0:00"}
_LAST_DAY, _LAST_MONTH = 31, 12


def plain_date(text: str) -> str | None:
    """A date as 2026-03-04, or as March 4 where it has no year: "the 4th of March, 2026", "4. März 2026"; else None."""
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


def with_english_months(text: str) -> str:
    """A text with the names of months in English: "4. März 2026" is "4. March 2026"."""
    return _LONG_FORMS.sub(lambda found: _NAMES[_NUMBERS[found[0].rstrip(".").lower()] - 1], text)


def time_of_day(text: str) -> str | None:
    """The time in 24 hours: "5 p.m." and "17 Uhr" are 17:00; None for other texts."""
    if text.lower() in _NAMED_TIMES:
        return _NAMED_TIMES[text.lower()]
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        return f"{int(clock['hour'])}:{clock['minute'] or '00'}"
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    hour = int(found["hour"]) % 12 + 12 * (found["half"] in "pP")
    return f"{hour}:{found['minute'] or '00'}"
