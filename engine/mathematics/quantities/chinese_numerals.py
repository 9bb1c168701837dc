"""Whole texts that are Chinese numbers: 三千二百, 百分之五十, 三点一四, 一半, and digits with a scale: 1.2万."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_SMALL = {"十": 10, "百": 100, "千": 1000}
_LARGE = {"万": 10**4, "亿": 10**8}
_SCALES = {"万": 10**4, "百万": 10**6, "千万": 10**7, "亿": 10**8, "万亿": 10**12}
_MAX_CHARS = 24
_CHARACTERS = "".join((*_DIGITS, *_SMALL, *_LARGE))
_RUN = re.compile(f"(?!亿)[{_CHARACTERS}]{{1,12}}")
_FIRST = re.compile(f"负?(?:[{''.join(_DIGITS)}十百半]|[0-9])")
_FRACTION = re.compile(
    f"(?:(?P<whole>[{_CHARACTERS}]+)又)?(?P<below>[{_CHARACTERS}]+)分之(?P<above>[{_CHARACTERS}0-9.点]+)"
)
_SCALED = re.compile(
    rf"(?P<number>[0-9]{{1,12}}(?:\.[0-9]{{1,8}})?)\s*(?P<scale>{'|'.join(sorted(_SCALES, key=len, reverse=True))})"
)
_EACH = "个只名条张本件种次棵辆头匹支朵座人岁页块位道题组台套双瓶杯碗盒箱包袋颗粒根片间层户篇"
_COUNTED = re.compile(rf"\s*(?:(?P<each>[{_EACH}])(?P<noun>[\u4e00-\u9fff]{{0,6}})|(?P<points>分))")
_CHANGES = re.compile("[不非没无或和与至到以多少余超约半倍几方数百千万亿十分错之]")
"""Characters after a number by which it is another one: 5次方, 5个以上, 5个或6个."""
_PREFIX = re.compile(rf"负?(?:[0-9.]+\s*(?:万亿|[百千]?万|亿)|半|[{_CHARACTERS}点]+)")


def read_chinese_number(text: str) -> Fraction | None:
    """The number that a whole text is; None for other texts. 一万二 is 12000, as it is said."""
    if len(text) > _MAX_CHARS or not _FIRST.match(text):
        return None
    if text[0] == "负":
        value = read_chinese_number(text[1:]) if text[1:2] != "负" else None
        return None if value is None else -value
    if text in ("半", "一半"):
        return Fraction(1, 2)
    if scaled := _SCALED.fullmatch(text):
        return Fraction(scaled["number"]) * _SCALES[scaled["scale"]]
    if fraction := _FRACTION.fullmatch(text):
        return _fraction(fraction)
    whole, point, decimals = text.partition("点")
    integer = _integer(whole)
    if integer is None or not set(decimals) <= _DIGITS.keys() or bool(point) != bool(decimals):
        return None
    return integer + Fraction(_integer(decimals) or 0, 10 ** len(decimals))


def chinese_numbers(text: str) -> Iterator[Fraction]:
    """The Chinese integers in a text: 一百二十 is 120."""
    return (Fraction(value) for run in _RUN.findall(text) if (value := _integer(run)) is not None)


def chinese_prefix(text: str) -> tuple[Fraction, str] | None:
    """The number that a text starts with, and the rest of the text: 三小时 is 3 小时, 1.2万元 is 12000 元."""
    match = _PREFIX.match(text) if _FIRST.match(text) else None
    value = read_chinese_number(match[0]) if match else None
    return None if match is None or value is None else (value, text[match.end() :])


def _fraction(match: re.Match[str]) -> Fraction | None:
    whole = _integer(match["whole"]) if match["whole"] else 0
    below = 100 if match["below"] == "百" else _integer(match["below"])
    is_ascii = re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", match["above"])
    above = Fraction(match["above"]) if is_ascii else read_chinese_number(match["above"])
    return None if whole is None or not below or above is None else whole + above / below


def _integer(text: str) -> int | None:
    """An integer in digits of one row (二〇二四) or with powers (三千二百零五); None for other texts."""
    if all(character in _DIGITS for character in text):
        return int("".join(str(_DIGITS[character]) for character in text)) if text else None
    total = section = 0
    digit: int | None = None
    last, has_gap = 0, False
    for character in text:
        if character in _DIGITS:
            if digit:
                return None
            digit = _DIGITS[character]
            has_gap = has_gap or digit == 0
            continue
        if character in _SMALL:
            if last and last <= _SMALL[character]:
                return None
            section += (1 if digit is None else digit) * _SMALL[character]
        elif character in _LARGE:
            section += digit or 0
            is_all = character == "亿"
            total, section = ((total + section) * _LARGE[character], 0) if is_all else (total + section * 10**4, 0)
        else:
            return None
        last, digit, has_gap = _SMALL.get(character) or _LARGE[character], None, False
    final_digit = digit or 0
    return total + section + (final_digit * last // 10 if final_digit and last > 10 and not has_gap else final_digit)


def counted_noun(text: str) -> str | None:
    """What is counted in the text after a number: 苹果 of 个苹果, 人 of 人, 个 alone, 分; None for other texts."""
    match = _COUNTED.fullmatch(text)
    if match is None or _CHANGES.search(match["noun"] or ""):
        return None
    return match["noun"] or match["each"] or match["points"]
