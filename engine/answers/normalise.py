r"""Normalise an answer of mathematics: the second step from a reply to a verdict.

A sentence gives its value; sums of money and numbers in words are written in digits; ``1 hour 30 minutes`` is 90
minutes; dates and times have one form.
"""

from __future__ import annotations

import re
from fractions import Fraction

from engine.answers.dates import plain_date, time_of_day
from engine.answers.reply import DELIMITED, MAX_ANSWER_CHARS, end_of_prose, is_prose, own_words, stated
from engine.answers.verdict import Comparison
from engine.answers.words import CHANGES_MEANING, DENIES, HEDGES, MARKUP
from engine.mathematics.parsing.notation import clean
from engine.mathematics.quantities.chinese_numerals import chinese_prefix, counted_noun, read_chinese_number
from engine.mathematics.quantities.number_words import read_number_words
from engine.mathematics.quantities.numerals import read_numeral
from engine.mathematics.quantities.unit_text import read_unit
from engine.mathematics.quantities.units import convert, without_side_remarks

_SHORT, _MAX_CHARS, _MAX_PARTS = 20, 80, 4
_WRAPPING = " \t\n*`_#|\"'"
_SENTENCE = re.compile(
    r".*[A-Za-z)}$]\s+(?:is|are|equals)\s|(?!US\$|R\$)\W*[A-Za-z]{2}[^$\\\d]*(?:\$|\\\(|\\\[)"
    r"|[A-Z][a-z]+ [a-z]{2,} (?!.*\b(?:almost|nearly|up|twice|double|between|unless|about|with|i|e|to|and|or)\b)",
    re.DOTALL,
)
"""A short text with a verb, with words before its formula, or that begins as a sentence."""
_ANNOUNCED = re.compile(
    r"^\\text\w*\s*\{[^{}]*(?:\b(?:is|are|equals)|[:=])\s*\}\s*(?=\S)"
    r"|^\W*(?:ans|result|solution|total)\b[.*_]*\s*[:=][*_\s]*(?=\S)",
    re.IGNORECASE,
)
_CODES = "USD|EUR|GBP|CNY|RMB|JPY|INR|BRL"
_MONEY = re.compile(rf"([-+]?)\s*\\?(US\$|R\$|[$€£₹¥￥]|(?:{_CODES})(?![A-Za-z]))\s*([-+]?[\d.][\d,.{{}}\\!;: ]*)")
_SIGN_OF_MONEY = re.compile(rf"US\$|R\$|[$€£₹¥￥]|\b(?:{_CODES})\b")
_CURRENCIES = {"$": "dollars", "US$": "dollars", "€": "euro", "£": "GBP", "₹": "rupees", "R$": "BRL"}
_CURRENCIES |= dict.fromkeys("¥￥", "yensign")
_LIST_WITHOUT_END = re.compile(r",\s*(?:\.{3,}|…|\\[cl]?dots(?![A-Za-z]))(?=\W*$)")
_HEDGE = re.compile(
    r"^(?:\\(?:approx|sim|therefore|implies|Rightarrow)(?![A-Za-z])|approximately|approx\.?|about|roughly|around|exactly"
    r"|ca\.|circa|大?约)\s*(?=[-+\\\d.(])"
    r"|(?<=[\w)}%])\s*(?:\\text\w*\s*\{\s*)?[,(]?\s*(?:approx(?:imately|\.)?|roughly)\s*\.?\s*\)?\s*\}?$",
    re.IGNORECASE,
)
_CHINESE_FRAME = re.compile(r"\A(?![^\d]*[不没非无或到比多少超至第负减分月于])[\u4e00-\u9fff，,：:、\s]{1,20}(?=\d)")

_PART = re.compile(
    r"\s*(?P<joint>,\s*and|,|and|零)?\s*(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)"
    r"\s*(?:\\text\s*\{\s*)?(?P<unit>[^\W\d_]+)(?:\s*\})?"
)
_JOINED_BY_COMMA = frozenset("week day hour minute second us_dollar us_cent british_pound british_penny".split())
_SMALL_MONEY = (read_unit("cents"), read_unit("pence"))
_HOURS = re.compile(r"\d{1,4}\s?h\s?[0-5]\d", re.ASCII)
"""Hours and minutes as in 1h30."""
_SCALES = {"dozen": 12, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALED = re.compile(
    rf"(?P<number>-?\d[\d,]*(?:\.\d+)?)\s*(?P<scale>{'|'.join(_SCALES)})(?P<rest>(?:\s+[A-Za-z][A-Za-z\s]*)?)"
)
_ORDINAL = re.compile(
    r"(?P<value>\d{1,6})\s*(?:\^\s*)?\{?\s*(?:\\(?:text|mathrm|rm)\s*)?\{?\s*(?:st|nd|rd|th)\b\s*\}*", re.ASCII
)
_MIXED = re.compile(r"(\d+)\((\d+/\d+)\)")
"""A mixed number as Math23K writes it."""
_COUNTED = re.compile(
    r"(?P<value>[-\d.,/ ]*\d\s*(?:\\?%)?)\s*"
    r"(?:\((?P<noun>[A-Za-z][A-Za-z ]*)\)|of\s+(?P<whole>[A-Za-z][A-Za-z '-]*))"
)
"""A number with what is counted in brackets, or a share with its whole: "72 (clips)", "3/4 of the cake"."""
_REMARK = re.compile(
    r",?\s*,\s*(?:in total|altogether|in all|overall|all together|total)\Z"
    r"|(?<=\d)\s*\\pmod\s*\{?\s*\d+\s*\}?\Z|(?<=\d)\s*\(\s*\\?(?:mod|text\s*\{\s*mod\s*\})\s*\d+\s*\)\Z"
    r"|(?<=\w)[\s,;\\]*\(?\s*(?:\\text\s*\{\s*where\s*\}|where|for)?\s*[kmnjl]\s*"
    r"(?:\\in\s*\\math(?:bb|bf)\s*\{?\s*Z\s*\}?|\\text\s*\{\s*is an integer\s*\}|is an integer)\s*\)?\Z",
    re.IGNORECASE,
)
"""That a number is the total; the modulus of a remainder; that the parameter of a general solution is an integer."""
_EXPLAINED = re.compile(
    r"(?P<value>-?\d[\d,.]*(?:\s+[A-Za-z]{3,}){0,4})\s+\((?P<remark>[^()*+/=^]*[A-Za-z]{2}\s[^()*+/=^]*)\)"
)
"""A number with a remark of several words in brackets: "72 clips (48 in April and 24 in May)"."""
_UNDEFINED = re.compile(
    r"(?:(?:is|it is)\s+)?(?:dne|undefined|not\s+defined|(?:does|do)\s+not\s+exist|doesn't\s+exist)", re.IGNORECASE
)


def normalised(text: str, comparison: Comparison) -> str:
    """An answer, or a whole reply, in the form in which values are compared; empty where there is none."""
    is_measured = comparison == "measured"
    text = answer_text(text, reads_dollars=not is_measured)
    return plainly_written(without_side_remarks(text) if is_measured else text, reads_times=not is_measured)


def plainly_written(text: str, *, reads_times: bool = True) -> str:
    r"""A cleaned answer in its plain form: ``\text{two hours}`` is 2 hours, ``1 hour 30 minutes`` is 90 minutes.

    Args:
        text: the cleaned answer.
        reads_times: whether "5 pm" is a time of day, and no length.
    """
    if len(text) > _MAX_CHARS or text.isdecimal():
        return text
    text = _REMARK.sub("", text)
    bare = MARKUP.sub(r"\1", text).strip()
    if _UNDEFINED.fullmatch(bare):
        return "undefined"
    is_number = bare[:1].isdigit() or bare[:1] == "-"
    return (
        (_spelled(bare) if bare != text else None)
        or ((_counted(text, bare) or _scaled(bare) or _compound(bare)) if is_number else None)
        or (time_of_day(bare) if reads_times else None)
        or plain_date(bare)
        or (None if bare.isascii() else _in_chinese(bare))
        or text
    )


def answer_text(text: str, *, reads_dollars: bool = True) -> str:
    """The cleaned text of an answer; empty where there is none.

    Args:
        text: an answer, or a whole reply. In prose without any mark, the answer is the end of the last sentence, its
            only bold or math part, or the only number after its last "is", "=" or the like.
        reads_dollars: whether a number with one dollar sign before it is a sum of money ("$5" is 5 dollars). Else the
            sign is a delimiter of mathematics that has no partner.
    """
    if len(text) <= _SHORT and text.isalnum() and text.isascii():
        return clean(text)
    text = own_words(text)
    answer = stated(text)
    text = _ANNOUNCED.sub("", _LIST_WITHOUT_END.sub(r", \\ldots", text if answer is None else answer))
    text = text[1:-1] if text[:1] == text[-1:] == "'" else text
    if in_markup := MARKUP.fullmatch(text):
        if (number := read_number_words(in_markup[1])) is not None:
            return str(number)
        text = in_markup[1] if re.search(r"\d|\s(?:is|are)\s", in_markup[1]) else text
    if is_prose(text) or (_SENTENCE.match(text) and not CHANGES_MEANING.search(text)):
        text = end_of_prose(text)
    text = text if text.isascii() else _CHINESE_FRAME.sub("", text)
    sign = _SIGN_OF_MONEY.search(text)
    is_money = sign is not None and (sign[0] != "$" or reads_dollars)
    return _HEDGE.sub("", (_money(text) if is_money else None) or clean(text))


def _money(text: str) -> str | None:
    """A sum of money with the sign of a currency, cleaned and with the name of the unit; None for other texts."""
    text = text.strip(_WRAPPING).rstrip(",;.")
    delimited = DELIMITED.match(text)
    match = _MONEY.fullmatch((delimited[1] if delimited else text)[:MAX_ANSWER_CHARS].strip())
    number = clean(match[3]) if match else ""
    is_number = read_numeral(number) or read_numeral(number.replace(".", "").replace(",", "."))
    return f"{match[1]}{number} {_CURRENCIES.get(match[2], match[2])}" if match and is_number else None


def _spelled(text: str) -> str | None:
    r"""A number in words, also with a unit: ``\text{two hours}``. Without markup it may be a part of a sentence."""
    if (value := read_number_words(text)) is not None:
        return str(value)
    number, _, unit = text.rpartition(" ")
    value = read_number_words(number) if read_unit(unit) else None
    return None if value is None else f"{value} {unit}"


def _counted(text: str, bare: str) -> str | None:
    """A number without a remark in brackets, a share without its whole, an ordinal as number, a mixed number."""
    if ordinal := _ORDINAL.fullmatch(text):
        return ordinal["value"]
    explained = _EXPLAINED.fullmatch(bare)
    if explained and not DENIES.search(explained["remark"]) and not HEDGES.search(explained["remark"]):
        return explained["value"]
    if mixed := _MIXED.fullmatch(bare):
        return f"{mixed[1]} {mixed[2]}"
    match = _COUNTED.fullmatch(bare)
    if match is None or CHANGES_MEANING.search(match["noun"] or match["whole"]):
        return None
    value, noun = match["value"], match["noun"]
    if noun:
        return value if str(read_number_words(noun)) == value.strip() else f"{value.strip()} {noun}"
    return value if "%" in value or "/" in value else None


def _scaled(text: str) -> str | None:
    """The value in digits: "1.5 million dollars" is 1500000 dollars."""
    match = _SCALED.fullmatch(text)
    if match is None or (number := read_numeral(match["number"])) is None:
        return None
    value = number.value * _SCALES[match["scale"]]
    return f"{value.numerator}{match['rest']}" if value.denominator == 1 else None


def _in_chinese(text: str) -> str | None:
    """A Chinese number in digits, also with a unit: 三小时 is 3 小时, 1.2万 is 12000."""
    if (number := read_chinese_number(text)) is not None:
        return str(number)
    value, rest = chinese_prefix(text) or (None, "")
    is_counted = value is not None and (read_unit(rest) or counted_noun(rest) is not None)
    return f"{value} {rest.strip()}" if is_counted else None


def _compound(text: str) -> str | None:
    """A quantity in several units, each smaller than the one before, in the last unit: 5 feet 3 inches are 63 inches.

    Money is in the first unit: 42 dollars 50 cents are 42.5 dollars.
    None if an amount is as large as the unit before it: "1 hour 90 minutes" are two quantities.
    """
    text = f"{text} min" if _HOURS.fullmatch(text) else text
    amounts = list(_PART.finditer(text))
    if not 2 <= len(amounts) <= _MAX_PARTS or "".join(amount[0] for amount in amounts) != text:
        return None
    units = [read_unit(amount["unit"]) for amount in amounts]
    total = Fraction(0)
    for index, (amount, unit) in enumerate(zip(amounts, units, strict=True)):
        value = Fraction(amount["number"].replace(",", ""))
        if not unit or len(unit) != 1 or unit[0][1] != 1:
            return None
        if index:
            before = units[index - 1] or ()
            size = convert(Fraction(1), before, unit)
            is_joined = not amount["joint"] or {before[0][0], unit[0][0]} <= _JOINED_BY_COMMA
            if size is None or size <= 1 or value >= size or not is_joined:
                return None
            total *= size
        total += value
    is_money = units[-1] in _SMALL_MONEY
    return f"{total / 100} {amounts[0]['unit']}" if is_money else f"{total} {amounts[-1]['unit']}"
