"""The numbers that a text says in other ways than by digits: words, numerals, bases, sums, digits one by one.

Only what a reader can evaluate at sight is read. Other languages than English and Chinese are not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from engine.experience.steering import without_marks
from engine.mathematics.evaluation import evaluate
from engine.mathematics.parsing.notation import clean
from engine.mathematics.parsing.parser import parse_expression
from engine.mathematics.parsing.tree import FormulaSyntaxError
from engine.mathematics.quantities.chinese_numerals import chinese_numbers
from engine.mathematics.quantities.number_words import NO_DIVISORS, SMALL, cardinal, ordinal
from engine.mathematics.quantities.numerals import find_numerals
from engine.mathematics.values import FormulaValueError, WorkBudget

_MAX_CHARACTERS = 400
_MOST_OPERANDS = 8
_WORD = re.compile(r"[A-Za-z]+")
_ROMAN = re.compile(
    r"\b(?=[MDCLXVI]{2}|[mdclxvi]{3})(?:M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
    r"|m{0,3}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3}))\b"
)
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_BASE_NAMES = {"binary": 2, "octal": 8, "hex": 16, "hexadecimal": 16}
_PREFIXED = re.compile(r"\b0(?:[xX][0-9a-fA-F]{1,16}|[bB][01]{1,64}|[oO][0-7]{1,22})\b")
_IN_BASE = re.compile(
    r"\b(?P<digits>[0-9A-Fa-f]{1,64})\)?\s*(?:_\s*\{?\s*(?P<base>\d{1,2})|(?:\(|in\s+)?\s*base[\s-]*(?P<word>\d{1,2})"
    r"|(?:\(|in\s+)?\s*(?P<name>binary|octal|hex(?:adecimal)?)\b)"
    r"|\b(?P<before>binary|octal|hex(?:adecimal)?|base[\s-]*\d{1,2})[\s:]+(?P<after>[0-9A-Fa-f]{1,64})\b"
)
_REWRITES = tuple(
    (re.compile(pattern, re.IGNORECASE), new)
    for pattern, new in (
        (r"\^\{(\d+)\}", r"^\1"),
        (r"\ba (?=\d)", ""),
        (r"(?<![\d.])(?!\d0*(?:\.0*)? ?%)(\d+(?:\.\d+)?) ?%", r"(\1/100)"),  # 10 % and 50 % are common in prose
        (r"(\d+) (?:less than|fewer than|short of|taken from|subtracted from|below|before) (\d+)", r"(\2-\1)"),
        (r"(\d+) (?:more than|above|greater than|after|beyond) (\d+)", r"(\2+\1)"),
        (r"(?:add|increas|rais)(?:e|ing)? (\d+) (?:to|and|by) (\d+)", r"(\1+\2)"),
        (r"(?:subtract|tak)(?:e|ing)? (\d+) from (\d+)", r"(\2-\1)"),
        (r"multiply(?:ing)? (\d+) (?:by|with|and) (\d+)", r"(\1*\2)"),
        (r"divid(?:e|ing) (\d+) by (\d+)", r"(\1/\2)"),
        (r"(?:successor of|(?:just|number|integer) (?:after|above|following)) (\d+)", r"(\1+1)"),
        (r"(?:predecessor of|(?:just|number|integer) (?:before|below|preceding)) (\d+)", r"(\1-1)"),
        (r"(?:the )?sum of (\d+) and (\d+)", r"(\1+\2)"),
        (r"(?:the )?product of (\d+) and (\d+)", r"(\1*\2)"),
        (r"(?:the )?difference (?:of|between) (\d+) and (\d+)", r"(\1-\2)"),
        (r"(?:(?:the )?square root of |\\sqrt ?[{(]?)(\d+)[})]?", r"sqrt(\1)"),
        (r"(?:the )?square of (\d+)|(\d+) squared", r"(\1\2^2)"),
        (r"(?:the )?cube of (\d+)|(\d+) cubed", r"(\1\2^3)"),
        (r"\b(?:twice|double|two times) (?=[\d(])", "2*"),
        (r"\b(?:thrice|triple|three times) (?=[\d(])", "3*"),
        (r"\b(?:half|1/2) (?:of )?(?=[\d(])", "(1/2)*"),
        (r"\((\d+/\d+)\) of (?=[\d(])", r"(\1)*"),
        (r"(?<=[\d)]) ?(?:plus|added to|increased by|and then) ?(?=[\d(])", "+"),
        (r"(?<=[\d)]),? ?(?:minus|less|without|decreased by|reduced by) ?(?=[\d(])", "-"),
        (r"(?<=[\d)]),? ?(?:times|multiplied (?:by|with)|by|\\times|\\cdot|x) ?(?=[\d(])", "*"),
        (r"(?<=[\d)]) ?(?:divided by|over) ?(?=[\d(])", "/"),
        (r"(?<=[\d)]) ?(?:to the power(?: of)?|\*\*) ?(?=[\d(])", "^"),
        (r"\\frac\s*\{(\d+)\}\s*\{(\d+)\}", r"(\1/\2)"),
    )
)  # fmt: skip
_SUM = re.compile(r"(?:sqrt)?[\d(](?:[\d.()!+*/^-]|\s(?=[+*/^-])|(?<=[+*/^-])\s|sqrt(?=\())*")
_OPERATOR = re.compile(r"(?<=[\d)!])\s*([-+*/^])\s*")
_CALL = re.compile(r"\b(?:gcd|lcm|floor|ceil|round|min|max)\([\d.,+*/^ -]{1,40}\)")
_SINGLE_DIGITS = re.compile(
    r"(?<![\d.])(?:\d(?:(?:[\s,;_-]{1,2}|,? (?:and|then|followed by) )\d)+|[1-9]\d{0,2}(?: \d{3})+)(?![\d.])"
)
_A_PART = re.compile(r"\ba (?=(?:third|quarter|fifth|sixth|seventh|eighth|ninth|tenth) of\b)", re.IGNORECASE)
_NAMES_OF_DIGITS = list(SMALL)[:10]
_DIGITS = {**{word: str(digit) for digit, word in enumerate(_NAMES_OF_DIGITS)}, "oh": "0", "nought": "0"}
_DIGIT_WORDS = re.compile(rf"\b(?:{'|'.join(_DIGITS)})(?:[\s,-]+(?:{'|'.join(_DIGITS)}))+\b", re.IGNORECASE)
_LAST_RANKS = dict(
    zip("first second third fourth fifth sixth seventh eighth ninth".split(), _NAMES_OF_DIGITS[1:], strict=True)
)
_LAST_RANK = re.compile(rf"(?:(?<=and )|(?<=ed[ -])|(?<=ty[ -]))(?:{'|'.join(_LAST_RANKS)})\b", re.IGNORECASE)
_SIZES = {"hundred": 100, "thousand": 1000, "million": 10**6, "dozen": 12, "score": 20}
_SIZED = re.compile(rf"(\d+(?:\.\d+)?) ({'|'.join(_SIZES)})s?\b(?:(?: and)? (\d+))?", re.IGNORECASE)


@lru_cache(maxsize=256)  # a text is checked against several answers
def said_values(content: str) -> tuple[tuple[str, Fraction], ...]:
    """The values, each with the text before it, in a form in which number words are digits.

    Args:
        content: a text; of a long one the first 400 characters.
    """
    return tuple(_said_values(clean(content[:_MAX_CHARACTERS])))


def _said_values(text: str) -> Iterator[tuple[str, Fraction]]:
    text = "".join(str(unicodedata.decimal(one, one)) for one in without_marks(text))  # such as a ring around a digit
    for roman in filter(lambda found: found[0], _ROMAN.finditer(text)):
        yield text[: roman.start()], Fraction(_roman(roman[0].upper()))
    for number in _PREFIXED.finditer(text):
        yield text[: number.start()], Fraction(int(number[0], 0))
    for number in _IN_BASE.finditer(text):
        value = _in_base(number)
        if value is not None:
            yield text[: number.start()], value
    for chinese in chinese_numbers(text):
        yield text, chinese
    text = _ROMAN.sub(lambda roman: str(_roman(roman[0])) if roman[0].isupper() else roman[0], text)
    text = _LAST_RANK.sub(lambda rank: _LAST_RANKS[rank[0].lower()], text)  # two hundred and fourth
    spoken = _in_digits(_SIZED.sub(_sized, _DIGIT_WORDS.sub(_joined, _A_PART.sub("one ", text))))
    if not any(char.isdigit() for char in spoken):
        return
    for start, numeral in find_numerals(spoken):
        yield spoken[:start], numeral.value
    for digits in _SINGLE_DIGITS.finditer(spoken):
        yield spoken[: digits.start()], Fraction(re.sub(r"\D", "", digits[0]))
    yield from _sums(spoken)


def _joined(words: re.Match[str]) -> str:
    """Digits that words say one by one."""
    return "".join(_DIGITS[word] for word in _WORD.findall(words[0].lower()))


def _sized(found: re.Match[str]) -> str:
    """2 hundred and 4 as (2*100+4)."""
    return f"({found[1]}*{_SIZES[found[2].lower()]}+{found[3] or 0})"


def _roman(numeral: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in numeral]
    following = [*values[1:], 0]
    return sum(-value if value < after else value for value, after in zip(values, following, strict=True))


def _in_base(found: re.Match[str]) -> Fraction | None:
    digits = found["digits"] or found["after"]
    name = found["base"] or found["word"] or found["name"] or found["before"]
    base = _BASE_NAMES.get(name.lower()) or int(re.sub(r"\D", "", name))
    try:
        return Fraction(int(digits, base)) if 2 <= base <= 16 else None
    except ValueError:
        return None


def _in_digits(text: str) -> str:
    """A text with its number words in digits; three quarters are (3/4)."""
    found = [(match[0].lower(), match.start(), match.end()) for match in _WORD.finditer(text)]
    words = [word for word, _, _ in found]
    pieces: list[str] = []
    end = place = 0
    while place < len(words):
        reach = place + 1
        while reach < len(words) and not text[found[reach - 1][2] : found[reach][1]].strip(" -"):
            reach += 1
        value, after = cardinal(words[:reach], place)
        if value is None:
            place += 1
            continue
        divisor = ordinal(words[after]) if after < reach and words[after] not in NO_DIVISORS else None
        if divisor is not None:
            after += 1
        pieces += [text[end : found[place][1]], str(value) if divisor is None else f"({value}/{divisor})"]
        end, place = found[after - 1][2], after
    return "".join([*pieces, text[end:]])


def _sums(text: str) -> Iterator[tuple[str, Fraction]]:
    """The values of the sums, products and powers of numbers in a text, and of parts of a long one."""
    for pattern, new in _REWRITES:
        text = pattern.sub(new, text)
    text = _CALL.sub(lambda call: call[0] if (value := _value(call[0])) is None else f"({value})", text)
    for found in _SUM.finditer(text):
        written = found[0].strip().rstrip("+*/^-(.")
        pieces = _OPERATOR.split(written)
        operands = pieces[::2][:_MOST_OPERANDS]
        for first in range(len(operands)):
            if first and pieces[2 * first - 1] == "^":
                continue  # the 9+7 of 10^9+7
            for last in range(first, len(operands)):
                value = _value("".join(pieces[2 * first : 2 * last + 1]))
                if value is not None and (last > first or "(" in operands[first]):
                    yield text[: found.start()], value


def _value(formula: str) -> Fraction | None:
    if formula.count("(") != formula.count(")") or not re.search(r"[-+*/^(]", formula):
        return None
    try:
        return Fraction(evaluate(parse_expression(formula), {}, WorkBudget(units=2000, terms=1)))
    except (FormulaSyntaxError, FormulaValueError, ValueError, OverflowError):
        return None
