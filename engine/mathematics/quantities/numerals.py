"""Read numbers from text: their exact value, and the precision that the text shows. No heavy imports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from engine.mathematics.quantities.number_words import SMALL

_MAX_CHARS = 400
_MAX_EXPONENT = 400
NOISE = Fraction(1, 10**9)
_NOISE_AT_ZERO = Fraction(1, 10**12)
_MIN_FIGURES_OF_ANSWER = 4
_MIN_FIGURES_OF_TRUTH = 3
_PHYSICS_TOLERANCE = Fraction(1, 100)

_SHARES = {"%": 100, "‰": 1000}

_DIGITS = r"(?:[1-9]\d{0,2}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)"
_TIMES = r"\s*(?:\\times|\\cdot|\*|[xX])\s*"


def _power_of_ten(name: str) -> str:
    return rf"10\s*(?:\^|\*\*)\s*(?:\{{\s*(?P<{name}1>[+-]?\s*\d{{1,4}})\s*\}}|(?P<{name}2>[+-]?\d{{1,4}}))"


_SCIENTIFIC = re.compile(
    rf"(?P<sign>[+-]?)\s*(?:(?P<digits>{_DIGITS})"
    rf"(?:[eE](?P<e>[+-]?\d{{1,4}})(?![\d.])|{_TIMES}{_power_of_ten('p')})?|{_power_of_ten('q')})",
    re.ASCII,
)
_FRACTION = re.compile(
    r"(?P<sign>[+-]?)\s*(?:(?P<whole>\d+)\s+|(?P<glued>\d+)\s*(?=\\))?"
    r"(?:\\frac\s*\{\s*(?P<n1>[+-]?\d+)\s*\}\s*\{\s*(?P<d1>[+-]?\d+)\s*\}|(?P<n2>\d+)\s*/\s*(?P<d2>\d+))",
    re.ASCII,
)
_BASES = {word: base for word, base in SMALL.items() if 2 <= base <= 12 or base == 16} | {"0x": 16, "0b": 2, "0o": 8}
_BASED = re.compile(
    r"\(?\s*(?P<digits>[0-9A-Fa-f]*\d[0-9A-Fa-f]*)\s*\)?\s*(?:_\s*\{?\s*(?:\\text\s*\{\s*|\(|base\s+)?(?P<base>\d{1,2}|[a-z]+)\s*[)}]*"
    r"|\(?\s*(?:in\s+)?base\s+(?P<word>\d{1,2}|[a-z]+)\s*\)?)",
    re.ASCII,
)
_PREFIXED_BASE = re.compile(r"(?P<base>0[xXbBoO])(?P<digits>[0-9A-Fa-f]+)", re.ASCII)
_STARTS = re.compile(r"(?<![A-Za-z_\d])(?<!\d\.)(?=\d|\\frac)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number as written.

    Args:
        value: its exact value.
        rounded: written with a decimal point or a power of ten, so that it may be a rounded number.
        figures: significant figures shown; the zeros at the end of a plain integer count.
        place: the value of one unit of the last figure shown.
    """

    value: Fraction
    rounded: bool = False
    figures: int = 0
    place: Fraction = Fraction(1)


def based_numeral(text: str) -> tuple[str, int] | None:
    """The digits and the base of a whole text: ``101_2``, ``(2A)_{16}``, ``101 base 2``, ``0b101``; else None."""
    match = _PREFIXED_BASE.fullmatch(text.strip()) or _BASED.fullmatch(text.strip())
    if match is None:
        return None
    name = match["base"] or match["word"]
    base = int(name) if name.isdecimal() else _BASES.get(name.lower(), 0)
    digits = match["digits"].upper().lstrip("0") or "0"
    if not 2 <= base <= 36 or any(int(digit, 36) >= base for digit in digits):
        return None
    return digits, base


def read_numeral(text: str) -> Numeral | None:
    """Read a whole text as one number: 025, 1,024, -3/4, 1 1/2, 0.50, 3e8, 3.0\\times10^{8}, 50%; else None."""
    text = text.strip()
    if not text or len(text) > _MAX_CHARS:
        return None
    if text.isdecimal() and text.isascii():
        return Numeral(Fraction(int(text)), figures=len(text.lstrip("0")) or 1)
    if share := _SHARES.get(text[-1]):
        number = read_numeral(text[:-1].removesuffix("\\")) if text[-2:-1] not in _SHARES else None
        return number and replace(number, value=number.value / share, place=number.place / share)
    match = _SCIENTIFIC.fullmatch(text) or _FRACTION.fullmatch(text)
    return _numeral(match) if match else None


def numeral_prefix(text: str) -> tuple[Numeral, str] | None:
    """Read the longest number that a text starts with, and give it with the rest of the text."""
    if len(text) > _MAX_CHARS:
        return None
    text = text.lstrip()
    match = _FRACTION.match(text) or _SCIENTIFIC.match(text)
    number, rest = (_numeral(match), text[match.end() :]) if match else (None, "")
    return None if number is None or rest[:1].isdigit() else (number, rest)


def find_numerals(text: str) -> Iterator[tuple[int, Numeral]]:
    """The numbers in a cleaned text with their positions, without signs; digits inside a word are skipped."""
    end = 0
    for match in _STARTS.finditer(text):
        start = match.start()
        excerpt = text[start : start + _MAX_CHARS]
        prefix = numeral_prefix(excerpt) if start >= end else None
        if prefix is not None:
            end = start + len(excerpt) - len(prefix[1])
            yield start, prefix[0]


def _numeral(match: re.Match[str]) -> Numeral | None:
    return (_fraction if match.re is _FRACTION else _scientific)(match)


def _scientific(match: re.Match[str]) -> Numeral | None:
    digits = (match["digits"] or "1").replace(",", "")
    exponent = match["e"] or match["p1"] or match["p2"] or match["q1"] or match["q2"]
    power = int(exponent.replace(" ", "")) if exponent else 0
    if abs(power) > _MAX_EXPONENT:
        return None
    whole, _, decimals = digits.partition(".")
    place = Fraction(10) ** (power - len(decimals))
    value = int(f"{match['sign']}{whole}{decimals}") * place
    return Numeral(value, bool(decimals or exponent), len((whole + decimals).lstrip("0")) or 1, place)


def _fraction(match: re.Match[str]) -> Numeral | None:
    below = int(match["d1"] or match["d2"])
    if below == 0:
        return None
    value = Fraction(int(match["n1"] or match["n2"]), below)
    whole = match["whole"] or match["glued"]
    if whole:
        if not 0 < value < 1:  # 2 5/3 is no mixed number, and 2\frac{5}{3} is a product
            return None
        value += int(whole)
    return Numeral(-value if match["sign"] == "-" else value)


def same_number(answer: Numeral, truth: Numeral, rel_tol: float | None = None) -> bool:
    """Whether an answer equals the true number, by the conventions of mathematics.

    * Equal values are accepted in any notation.
    * If the truth is an integer, the answer must be that integer. A decimal within a relative 1e-9 of it is accepted
      as float rounding: 79.99999999999999 is 80; 246.67 is not 247.
    * If the truth is exact but not an integer, a decimal is accepted with at least 4 significant figures, rounded or
      truncated at its last figure (for 2/3: 0.6667 and 0.6666, but not 0.667 or 0.6668).
    * If the truth is a decimal with 3 or more figures, it counts as rounded: every value within half a unit of its
      last figure is accepted (pi for 3.14). With fewer figures only the value itself is accepted.

    Args:
        rel_tol: replaces these rules by |answer - truth| <= rel_tol |truth|.
    """
    if rel_tol is not None:
        return abs(answer.value - truth.value) <= Fraction(rel_tol) * abs(truth.value)
    is_shown = answer.value == truth.value or (answer.rounded and shows(answer, truth.value))
    return is_shown or rounds_to(answer.value, truth)


def shows(answer: Numeral, exact: Fraction) -> bool:
    """Whether a decimal equals an exact value up to float rounding or, if that is no integer, in 4 or more figures."""
    difference = abs(answer.value - exact)
    if difference <= (NOISE * abs(exact) if exact else _NOISE_AT_ZERO) and difference < Fraction(1, 2):
        return True
    if exact.denominator == 1 or answer.figures < _MIN_FIGURES_OF_ANSWER:
        return False
    is_cut = 0 <= abs(exact) - abs(answer.value) < answer.place and (exact > 0) == (answer.value > 0)
    return 2 * difference <= answer.place or is_cut


def rounds_to(exact: Fraction, truth: Numeral) -> bool:
    """Whether a decimal truth is the rounded form of an exact value. 80.0 is an integer written as a float."""
    if not truth.rounded or truth.figures < _MIN_FIGURES_OF_TRUTH or truth.value.denominator == 1:
        return False
    return 2 * abs(exact - truth.value) <= truth.place


def physics_tolerance(truth: Numeral, rel_tol: float | None = None) -> Fraction:
    """How far a measured quantity may be from the truth, in the truth's unit.

    Half a unit of the truth's last figure (a rounded 1.2 can be any value from 1.15 to 1.25), or
    1 % where that is larger (constants differ in the third figure: authors choose g = 9.8, 9.81 or
    10 m/s^2, so 9.8 is accepted for 9.81). For a truth of one figure half a unit would be too wide
    ("5 m" would accept 4.5 m), so the tolerance is 1 %. For a truth of zero it is half a unit of the last
    decimal, or 0.
    """
    if rel_tol is not None:
        return Fraction(rel_tol) * abs(truth.value)
    shows_figures = truth.figures > 1 or (truth.value == 0 and truth.place < 1)
    is_fraction = not truth.rounded and truth.value.denominator != 1
    half = truth.place / 2 if shows_figures and not is_fraction else Fraction(0)
    return max(half, _PHYSICS_TOLERANCE * abs(truth.value))
