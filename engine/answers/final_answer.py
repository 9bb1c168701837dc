r"""The cleaned text of an answer of mathematics, for comparison: the second step from a reply to a verdict."""

from __future__ import annotations

import re

from engine.answers.plain_values import CHANGES_MEANING
from engine.answers.prose import MAX_ANSWER_CHARS, end_of_prose, is_prose
from engine.answers.reply import own_words, stated
from engine.mathematics.parsing.notation import clean
from engine.mathematics.quantities.number_words import read_number_words
from engine.mathematics.quantities.numerals import read_numeral

_SHORT = 20
_WRAPPING = " \t\n*`_#|\"'"
_DELIMITED = re.compile(r"^(?:\$\$?|\\\(|\\\[)\s*(.*?)\s*(?:\$\$?|\\\)|\\\])\.?$", re.DOTALL)
_COPULA = re.compile(r"[A-Za-z)}$]\s+(?:is|are|equals)\s")
_WORDS_BEFORE_MATH = re.compile(r"(?!US\$|R\$)\W*[A-Za-z]{2}[^$\\\d]*(?:\$|\\\(|\\\[)")
_CODES = "USD|EUR|GBP|CNY|RMB|JPY|INR|BRL"
_MONEY = re.compile(rf"([-+]?)\s*\\?(US\$|R\$|[$€£₹¥￥]|(?:{_CODES})(?![A-Za-z]))\s*([-+]?[\d.][\d,.{{}}\\!;: ]*)")
_SIGN_OF_MONEY = re.compile(rf"US\$|R\$|[$€£₹¥￥]|\b(?:{_CODES})\b")
_CURRENCIES = {"$": "dollars", "US$": "dollars", "€": "euro", "£": "GBP", "₹": "rupees", "R$": "BRL"}
_CURRENCIES |= dict.fromkeys("¥￥", "yensign")
_WHOLE_TEXT = re.compile(
    r"\\text(?:bf|rm)?\s*\{([^{}]*(?:\d|\s(?:is|are)\s)[^{}]*)\}|\\(?:mathrm|mathbf|mbox)\s*\{(-?\d[^{}]*)\}"
)
_ANNOUNCED_IN_TEXT = re.compile(r"^\\text\w*\s*\{[^{}]*(?:\b(?:is|are|equals)|[:=])\s*\}\s*(?=\S)", re.IGNORECASE)
_LABEL = re.compile(r"^\W*(?:ans|result|solution|total)\b[.*_]*\s*[:=][*_\s]*(?=\S)", re.IGNORECASE)
_DOTS = r"\s*(?:\.{3,}|…|\\[cl]?dots(?![A-Za-z]))"
_REPEATING = re.compile(
    rf"(?<![\d.])(?P<start>\d*\.\d*?)(?:(?P<digit>\d)(?P=digit){{2,}}|(?<=\.)(?P<period>\d{{2,6}})(?P=period)+){_DOTS}",
    re.ASCII,
)
"""A period of several digits begins at the point: e is 2.718281828..."""
_BRACKETED_PERIOD = re.compile(r"(?<=\d\.)(\d*)\((\d{1,6})\)(?!\w)", re.ASCII)
_LIST_WITHOUT_END = re.compile(rf",{_DOTS}(?=\W*$)")
_NUMBER_WORDS = re.compile(r"\\(?:text(?:bf|rm)?|mathrm|mbox)\s*\{((?:[^\W\d_]|[\s-]){2,80})\}")
_HEDGE = re.compile(
    r"^(?:\\(?:approx|sim|therefore|implies|Rightarrow)(?![A-Za-z])|approximately|approx\.?|about|roughly|around|exactly"
    r"|ca\.|circa|大?约)\s*(?=[-+\\\d.(])",
    re.IGNORECASE,
)
_CHINESE_FRAME = re.compile(r"\A(?![^\d]*[不没非无或到比多少超至第负减分月于])[\u4e00-\u9fff，,：:、\s]{1,20}(?=\d)")
_SENTENCE = re.compile(r"[A-Z][a-z]+ [a-z]{2,} (?!.*\b(?:almost|nearly|up|twice|double|between|unless|about)\b)")
_HEDGE_AT_END = re.compile(
    r"(?<=[\w)}%])\s*(?:\\text\w*\s*\{\s*)?[,(]?\s*(?:approx(?:imately|\.)?|roughly)\s*\.?\s*\)?\s*\}?$", re.IGNORECASE
)


def answer_text(text: str, *, reads_dollars: bool = True) -> str:
    """The cleaned text of an answer, for comparison; empty where there is none.

    Args:
        text: an answer, or a whole reply. In prose without any mark, the answer is the end of the last sentence, its
            only bold or math part, or the only number after its last "is", "=" or the like.
        reads_dollars: whether a number with one dollar sign before it is a sum of money ("$5" is 5 dollars). Else the
            sign is a delimiter of mathematics that has no partner.
    """
    if len(text) <= _SHORT and text.isalnum() and text.isascii():
        return clean(text)
    text = own_words(text)
    text = _ANNOUNCED_IN_TEXT.sub("", text, count=1)
    answer = stated(text)
    text = _LABEL.sub("", text, count=1) if answer is None else answer
    text = _with_period(_ANNOUNCED_IN_TEXT.sub("", text, count=1))
    text = text[1:-1] if text[:1] == text[-1:] == "'" else text
    spelled = _NUMBER_WORDS.fullmatch(text)
    if spelled and (number := read_number_words(spelled[1])) is not None:
        return str(number)
    in_text = _WHOLE_TEXT.fullmatch(text)
    text = (in_text[1] or in_text[2]) if in_text else text
    if is_prose(text) or _COPULA.search(text) or _WORDS_BEFORE_MATH.match(text) or _is_sentence(text):
        text = end_of_prose(text)
    text = text if text.isascii() else _CHINESE_FRAME.sub("", text)
    sign = _SIGN_OF_MONEY.search(text)
    is_money = sign is not None and (sign[0] != "$" or reads_dollars)
    return _without_hedge((_money(text) if is_money else None) or clean(text))


def _is_sentence(text: str) -> bool:
    """Whether a short text begins as a sentence, and no word in it changes its number: "Ann sold 72 clips"."""
    return _SENTENCE.match(text) is not None and CHANGES_MEANING.search(text) is None


def _with_period(text: str) -> str:
    r"""A text with ``0.\overline{3}`` for 0.333... and 0.(3), and ``\ldots`` at the end of a list that goes on."""
    if len(text) <= MAX_ANSWER_CHARS and any(mark in text for mark in (".", "…", "dots")):
        text = _LIST_WITHOUT_END.sub(r", \\ldots", text)
        text = _BRACKETED_PERIOD.sub(r"\1\\overline{\2}", text)
        text = _REPEATING.sub(lambda found: rf"{found['start']}\overline{{{found['digit'] or found['period']}}}", text)
    return text


def _money(text: str) -> str | None:
    """A sum of money with the sign of a currency, cleaned and with the name of the unit; None for other texts."""
    text = text.strip(_WRAPPING).rstrip(",;.")
    delimited = _DELIMITED.match(text)
    found = _MONEY.fullmatch((delimited[1] if delimited else text)[:MAX_ANSWER_CHARS].strip())
    number = clean(found[3]) if found else ""
    is_number = read_numeral(number) or read_numeral(number.replace(".", "").replace(",", "."))
    return f"{found[1]}{number} {_CURRENCIES.get(found[2], found[2])}" if found and is_number else None


def _without_hedge(text: str) -> str:
    """A cleaned text without "about" before the value and "(approx.)" after it."""
    if text[:1] in "-+0123456789" and "approx" not in text and "roughly" not in text:
        return text
    return _HEDGE_AT_END.sub("", _HEDGE.sub("", text))
