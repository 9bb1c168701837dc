"""Compare single values without heavy libraries: numbers, quantities in the same unit, and words.

Most answers are decided here, in microseconds. The result is None where algebra or a unit conversion is needed.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from engine.answers.naming import Named
from engine.answers.words import CHANGES_MEANING, MARKUP
from engine.mathematics.quantities.chinese_numerals import counted_noun
from engine.mathematics.quantities.numerals import Numeral, based_numeral, numeral_prefix, read_numeral, same_number
from engine.mathematics.quantities.unit_table import DOUBTFUL
from engine.mathematics.quantities.unit_text import Powers, read_unit
from engine.mathematics.quantities.units import convert, read_quantity, same_quantity

Decision = tuple[bool, str]
"""Whether one value is correct, and the method of this decision."""

_TEXT_TAIL = re.compile(
    r"^(.*?\S)\s*((?:\\(?:text|mathrm|mbox|textrm|rm)\s*\{[^{}]*\}|\^\s*\{?\s*\\circ\s*\}?)(?:\s*\^\s*\{?\s*-?\d\s*\}?)?"
    r"|(?<=[\d)}i\s])(?:[^\W\d_]{3,}|[^\x00-\x7f]+))$"
)
_ANY_THING = "个"
"""A measure word without a noun: 5个 may be 5个苹果."""
_AREA = re.compile(r"\s*[a-z]\s*\^\s*(?:[23]|\{\s*[23]\s*\})")
_MARKED_UNIT = re.compile(r"\\(?:text|mathrm|mbox|textrm|rm)|[A-Za-z]{2}|\\circ|[^\x00-\x7f]")
_PROSE_TAIL = re.compile(r"^\s+[A-Za-z]+(?:[\s,;:'-]+[A-Za-z]+)*\.?$")
_REMARKS = frozenset(
    "in total all altogether overall exactly is the final correct right answer of them these those for here left "
    "remaining each apiece".split()
)
_IRREGULAR_PLURALS = frozenset(
    "people children men women feet teeth mice geese dice data sheep fish deer series species vertices matrices "
    "indices radii loci maxima minima formulae increase decrease profit loss gain discount chance probability".split()
)
_NO_PLURALS = frozenset("is was has this thus its yes as us less plus minus".split())
_WORDS = re.compile(r"[A-Za-zÀ-ɏ][A-Za-zÀ-ɏ\s'.,-]*")
_OF_WHAT = re.compile(r"(?<=s)\s+of\s.*")
_UNIT_OF = re.compile(r"(?P<unit>.*?[A-Za-z}])\s+(?:of\s+[a-z][a-z\s]*|old|long|deep|tall|wide|high|thick|away|apart)")
_UNITS = re.compile(r"\s*(?:(?:sq|cu|square|cubic)\.?\s+)?(?:units?|u(?=\s*\^))\.?(?:\s*\^\s*\{?\s*[23]\s*\}?)?")
_MATH_WORDS = re.compile(r"(?i)sqrt|pi\b|sin|cos|tan|log|ln|exp|inf|alpha|beta|theta|gamma|lambda")
_LONG_WORD = re.compile(r"[A-Za-z]{4,}")
_ARTICLE = re.compile(r"(?:the|an?)\s+(?=[A-Za-z\s'-]*[A-Za-z]{3})", re.IGNORECASE)
_SHORT_WORD = re.compile(
    r"[A-Za-z][aeiouy][a-z]|[A-Za-z][a-z][aeiouy]|[AEIOUaeiou][a-z]{2}|[A-Z][AEIOU][A-Z]|(?i:no|ok)"
)
_ATOM = r"[A-Z][a-z]?\d*"
_IN_ORDER = re.compile(
    r"[A-H]{3,}|[HT]{3,}|[P-S]{3,}|[X-Z]{3,}"  # points of a figure, choices or coins; other capitals may be factors
    rf"|(?=.*\d)(?:{_ATOM}|\((?:{_ATOM})+\)\d*){{2,}}"  # a molecule
    r"|\d+-\d+|\d\d?/\d\d?/\d{4}|0[xXbBoO]\w+",  # a range or a score, a date, a number in code
    re.ASCII,
)
"""Texts whose signs have an order: they are no products, differences and quotients."""
_DAY_OF_YEAR = re.compile(r"[12]\d{3}-\d\d?-\d\d?", re.ASCII)
_UPRIGHT = re.compile(r"\\mathrm\s*\{\s*[A-Z][a-z]?[A-Z]")
"""A formula of several elements, as ``\\ce`` and ``\\mathrm`` mark it: NO is no No."""
_LEADING_ZERO = re.compile(r"\b0(?=\d)")
_CHOICES = Named((), tuple("ABCDEFGHIJ"))
_LETTER_OF_CHOICE = re.compile(r"\(?([A-Z])\)?")
_LETTER_WITH_TEXT = re.compile(r"(?:\(([A-H])\)|([A-H])[.)])\s+\S.*", re.DOTALL)
_FURTHER_CHOICE = re.compile(r"(?<![\w'(])\(?[A-H](?:\)|[.:]\s)")
"""Where the choices are listed: "A) 3 B) 4"."""
_SPACED_THOUSANDS = re.compile(r"^[+-]?[1-9]\d{0,2}(?:[ ]\d{3})+(?!\d)(?![ ]\d)", re.ASCII)
_MARKED_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:(?:\.\d{3}){2,}|(?:['_]\d{3})+)", re.ASCII)
_TEN = 10
_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)")  # "20 4" is not 204
_ONE_SIGN = re.compile(r"([_^])\{(\w)\}")
DEGREE: Powers = read_unit("deg") or ()


def same_plain_value(answer: str, truth: str, rel_tol: float | None) -> Decision | None:
    """Compare two cleaned texts as values of mathematics.

    A unit or a noun on one side only is ignored ("5 cm" is 5, "33 ways" is 33); units on both sides must
    agree.
    """
    answer, truth = _with_joined_digits(answer), _with_joined_digits(truth)
    left, right = read_numeral(answer), read_numeral(truth)
    if left and right:
        return _numbers(left, right, rel_tol)
    if answer == truth:
        return True, "text"
    decision = _in_bases(answer, truth)
    if decision is not None:
        return decision
    bare, target = (_LEADING_ZERO.sub("", re.sub("[_{} ]", "", MARKUP.sub(r"\1", text))) for text in (answer, truth))
    are_in_order = _IN_ORDER.fullmatch(bare) and _IN_ORDER.fullmatch(target) and ("_" not in answer or "_" not in truth)
    is_name = any(map(_DAY_OF_YEAR.fullmatch, (bare, target))) or any(map(_UPRIGHT.match, (answer, truth)))
    if are_in_order or is_name:
        return bare == target, "text"
    (answer_core, answer_unit), (truth_core, truth_unit) = without_tails(answer, truth)
    left, right = left or read_numeral(answer_core), right or read_numeral(truth_core)
    if left and right and (answer_unit == truth_unit or not answer_unit or not truth_unit):
        decision = _numbers(left, right, rel_tol)
        if decision[0] or DEGREE not in (answer_unit, truth_unit):
            return decision
    return _words(answer, truth, truth_is_number=right is not None)


def same_plain_quantity(answer: str, truth: str, rel_tol: float | None) -> Decision | None:
    """Compare two cleaned texts as quantities of physics, if both are numbers with a unit or none."""
    answer, truth = _with_joined_digits(answer), _with_joined_digits(truth)
    right = read_quantity(truth)
    if right is None:
        return _words(answer, truth, truth_is_number=False)
    left = read_quantity(answer)
    if left is None or left.number is None or right.number is None:
        return None
    is_same = same_quantity(left, right, rel_tol)
    if not is_same and left.unit != right.unit and not (left.unit and right.unit):  # "5 m" may be a product
        return None
    return is_same, "units" if left.unit or right.unit else "numeric"


class Tail(NamedTuple):
    """What follows a value: a unit, or the nouns of what is counted, in the singular."""

    unit: Powers = ()
    nouns: frozenset[str] = frozenset()


def without_tails(answer: str, truth: str) -> tuple[tuple[str, Powers], tuple[str, Powers]]:
    """Split both texts into value and unit (see ``without_tail``), unless they count different things."""
    answer_core, answer_tail = without_tail(answer)
    truth_core, truth_tail = without_tail(truth, expected=answer_tail.unit)
    if truth_tail.unit:
        answer_core, answer_tail = without_tail(answer, expected=truth_tail.unit)
    nouns = answer_tail.nouns | truth_tail.nouns
    are_different = answer_tail.nouns and truth_tail.nouns and not answer_tail.nouns & truth_tail.nouns
    is_counted = (answer_tail.unit and truth_tail.nouns) or (truth_tail.unit and answer_tail.nouns)
    if (are_different and _ANY_THING not in nouns) or (is_counted and "unit" not in nouns):
        return (answer, ()), (truth, ())
    return (answer_core, answer_tail.unit), (truth_core, truth_tail.unit)


def without_tail(text: str, expected: Powers = ()) -> tuple[str, Tail]:
    """Split a text into the value and the unit or the counted things after it ("33 ways").

    "5 m" is not split, because m may be an unknown, unless the other side is a length (``expected``). Words after a
    number are dropped only if they are a remark ("in total") or contain a plural ("33 ways"), and none of them changes
    the number ("42 lakh", "42 wrong").
    """
    prefix = numeral_prefix(text)
    if prefix and prefix[1].strip():
        rest = re.sub(r"\A\s*%(?=\s*[A-Za-z])", "", prefix[1])  # a share of something is a number
        head = text[: len(text) - len(rest)].rstrip()
        words = MARKUP.sub(r" \1", rest)
        if _UNITS.fullmatch(words):
            return head, Tail(nouns=frozenset(["unit"]))
        unit_of = _UNIT_OF.fullmatch(words) if not CHANGES_MEANING.search(words) else None
        unit = read_unit(unit_of["unit"]) if unit_of and read_unit(unit_of["unit"]) else read_unit(rest)
        is_marked = _MARKED_UNIT.search(rest) or (prefix[0].rounded and _AREA.fullmatch(rest))
        is_sure = is_marked and DOUBTFUL.isdisjoint(words.split())
        if unit and (is_sure or (expected and convert(Fraction(1), unit, expected) is not None)):
            return head, Tail(unit)
        noun = counted_noun(words)
        is_one = prefix[0].value == 1
        tail = _counted(words, is_one=is_one) if noun is None else Tail(nouns=frozenset([noun]))
        if tail is not None:
            return head, tail
    match = _TEXT_TAIL.match(text) if "\\" in text and text[-1:] not in ")]" else None
    if match:
        unit = read_unit(match[2])
        words = MARKUP.sub(r"\1", match[2])
        tail = Tail(unit) if unit is not None else _counted(f" {words}", is_one=False)
        if tail is not None and not CHANGES_MEANING.search(words):
            return match[1], tail
    return text, Tail()


def _counted(words: str, is_one: bool) -> Tail | None:
    """The nouns in the words after a number; None where the words may change the number."""
    if not _PROSE_TAIL.match(words) or CHANGES_MEANING.search(words):
        return None
    listed = re.findall(r"[a-z]+", _OF_WHAT.sub("", words).lower())
    if all(word in _REMARKS for word in listed):
        return Tail()
    nouns = frozenset(filter(None, map(_singular, listed)))
    if not nouns and not is_one:
        return None
    return Tail(nouns=nouns or frozenset(listed))


def _singular(word: str) -> str | None:
    """The singular of a plural; None for other words."""
    if word in _IRREGULAR_PLURALS:
        return word
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")) or word in _NO_PLURALS:
        return None
    return word.removesuffix("s")


def as_words(text: str) -> str:
    """A text as lower-case words without \\text{}, punctuation and an article at its start.

    Where no word is long it may be a formula: "mg" is not "Mg", "a-b" is not "a b", and "x'" is not "x".
    """
    text = _ARTICLE.sub("", MARKUP.sub(r"\1", text).strip(), count=1)
    if _LONG_WORD.search(text) or not text.isascii():
        return " ".join(re.sub(r"[^\w\s]", " ", text).split()).casefold()
    text = re.sub(r"\s*-\s*", "-", " ".join(re.sub(r"[^\w\s'-]", " ", text).split()))
    return re.sub(r"[A-Za-z]+", lambda word: word[0].casefold() if _SHORT_WORD.fullmatch(word[0]) else word[0], text)


def written_alike(answer: str, truth: str) -> bool:
    """Compare answers as text without spaces; words are compared without case and punctuation."""
    answer, truth = MARKUP.sub(r"\1", answer), MARKUP.sub(r"\1", truth)
    if _WORDS.fullmatch(truth) and _WORDS.fullmatch(answer):
        return as_words(answer) == as_words(truth)
    answer, truth = (_ONE_SIGN.sub(r"\1\2", _SPACE.sub("", text.strip())) for text in (answer, truth))
    return answer == truth != ""


def _with_joined_digits(text: str) -> str:
    """1 000, 1'000 and 1.000.000 without the marks between their digits."""
    if _MARKED_THOUSANDS.fullmatch(text):
        return re.sub("[.'_]", "", text)
    return _SPACED_THOUSANDS.sub(lambda number: number[0].replace(" ", ""), text, count=1)


def _in_bases(answer: str, truth: str) -> Decision | None:
    """Compare numbers in a base other than ten by digits and base; the base may be left out in the answer."""
    answer, truth = MARKUP.sub(r"\1", answer).strip(), MARKUP.sub(r"\1", truth)
    left, right = based_numeral(answer), based_numeral(truth)
    if right is not None and right[1] != _TEN:
        return left == right or (left is None and answer.upper().lstrip("0") == right[0].lstrip("0")), "integer"
    exact = read_numeral(truth if right is None else right[0])
    return None if left is None or exact is None else (int(*left) == exact.value, "integer")


def _numbers(answer: Numeral, truth: Numeral, rel_tol: float | None) -> Decision:
    method = "rational"
    if answer.rounded or truth.rounded or rel_tol is not None:
        method = "numeric"
    elif answer.value.denominator == truth.value.denominator == 1:
        method = "integer"
    return same_number(answer, truth, rel_tol), method


def _words(answer: str, truth: str, truth_is_number: bool) -> Decision | None:
    plain_answer, plain_truth = MARKUP.sub(r"\1", answer).strip(), MARKUP.sub(r"\1", truth).strip()
    if truth_is_number:
        is_word = _WORDS.fullmatch(plain_answer) and _LONG_WORD.search(plain_answer)
        return (False, "text") if is_word and not _MATH_WORDS.search(plain_answer) else None
    are_words = _WORDS.fullmatch(plain_truth) is not None
    if are_words and written_alike(plain_answer, plain_truth):
        return True, "text"
    letter = _LETTER_OF_CHOICE.fullmatch(plain_truth)
    with_text = _LETTER_WITH_TEXT.fullmatch(plain_truth) if not letter else None
    if (letter or with_text) and not (len(plain_answer) == 1 and plain_answer.islower()):
        right = letter[1] if letter else plain_truth.lstrip("(")[0]
        is_read = letter or _LETTER_OF_CHOICE.fullmatch(plain_answer)
        choice = _CHOICES.said(plain_answer) if is_read else None
        if choice is not None:
            is_listed = with_text and _FURTHER_CHOICE.search(plain_truth[2:])
            return "ABCDEFGHIJ"[choice] == right and not is_listed, "text"
    is_other = are_words and _LONG_WORD.search(plain_truth) and not _MATH_WORDS.search(plain_truth)
    return (False, "text") if is_other else None
