"""Numbers in words: "two hundred and four", "three quarters", "minus five"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
SMALL: Mapping[str, int] = {
    **{word: value for value, word in enumerate(_UNITS)},
    **{word: 10 * value for value, word in enumerate(_TENS, start=2)},
}
LARGE = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "dozen": 12, "score": 20}
ORDINALS: Mapping[str, int] = {
    **dict(zip("first second third fourth fifth sixth seventh eighth ninth tenth".split(), range(1, 11), strict=True)),
    "eleventh": 11, "twelfth": 12, "twentieth": 20, "hundredth": 100, "thousandth": 1000,
    "half": 2, "halve": 2, "quarter": 4,
}  # fmt: skip
_MAX_CHARS = 120
_TEXT = re.compile(r"[A-Za-z\s-]+")


def read_number_words(text: str) -> Fraction | int | None:
    """The number that a whole text says; None for other texts. "A dozen" is 12, "three quarters" is 3/4."""
    if len(text) > _MAX_CHARS or not _TEXT.fullmatch(text):
        return None
    words = re.findall(r"[a-z]+", text.lower())
    sign = 1
    if words and words[0] in ("minus", "negative"):
        sign, words = -1, words[1:]
    if len(words) > 1 and words[0] in ("a", "an"):
        words[0] = "one"
    if words == ["half"]:
        return Fraction(sign, 2)
    value, after = cardinal(words, 0)
    if value is None:
        return None
    if after == len(words):
        return sign * value
    # "first" and "second" are ordinals of a row, not of a fraction
    divisor = ordinal(words[after]) if after == len(words) - 1 and words[after] not in ("first", "second") else None
    return None if divisor is None else sign * Fraction(value, divisor)


def cardinals(text: str) -> Iterator[Fraction]:
    """The numbers that the words of a text say: "twenty-five" is 25, "three fifths" is 3, 3/5 and 1/5, "twice" is 2."""
    words = re.findall(r"[a-z]+", text.lower())
    index = 0
    while index < len(words):
        value, after = cardinal(words, index)
        divisor = ordinal(words[after]) if after < len(words) else None
        if value is not None:
            yield Fraction(value)
        if divisor is not None:
            yield Fraction(value or 1, divisor)
            yield from (Fraction(divisor), Fraction(1, divisor))
        index = max(after, index + 1)


def ordinal(word: str) -> int | None:
    """The number of an ordinal or of the name of a fraction: third, thirds, half."""
    return ORDINALS.get(word) or ORDINALS.get(word.removesuffix("s")) or (2 if word == "halves" else None)


def cardinal(words: Sequence[str], index: int) -> tuple[int | None, int]:
    """The cardinal number that starts at a word, and the place after it."""
    total = section = 0
    start = index
    while index < len(words):
        word = words[index].removesuffix("s") if words[index] not in SMALL else words[index]
        if word in SMALL:
            small = SMALL[word]
            if section % 100 and not (section % 10 == 0 and small < 10):
                break  # "two three" are two numbers
            section += small
        elif word in LARGE and (section or (index == start and word != "score")):
            if LARGE[word] >= 1000:
                total, section = total + (section or 1) * LARGE[word], 0
            else:
                section = (section or 1) * LARGE[word]
        elif not (word == "and" and index > start and index + 1 < len(words) and words[index - 1] in LARGE
                  and words[index + 1] in SMALL):  # fmt: skip
            break
        index += 1
    return (total + section, index) if index > start else (None, index)
