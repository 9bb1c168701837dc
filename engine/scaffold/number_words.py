"""Numbers that words say ("twenty-five", "two thirds", "一百二十") or imply (a square has 4 sides)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction

from engine.mathematics.quantities.chinese_numerals import chinese_numbers
from engine.mathematics.quantities.number_words import cardinal, ordinal

_TIMES: Mapping[str, Fraction] = {
    **dict.fromkeys(("twice", "double", "doubled", "doubles", "pair", "couple", "both", "two"), Fraction(2)),
    **dict.fromkeys(("thrice", "triple", "tripled", "triples", "treble"), Fraction(3)),
    **dict.fromkeys(("quadruple", "quadrupled"), Fraction(4)),
    **dict.fromkeys(("half", "halves", "halved"), Fraction(1, 2)),
}


def spoken_numbers(text: str) -> Iterator[Fraction]:
    """The numbers that the words of a text say; "three fifths" is 3/5, and "third" is 3 and 1/3."""
    words = re.findall(r"[a-z]+", text.lower())
    place = 0
    while place < len(words):
        value, after = cardinal(words, place)
        if value is not None:
            yield Fraction(value)
            divisor = ordinal(words[after]) if after < len(words) else None
            if divisor is not None:
                yield Fraction(value, divisor)
            place = after
            continue
        word = words[place]
        rank = ordinal(word)
        if rank is not None:
            yield from (Fraction(rank), Fraction(1, rank))
        if word in _TIMES:
            yield _TIMES[word]
        place += 1
    yield from chinese_numbers(text)
    if "半" in text:
        yield Fraction(1, 2)


def _table() -> dict[str, tuple[Fraction, ...]]:
    """Words with a number, each with its plural. The reason stands beside each group."""
    groups: tuple[tuple[str, tuple[int | Fraction, ...]], ...] = (
        # sides of a figure, and the sum of its angles in degrees
        ("triangle triangular", (3, 180)),
        ("square rectangle rectangular quadrilateral parallelogram rhombus trapezoid trapezium kite", (4, 90, 360)),
        ("pentagon pentagonal", (5, 540, 108)),
        ("hexagon hexagonal", (6, 720, 120, 60)),
        ("heptagon", (7, 900)),
        ("octagon octagonal", (8, 1080, 135)),
        ("nonagon enneagon", (9, 1260, 140)),
        ("decagon", (10, 1440, 144)),
        ("dodecagon", (12, 1800, 150)),
        ("equilateral", (3, 60)),
        ("right perpendicular", (90,)),
        ("circle circular angle degree revolution turn rotation rotated", (180, 360)),
        # faces, edges and vertices of a solid
        ("tetrahedron tetrahedral", (4, 6)),
        ("cube cubic cuboid", (6, 8, 12)),
        ("octahedron", (6, 8, 12)),
        ("dodecahedron icosahedron", (12, 20, 30)),
        # things of which everyone knows how many there are
        ("die dice", (6,)),
        ("coin", (2,)),
        ("card deck", (52, 13, 4)),
        ("chessboard checkerboard", (8, 64)),
        ("letter alphabet alphabetical", (26,)),
        ("digit decimal", (9, 10)),
        ("binary bit", (2,)),
        ("byte", (8, 256)),
        ("palindrome", (10,)),
        ("domino", (7, 28)),
        # units of time, of money and of counting
        ("second", (60, 3600)),
        ("minute min", (60, 3600)),
        ("hour hourly h", (24, 60, 3600, Fraction(18, 5))),
        ("clock", (12, 24, 30, 60)),
        ("day daily", (7, 24, 60, 3600, 365)),
        ("week weekly weekday", (7, 52)),
        ("month monthly", (12, 30, 31)),
        ("year yearly annual annually", (12, 52, 365, 366)),
        ("decade", (10,)),
        ("century", (100,)),
        ("cent dollar euro pound percent percentage", (100,)),
        ("quarter quarterly", (4, 25)),
        ("dime nickel penny", (1, 5, 10)),
        ("dozen", (12,)),
        ("inch inches foot feet yard", (3, 12, 36)),
        ("mile", (1760, 5280)),
        ("ounce", (16,)),
        ("pint gallon", (2, 4, 8)),
        ("celsius kelvin", (100, 273)),
        ("fahrenheit", (32, 212)),
        ("km kilometer kilometre kg kilogram gram ml liter litre meter metre tonne", (1000,)),
        ("cm centimeter centimetre", (100,)),
    )
    table: dict[str, tuple[Fraction, ...]] = {}
    for words, values in groups:
        for word in words.split():
            for spelling in (word, word + "s"):
                table[spelling] = (*table.get(spelling, ()), *map(Fraction, values))
    return table


IMPLIED_BY_WORD: Mapping[str, tuple[Fraction, ...]] = _table()
"""Numbers that a word implies: the sides of a square, the minutes of an hour."""
