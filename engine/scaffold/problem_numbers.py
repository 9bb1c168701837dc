r"""The numbers that the text of a problem gives: written ones, number words, formulas, and what they imply.

A number is *stated* if the text writes it: ``1,024``, ``3/4``, ``\frac{\sqrt{3}}{2}``, ``25 %``, "twenty-five",
"half". It is *implied* if it follows from what the text writes in one usual step: a unit in another size (30 minutes
are 0.5 h), the rest of a percentage (75 % of "25 %"), a rate (1/6 of "in 6 hours"), or a word that has a number (a
square has 4 sides).
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from engine.mathematics.evaluation import CONSTANTS, evaluate
from engine.mathematics.parsing.notation import clean
from engine.mathematics.parsing.parser import parse_expression
from engine.mathematics.parsing.tree import Apply, FormulaSyntaxError, Name, Node, Number, Series, children
from engine.mathematics.quantities.numerals import find_numerals
from engine.mathematics.quantities.unit_text import Powers, read_unit
from engine.mathematics.quantities.units import convert, from_base_units
from engine.mathematics.values import FormulaValueError, Value, WorkBudget
from engine.scaffold.conventions import is_distinctive
from engine.scaffold.number_words import IMPLIED_BY_WORD, spoken_numbers

_MAX_TEXT = 20_000
_MAX_NUMBERS = 400
_MAX_FORMULAS = 200
_MAX_COMMAND = 300
_MAX_EXPONENT = 300
_MOST_TARGETS = 40
_ROUNDED = 5e-4
"""Relative difference of a number that a scaffold writes in three or four figures (0.866 for the root of 3/4)."""
_EQUAL = 1e-9

_SIBLINGS = (
    ("kilometer", "meter", "centimeter", "millimeter"),
    ("metric_ton", "kilogram", "gram", "milligram"),
    ("week", "day", "hour", "minute", "second", "millisecond"),
    ("liter", "milliliter"),
    ("degree", "radian", "turn"),
    ("mile", "yard", "foot", "inch"),
    ("kilonewton", "newton"),
    ("kilojoule", "joule"),
    ("kilowatt", "watt"),
    ("kilopascal", "pascal"),
)
"""Units that people convert into each other without being asked."""

_PLAIN = re.compile(r"\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+", re.ASCII)
_BROKEN_FRACTION = re.compile(r"(?:\\[dtc]?f|\x0c|\tf)rac(?![A-Za-z])")  # JSON read "\f" or "\t" as one character
_OVER = re.compile(r"\{([^{}]*)\\over(?![a-z])([^{}]*)\}")
_FORMULA = re.compile(r"\$+([^$]{1,400})\$+|\\\[(.{1,400}?)\\\]|\\\((.{1,400}?)\\\)", re.DOTALL)
_COMMAND = re.compile(r"\\(?:frac|sqrt|binom)(?![A-Za-z])")
_SEPARATORS = re.compile(r"[,;:=<>&]|\\(?:le|ge|ne|in|cdots|ldots|dots|quad|text|approx|equiv|to|and)(?![a-z])|\\\\")
_AFTER = re.compile(r"[\s~-]*(?P<unit>[A-Za-zΩµ°\\^{}/*·\d\s().-]{1,40})")
_DURATION = re.compile(
    r"(?<!\d)(\d{1,9})[\s-]*(?:hours?|hrs?|h)\b[\s,]*(?:and\s+)?(\d{1,9})[\s-]*(?:minutes?|min)\b"
    r"|(?<!\d)(\d{1,9})[\s-]*(?:minutes?|min)\b[\s,]*(?:and\s+)?(\d{1,9})[\s-]*(?:seconds?|sec|s)\b"
    r"|(?<!\d)(\d{1,9})[\s-]*(?:feet|foot|ft)\b[\s,]*(?:and\s+)?(\d{1,9})[\s-]*(?:inch|inches|in)\b"
)


class _Magnitudes:
    """Numbers without their signs; decimals are looked up with a tolerance of their last figure."""

    def __init__(self, numbers: Iterable[Fraction]) -> None:
        self._exact = frozenset(abs(number) for number in numbers)
        self._floats = sorted(float(number) for number in self._exact if number < 10**_MAX_EXPONENT)

    def __len__(self) -> int:
        return len(self._exact)

    def __iter__(self) -> Iterator[Fraction]:
        return iter(self._exact)

    def __contains__(self, value: Value) -> bool:
        return self.nearest(value) is not None

    def nearest(self, value: Value) -> Fraction | float | None:
        """The number that a value is, without its sign; None if it is none of them."""
        try:
            exact = abs(Fraction(value))
            rounded = float(exact)
        except (OverflowError, ValueError):
            return None
        if exact in self._exact:
            return exact
        if isinstance(value, int):
            return None
        place = bisect_left(self._floats, rounded * (1 - _ROUNDED))
        while place < len(self._floats) and self._floats[place] <= rounded * (1 + _ROUNDED):
            if _is_near(value, self._floats[place]):
                return self._floats[place]
            place += 1
        return None


@dataclass(frozen=True, eq=False)
class ProblemNumbers:
    """The numbers of a problem's text.

    Args:
        stated: the numbers that the text writes.
        implied: values that follow from them or from words in one step.
        quantities: the written numbers with the unit that follows them.
        has_percentages: whether the text has percentages.
    """

    stated: _Magnitudes
    implied: _Magnitudes
    quantities: tuple[tuple[Fraction, Powers], ...]
    has_percentages: bool = False

    def __bool__(self) -> bool:
        return bool(self.stated or self.implied)

    def states(self, value: Value) -> bool:
        """Whether the text writes a number, up to its sign; one that is no integer may be rounded to three figures."""
        return value in self.stated

    def gives(self, value: Value, unit: Powers = ()) -> bool:
        """Whether the text states or implies a number; ``unit`` is the unit that the scaffold writes with it."""
        if value in self.stated or value in self.implied:
            return True
        return any(True for _ in self.sources_in_other_units(value, unit))

    def sources_in_other_units(self, value: Value, unit: Powers = ()) -> Iterator[Fraction]:
        """The written numbers that are a value in another unit."""
        return (number for number, written in self.quantities if _is_converted(value, unit, number, written))

    @cached_property
    def distinctive(self) -> frozenset[float]:
        """The written numbers that a formula for other problems would not have, without their signs."""
        return frozenset(float(number) for number in self.stated if is_distinctive(number))


@lru_cache(maxsize=256)
def problem_numbers(text: str) -> ProblemNumbers:
    """Read the numbers of a problem's text; of a very long text the first 20,000 characters. Never raises."""
    text = _one_notation(text[:_MAX_TEXT])
    cleaned = clean(text)
    found = itertools.chain(_written(cleaned), spoken_numbers(cleaned), _formula_values(text))
    stated = set(itertools.islice(found, _MAX_NUMBERS))
    quantities = tuple(_quantities(cleaned))
    implied = {value for word in re.findall(r"[a-z]+", cleaned.lower()) for value in IMPLIED_BY_WORD.get(word, ())}
    implied.update(_durations(cleaned))
    for value in stated:
        implied.update(_followers(value))
    has_percentages = "%" in cleaned or "percent" in cleaned
    if has_percentages:
        implied.update(value for number in stated for value in _of_percentage(number))
    return ProblemNumbers(_Magnitudes(stated), _Magnitudes(implied), quantities, has_percentages)


def _one_notation(text: str) -> str:
    text = _BROKEN_FRACTION.sub(r"\\frac", text)
    text = re.sub(r"(?<=\d)(?:\\!|\{,\}|\\,|,\\!)+(?=\d{3})", "", text)
    for _ in range(3):  # {1 \over {2 \over 3}} has its inner fraction first
        text = _OVER.sub(r"\\frac{\1}{\2}", text)
    return text


def _written(text: str) -> Iterator[Fraction]:
    """All digits of a text as numbers, also those in x^4 or log_2; ``1,100`` is 1100 and also 1 and 100."""
    for match in _PLAIN.finditer(text):
        if len(match[0]) <= _MAX_EXPONENT:
            yield Fraction(match[0].replace(",", ""))
            if "," in match[0]:
                yield from (Fraction(part) for part in match[0].split(","))
    yield from (numeral.value for _, numeral in find_numerals(text))


def _formula_values(text: str) -> Iterator[Fraction]:
    """The values of the constant formulas in a text, and of the constant parts of other formulas."""
    pieces: list[str] = []
    for match in _FORMULA.finditer(text):
        pieces += _SEPARATORS.split(next(part for part in match.groups() if part is not None))
    for match in _COMMAND.finditer(text):
        pieces.append(_command_with_groups(text, match.start(), match.end()))
    for piece in pieces[:_MAX_FORMULAS]:
        if not re.search(r"\d", piece):
            continue
        try:
            tree = parse_expression(clean(piece).strip("()[] "))
        except FormulaSyntaxError:
            continue
        yield from constant_parts(tree)


def _command_with_groups(text: str, start: int, end: int) -> str:
    """A LaTeX command with the braced groups after it: ``\\frac{\\sqrt{3}}{2}``."""
    depth = 0
    for place in range(end, min(len(text), start + _MAX_COMMAND)):
        opens, closes = text[place] in "{[", text[place] in "}]"
        if depth == 0 and not opens:
            return text[start:place]
        depth += opens - closes
    return text[start : start + _MAX_COMMAND]


def constant_parts(tree: Node) -> Iterator[Fraction]:
    """The exact or nearest values of the largest parts of a formula that contain no variable."""
    if not tree.names - CONSTANTS.keys():
        try:
            value = evaluate(tree, {}, WorkBudget(units=2000, terms=100))
            yield Fraction(value)
        except (FormulaValueError, OverflowError, ValueError):
            pass
        return
    if isinstance(tree, Apply):
        for argument in tree.arguments:
            yield from constant_parts(argument)
    elif isinstance(tree, Series):
        for part in (tree.first, tree.last):
            yield from constant_parts(part)


def leaves(tree: Node) -> Iterator[Number | Name]:
    """The numbers and names that a formula writes."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Number | Name):
            yield node
        stack += children(node)


def _followers(value: Fraction) -> Iterator[Fraction]:
    """What follows from any stated number: its reciprocal (a rate), and the rest of a share."""
    if value:
        yield 1 / value
    if 0 < value < 1:
        yield 1 - value


def _of_percentage(number: Fraction) -> tuple[Fraction, ...]:
    """A percentage as a share, its rest, and the factors of growth and decline by it."""
    share = number / 100 if number >= 1 else number
    return share, 100 - number, 1 - share, 1 + share


def _durations(text: str) -> Iterator[Fraction]:
    for match in _DURATION.finditer(text):
        parts = [int(part) for part in match.groups() if part is not None]
        size = 12 if match[5] else 60
        yield Fraction(parts[0] * size + parts[1])
        yield Fraction(parts[0]) + Fraction(parts[1], size)


def _quantities(text: str) -> Iterator[tuple[Fraction, Powers]]:
    for match in itertools.islice(_PLAIN.finditer(text), _MAX_NUMBERS):
        after = _AFTER.match(text, match.end())
        if after is None or len(match[0]) > _MAX_EXPONENT:
            continue
        words = after["unit"].split()
        for count in range(min(3, len(words)), 0, -1):
            unit = read_unit(" ".join(words[:count]).rstrip(".,-"))
            if unit:
                yield Fraction(match[0].replace(",", "")), unit
                break


def _is_converted(value: Value, unit: Powers, number: Fraction, written: Powers) -> bool:
    """Whether a value is a written quantity in another unit; without a unit, in one that is usual or in the SI."""
    if unit:
        line = _conversion(written, unit)
        return line is not None and _is_near(value, line[0] * number + line[1])
    return any(_is_near(value, number * ratio) for ratio in _usual_ratios(written))


@lru_cache(maxsize=1024)
def _conversion(written: Powers, unit: Powers) -> tuple[Fraction, Fraction] | None:
    """a and b of ``a x + b``, which converts a number to another unit; None where the dimensions differ."""
    zero, one = convert(Fraction(0), written, unit), convert(Fraction(1), written, unit)
    return None if zero is None or one is None else (one - zero, zero)


@lru_cache(maxsize=256)
def _usual_ratios(written: Powers) -> tuple[Fraction, ...]:
    """What a number with a unit is multiplied by to have it in each usual other unit."""
    choices: list[list[tuple[str, Fraction]]] = []
    for name, power in written:
        family = next((family for family in _SIBLINGS if name in family), (name,))
        choices.append([(other, power) for other in family])
    targets = itertools.islice(itertools.product(*choices), _MOST_TARGETS)
    found = [convert(Fraction(1), written, tuple(sorted(target))) for target in targets]
    in_base = from_base_units(Fraction(1), written)
    return tuple(ratio for ratio in (*found, 1 / in_base if in_base else None) if ratio is not None)


def _is_near(value: Value, other: Value) -> bool:
    """Whether a value is another one, up to its sign, or that one in the figures that the value shows."""
    try:
        number, meant = abs(float(value)), abs(float(other))
    except OverflowError:
        return False
    if math.isclose(number, meant, rel_tol=_EQUAL, abs_tol=1e-12):
        return True
    return math.isclose(number, meant, rel_tol=_ROUNDED) and abs(number - meant) <= _last_place(number)


def _last_place(number: float) -> float:
    """One unit of the last figure of a decimal: 0.001 of 0.866."""
    digits, _, power = f"{number:.14e}".partition("e")
    return float(10 ** (int(power) - len(digits.rstrip("0").partition(".")[2])))
