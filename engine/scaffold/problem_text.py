"""Whether the known values of a scaffold occur in the text of its problem."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

from engine.mathematics.parsing.notation import clean
from engine.mathematics.quantities.chinese_numerals import chinese_numbers
from engine.mathematics.quantities.number_words import cardinals
from engine.mathematics.quantities.numerals import find_numerals
from engine.mathematics.values import Value, agree
from engine.records import Scaffold
from engine.scaffold.given_values import read_known

FREE: frozenset[int] = frozenset({0, 1, 2, 10, 100, 1000})
"""Numbers of formulas, which a known may have without being in the text."""
CONSTANTS = (
    math.pi, math.e, 9.80665, 2.99792458e8, 6.6743e-11,  # free fall, light, gravitation
    6.62607015e-34, 1.602176634e-19, 1.380649e-23, 6.02214076e23, 8.314462618,  # h, e, k, Avogadro, R
    8.8541878128e-12, 8.9875517923e9, 4e-7 * math.pi, 5.670374419e-8,  # epsilon_0, Coulomb, mu_0, Stefan-Boltzmann
    9.1093837015e-31, 1.67262192369e-27, 273.15, 101325,  # electron, proton, 0 degrees Celsius, atmosphere
)  # fmt: skip
"""Constants of nature in SI units, which need not be in the text either, also in fewer figures: 9.8, 3e8."""
_FEWER_FIGURES = 2e-3

_OVER = re.compile(r"\{\s*(\d+)\s*\\over\s+(\d+)\s*\}")
_LARGEST = 10**300  # larger integers are no floats
_MAX_TEXT = 20_000
_MAX_KNOWN = 200
_MOST_NUMBERS = 1000
_MOST_KNOWNS = 500


def knowns_in_text(scaffold: Scaffold, text: str) -> float:
    """The share of a scaffold's knowns that the text gives, in [0, 1]; 0 without knowns.

    A number is given if the text writes it (in digits or words, as a fraction, or as a percentage), up to the sign, or
    if it is one of :data:`FREE` or :data:`CONSTANTS`. A text such as ``5 m`` or ``sqrt(41)`` is given if all numbers in
    it are; one without numbers, if the problem has it literally. Of a list all items must be given. A number that
    follows from the text, such as a length in another unit, is not given.

    Args:
        scaffold: the scaffold; its first 500 knowns count.
        text: the text of the problem; its first 20,000 characters are read.
    """
    text = text[:_MAX_TEXT]
    numbers = _numbers(text)
    given = [_is_given(value, text, numbers) for value in list(scaffold.knowns.values())[:_MOST_KNOWNS]]
    return sum(given) / len(given) if given else 0.0


def _is_given(value: Any, text: str, numbers: frozenset[Fraction]) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_is_given(item, text, numbers) for item in value[:_MOST_KNOWNS])
    known = read_known(value)
    if known is not None and _has(numbers, known.value):
        return True
    if not isinstance(value, str):
        return False
    written = [numeral.value for _, numeral in find_numerals(clean(value[:_MAX_KNOWN]))]
    return all(_has(numbers, number) for number in written) if written else value.strip() in text


def _has(numbers: frozenset[Fraction], value: Value) -> bool:
    size = value if value >= 0 else -value
    if size in numbers or size in FREE:
        return True
    if isinstance(size, float) and any(agree(size, number) for number in numbers):
        return True
    return size < _LARGEST and any(math.isclose(size, constant, rel_tol=_FEWER_FIGURES) for constant in CONSTANTS)


@lru_cache(maxsize=256)  # the scaffolds of a group have one text
def _numbers(text: str) -> frozenset[Fraction]:
    """The numbers that a text writes, without signs."""
    text = _OVER.sub(r"\\frac{\1}{\2}", text)
    return frozenset(itertools.islice(_written(clean(text)), _MOST_NUMBERS))


def _written(text: str) -> Iterator[Fraction]:
    for start, numeral in find_numerals(text):
        yield numeral.value
        if re.match(r"[\d.,]+\s*(?:\\?%|percent)", text[start : start + 40]):
            yield numeral.value / 100
    yield from cardinals(text)
    yield from chinese_numbers(text)
