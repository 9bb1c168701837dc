"""Answers as they are written in Chinese: full-width forms, dates, units, and the letters of choices."""

from __future__ import annotations

import re
import unicodedata

_FULL_WIDTH = {0x3000: " ", **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}}
_SYMBOLS = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0x3380, 0x33E0)}
"""One character for a unit, such as ㎡."""

_DATE = re.compile(r"(\d{4})\s*年\s*(\d{1,2})\s*月\s*(\d{1,2})\s*[日号]")
_BASE_UNITS = {
    "千米": "km", "公里": "km", "米": "m", "分米": "dm", "厘米": "cm", "毫米": "mm", "微米": "um", "纳米": "nm",
    "吨": "t", "千克": "kg", "公斤": "kg", "克": "g", "毫克": "mg", "升": "L", "毫升": "mL",
    "小时": "hour", "时": "hour", "分钟": "minute", "秒钟": "second", "秒": "second", "毫秒": "ms",
    "天": "day", "周": "week", "星期": "week", "年": "year", "个月": "month", "公顷": "hectare", "元": "yuan",
    "牛": "N", "牛顿": "N", "焦": "J", "焦耳": "J", "千焦": "kJ", "瓦": "W", "瓦特": "W", "千瓦": "kW", "帕": "Pa",
    "帕斯卡": "Pa", "千帕": "kPa", "伏": "V", "伏特": "V", "安": "A", "安培": "A", "欧": "ohm", "欧姆": "ohm",
    "赫兹": "Hz", "摩尔": "mol", "千瓦时": "kWh",
}  # fmt: skip
_UNITS = {
    **_BASE_UNITS,
    **{f"平方{name}": f"{_BASE_UNITS[name]}^2" for name in ("千米", "公里", "米", "分米", "厘米", "毫米")},
    **{f"立方{name}": f"{_BASE_UNITS[name]}^3" for name in ("千米", "米", "分米", "厘米", "毫米")},
}
_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_QUANTITY = re.compile(
    rf"([+−-]?\d[\d.,/]*)\s*个?({_UNIT})(?:\s*(?:/|每)\s*({_UNIT})(?:(?<=秒)(?:\^?2|²))?)?(?![^\W\d_])\s*"
)
_CHOICES = re.compile(r"[A-H](?:[\s,;、和]*[A-H])*")


def half_width(text: str) -> str:
    """A text whose full-width letters, digits and signs are ASCII."""
    return text.translate(_FULL_WIDTH)


def with_unit_symbols(text: str) -> str:
    """A text whose Chinese units are those of the unit table; unchanged if it is more than numbers with such units.

    3小时20分钟 is ``3 hour 20 minute``, and 60千米/时 is ``60 km/hour``.
    """
    text = half_width(text).translate(_SYMBOLS).strip().rstrip("。")
    whole = re.fullmatch(rf"(?:{_QUANTITY.pattern})+", text)
    return _QUANTITY.sub(_in_symbols, text).strip() if whole else text


def _in_symbols(found: re.Match[str]) -> str:
    per = f"/{_UNITS[found[3]]}" if found[3] else ""
    square = "^2" if per and re.search(r"(?:2|²)\s*$", found[0]) else ""
    return f"{found[1]} {_UNITS[found[2]]}{per}{square} "


def with_iso_date(text: str) -> str:
    """A text in which 2024年3月5日 is 2024-03-05."""
    return _DATE.sub(lambda found: f"{found[1]}-{int(found[2]):02}-{int(found[3]):02}", half_width(text))


def read_choices(text: str) -> frozenset[str] | None:
    """The letters of the choices that a text names, each once: A、C, ``AC`` or ``A, C``; None if it names none."""
    letters = half_width(text).upper().strip(" *_`\"'“”()[]【】。.")
    found = re.findall("[A-H]", letters) if _CHOICES.fullmatch(letters) else []
    return frozenset(found) if found and len(set(found)) == len(found) else None
