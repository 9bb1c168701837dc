r"""Other ways to write a value: number words, compound quantities, remainders, digits of other scripts.

Each function takes a cleaned text, and gives it back unchanged where it is not of its kind.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

from engine.answers.dates import plain_date, time_of_day
from engine.answers.plain_values import CHANGES_MEANING
from engine.mathematics.quantities.chinese_numerals import chinese_prefix, counted_noun, read_chinese_number
from engine.mathematics.quantities.number_words import read_number_words
from engine.mathematics.quantities.numerals import numeral_prefix, read_numeral
from engine.mathematics.quantities.unit_text import read_unit
from engine.mathematics.quantities.units import convert

_MAX_CHARS = 80
_TEXT = re.compile(r"\\(?:text|mathrm|mbox|textrm|textbf)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[A-Za-z][A-Za-z\s-]*")
_UNIT_AFTER_WORDS = re.compile(r"(?P<number>[A-Za-z][A-Za-z\s-]*?)\s+(?P<unit>[A-Za-z]+)")
_AND = re.compile(r"\s*(?:,\s*and|,|and|零)?\s*(?=[\d.])")
_JOINED_BY_COMMA = frozenset("week day hour minute second us_dollar us_cent british_pound british_penny".split())
_SMALL_MONEY = (read_unit("cents"), read_unit("pence"))
_MAX_PARTS = 4
_UNIT_WORD = re.compile(r"\s*(?:\\text\s*\{\s*)?([^\W\d_]+)(?:\s*\})?")
_HOURS = re.compile(r"\d{1,4}\s?h\s?[0-5]\d", re.ASCII)
"""Hours and minutes as in 1h30."""
_REMAINDER = re.compile(
    r"(?:(?P<name>[A-Za-z])\s*(?:\\equiv|=|≡)\s*)?(?P<value>-?\d+)\s*"
    r"(?:\\pmod\s*\{?\s*(?P<m1>\d+)\s*\}?|(?:\\bmod|\\?mod)(?![A-Za-z])\s*\{?\s*(?P<m3>\d+)\s*\}?|\(\s*\\?(?:mod|text\s*\{\s*mod\s*\})\s*(?P<m2>\d+)\s*\))"
)
_SCALES = {"dozen": 12, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALED = re.compile(
    rf"(?P<number>-?\d[\d,]*(?:\.\d+)?)\s*(?P<scale>{'|'.join(_SCALES)})"
    r"(?P<rest>(?:\s+[A-Za-z][A-Za-z\s]*)?)"
)
_INTEGERS = re.compile(
    r"(?P<value>.*?[^\s,;(])\s*[,;]?\s*\(?\s*(?:where|for|with)?\s*(?:(?:all|any|every|each|some)\s+)?"
    r"(?:(?P<name>[kmnjl])\s*(?:\\in\s*\\math(?:bb|bf)\s*\{?\s*Z\s*\}?|(?:is\s+)?(?:an|any)\s+integer)"
    r"|integers?\s+(?P<name_after>[kmnjl]))\s*\)?"
)
_ORDINAL = re.compile(
    r"(?P<value>\d{1,6})\s*(?:\^\s*)?\{?\s*(?:\\(?:text|mathrm|rm)\s*)?\{?\s*(?:st|nd|rd|th)\b\s*\}*", re.ASCII
)
_REMARKED = re.compile(
    r"(?P<value>[-\d.,/ ]*\d\s*(?:\\?%)?)\s*"
    r"(?:\((?P<noun>[A-Za-z][A-Za-z ]*)\)|of\s+(?P<whole>[A-Za-z][A-Za-z '-]*))"
)
"""A number with what is counted in brackets, or a share with its whole: "72 (clips)", "3/4 of the cake"."""
_REMARK = re.compile(r",?\s*,\s*(?:in total|altogether|in all|overall|all together|total)", re.IGNORECASE)
_UNDEFINED = re.compile(
    r"(?:(?:is|it is)\s+)?(?:dne|undefined|not\s+defined|(?:does|do)\s+not\s+exist|doesn't\s+exist)", re.IGNORECASE
)


def plainly_written(text: str, *, reads_times: bool = True) -> str:
    r"""A cleaned answer in its plain form: ``\text{twelve}`` is 12, ``1 hour 30 minutes`` is 90 minutes.

    Number words without ``\text`` may be a part of a sentence, and stay.

    Args:
        text: the cleaned answer.
        reads_times: whether "5 pm" is a time of day, and no length.
    """
    if len(text) > _MAX_CHARS or text.isdecimal():
        return text
    bare = _TEXT.sub(r"\1", text).strip()
    if _UNDEFINED.fullmatch(bare):
        return "undefined"
    if bare[:1].isdigit() or bare[:1] == "-":
        text = bare = _without_remark(text, bare)
    is_marked = bare != text
    return (
        (_in_digits(bare) if is_marked else None)
        or ((_scaled(bare) or _compound(bare)) if bare[:1].isdigit() or bare[:1] == "-" else None)
        or (time_of_day(bare) if reads_times else None)
        or plain_date(bare)
        or (None if bare.isascii() else _in_chinese(bare))
        or _without_integers(text)
        or text
    )


def _without_remark(text: str, bare: str) -> str:
    """A number without what is counted in brackets or with "of", without a remark, and as no ordinal."""
    ordinal = _ORDINAL.fullmatch(text)
    if ordinal:
        return ordinal["value"]
    found = _REMARKED.fullmatch(_REMARK.sub("", bare))
    if found and found["noun"] and str(read_number_words(found["noun"])) == found["value"].strip():
        return found["value"]
    if found and not CHANGES_MEANING.search(found["noun"] or found["whole"]):
        is_share = found["noun"] or "%" in found["value"] or "/" in found["value"]
        return f"{found['value'].strip()} {found['noun']}" if found["noun"] else found["value"] if is_share else text
    return _REMARK.sub("", text)


def _scaled(text: str) -> str | None:
    """The value in digits: "1.5 million dollars" is 1500000 dollars."""
    found = _SCALED.fullmatch(text)
    number = read_numeral(found["number"]) if found else None
    if found is None or number is None:
        return None
    value = number.value * _SCALES[found["scale"]]
    return f"{value.numerator}{found['rest']}" if value.denominator == 1 else None


def _in_chinese(text: str) -> str | None:
    """A Chinese number in digits, also with a unit: 三小时 is 3 小时, 1.2万 is 12000."""
    value = read_chinese_number(text)
    if value is not None:
        return str(value)
    value, rest = chinese_prefix(text) or (None, "")
    return (
        f"{value} {rest.strip()}" if value is not None and (read_unit(rest) or counted_noun(rest) is not None) else None
    )


def _without_integers(text: str) -> str | None:
    r"""A general solution without the remark that its parameter is an integer: ``2k\pi, k \in \mathbb{Z}``."""
    if r"\in" not in text and "integer" not in text:
        return None
    found = _INTEGERS.fullmatch(" ".join(_TEXT.sub(r" \1 ", text).split()))
    name = (found["name"] or found["name_after"]) if found else ""
    return found["value"] if found and re.search(rf"(?<![A-Za-z\\]){name}(?![A-Za-z])", found["value"]) else None


def remainder(text: str) -> tuple[int, int] | None:
    r"""The value and the modulus of ``17 \pmod{20}`` and ``x \equiv 17 (mod 20)``; None for other texts."""
    found = _REMAINDER.fullmatch(text.strip()) if "mod" in text and len(text) <= _MAX_CHARS else None
    if found is None or not (modulus := int(found["m1"] or found["m2"] or found["m3"])):
        return None
    value = int(found["value"])
    is_operation = found["m3"] and not found["name"] and not 0 <= value < modulus
    return None if is_operation else (value, modulus)


def with_ascii_digits(text: str) -> str:
    """A text with the decimal digits of all scripts as 0 to 9."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(char, char)) for char in text)


def has_other_digits(text: str) -> bool:
    """Whether a text has decimal digits of another script, such as Devanagari. Full-width digits are ASCII's."""
    if text.isascii():
        return False
    return any(char.isdecimal() and not char.isascii() for char in unicodedata.normalize("NFKC", text))


def _in_digits(text: str) -> str | None:
    """Number words before a unit in digits. Those alone are read where the answer is found (``final_answer``)."""
    if not _WORDS.fullmatch(text):
        return None
    found = _UNIT_AFTER_WORDS.fullmatch(text)
    value = read_number_words(found["number"]) if found and read_unit(found["unit"]) else None
    return None if found is None or value is None else f"{value} {found['unit']}"


def _compound(text: str) -> str | None:
    """A quantity in several units, each smaller than the one before, in the last unit: 5 feet 3 inches are 63 inches.

    Money is in the first unit: 42 dollars 50 cents are 42.5 dollars.
    None if a part is as large as the unit before it: "1 hour 90 minutes" are two quantities.
    """
    text = f"{text} min" if _HOURS.fullmatch(text) else text
    total, count, before, unit = Fraction(0), 0, None, None
    name, first, at = "", "", 0
    while at < len(text):
        joint = _AND.match(text, at) if count else None
        if count and (joint is None or count >= _MAX_PARTS):
            return None
        at = joint.end() if joint else at
        has_comma = joint is not None and joint[0].strip() != ""
        prefix = numeral_prefix(text[at:])
        if prefix is None or prefix[0].value < 0:
            return None
        at = len(text) - len(prefix[1])
        word = _UNIT_WORD.match(text, at)
        unit = read_unit(word[1]) if word else None
        if word is None or not unit or len(unit) != 1 or unit[0][1] != 1:
            return None
        if before is not None:
            size = convert(Fraction(1), before, unit)
            if size is None or size <= 1 or prefix[0].value >= size:
                return None
            if has_comma and not {before[0][0], unit[0][0]} <= _JOINED_BY_COMMA:
                return None
            total *= size
        total, before, count, name, at = total + prefix[0].value, unit, count + 1, word[1], word.end()
        first = first or name
    if unit in _SMALL_MONEY:
        total, name = total / 100, first
    return f"{total} {name}" if count > 1 else None
