"""Read physical quantities from text, convert and compare them.

Policies:

* An angle in radians has no unit; a degree is pi/180, so 30 degrees is 0.5236 and a bare 30 is not 30 degrees.
* A temperature alone (25 degrees Celsius) is an absolute temperature; in a product (J/(kg degC)) it is a difference.
* A per cent is a hundredth.
* Units of one dimension that measure different things are not converted: a frequency in Hz is not an angular one in
  rad/s or an activity in Bq, and Gy is not Sv.
* Sums of money are converted within one currency. The sign ¥ means yuan or yen, as the other side does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from engine.mathematics.parsing.notation import clean
from engine.mathematics.quantities.numerals import NOISE, Numeral, numeral_prefix, physics_tolerance
from engine.mathematics.quantities.unit_table import UNIT_VALUES
from engine.mathematics.quantities.unit_text import Powers, read_unit

_ZEROS = {"degree_Celsius": Fraction("273.15"), "degree_Fahrenheit": Fraction("459.67") * 5 / 9}
"""Zero of a temperature scale in kelvins."""
_MEASURES = {
    "radian": "angle", "degree": "angle", "turn": "angle", "revolutions_per_minute": "angle", "hertz": "period",
    "becquerel": "decay", "gray": "absorbed dose", "sievert": "equivalent dose", "count": "pieces",
}  # fmt: skip
_MAX_SPLITS = 40
_HEDGE = re.compile(r"^(?:\\approx|\\sim|~|approximately|about|roughly|around|ca\.|circa|大?约)\s*", re.IGNORECASE)
_SPREAD = re.compile(r"\\pm\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?)(?:\s*%)?")
_WIDEST_SPREAD = Fraction(1, 10)
_REMARK = re.compile(r",\s*([A-Za-z][A-Za-z\s]*)$")
_BRACKETED_NUMBER = re.compile(r"^\(\s*([^()]*)\s*\)(?=\s*\S)")
_SPLIT = re.compile(r"(?<=[\d}).])\s*(?=[A-Za-z\\^])|\s+")
_PROSE = re.compile(r"^[,;\s]*[A-Za-z][A-Za-z\s,.'-]*$")
_CHANGES_VALUE = re.compile(
    r"(?i)\b(?:not|no|never|neither|nor|or|wrong|incorrect|false|invalid|less|more|fewer|greater|than|if|unless|plus|minus|"
    r"times|squared|cubed|except|instead|rather|too)\b"
    r"|n't\b|^[,;\s]*[a-z]$"
)
"""Words after a unit that make another value of it, and a letter that may be a factor."""
_DIRECTION = re.compile(
    r"\b(north|south|east|west|up|down|left|right|clockwise|counterclockwise|attractive|repulsive|inward|outward"
    r"|forward|backward|toward|away|into|out of|positive|negative)"
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with a unit. ``number`` is None where the number is a formula, whose text is ``formula``.

    ``prose`` is the text after the unit ("downwards"); ``written`` is the unit and the prose as in the text.
    """

    unit: Powers
    number: Numeral | None
    formula: str = ""
    prose: str = ""
    written: str = ""


def without_side_remarks(text: str) -> str:
    """Remove "about" and the uncertainty of a measurement from a cleaned text; "5 N, down" becomes "5 N down".

    An uncertainty of more than a tenth of the value stays: "5 ± 3" is no measurement of 5.
    """
    text = _HEDGE.sub("", text.strip())
    spread = _SPREAD.search(text) if "pm" in text else None
    if spread is not None:
        value = numeral_prefix(text.lstrip("( "))
        if value is None or abs(Fraction(spread[1])) <= abs(value[0].value) * _WIDEST_SPREAD:
            text = text[: spread.start()] + text[spread.end() :]
    return _REMARK.sub(r" \1", text)


def read_quantity(text: str) -> Quantity | None:
    r"""Read a cleaned text as number and unit: ``3.0\times 10^8 m/s``, ``2\pi \text{ s}``, ``0.75``.

    None if there is no number, or what follows it is not a unit.
    """
    text = _BRACKETED_NUMBER.sub(r"\1 ", without_side_remarks(text))
    prefix = numeral_prefix(text)
    if prefix and text.endswith("%") and not prefix[1].strip(" %\\"):
        number = prefix[0]
        return Quantity((), replace(number, value=number.value / 100, place=number.place / 100), written="%")
    if prefix:
        number, rest = prefix
        rest = re.sub(r"^\s*(?:\\cdot|\\times|\*)\s*(?=[A-Za-z\\])", " ", rest)
        if unit_and_prose := _unit_and_prose(rest):
            return Quantity(unit_and_prose[0], number, prose=unit_and_prose[1], written=rest.strip())
    for split in list(_SPLIT.finditer(text))[:_MAX_SPLITS]:
        formula, unit = text[: split.start()], read_unit(text[split.end() :])
        if formula and unit and re.search(r"[\d]|\\pi", formula):
            return Quantity(unit, None, formula, written=text[split.end() :])
    return None


def _unit_and_prose(text: str) -> tuple[Powers, str] | None:
    unit = read_unit(text)
    if unit is not None:
        return unit, ""
    words = text.split()
    for count in range(min(len(words) - 1, 6), 0, -1):
        if count > 1 and words[count - 1] == "in":  # the word
            continue
        prose = " ".join(words[count:])
        unit = read_unit(" ".join(words[:count]).rstrip(","))
        if unit and _PROSE.match(prose) and not _CHANGES_VALUE.search(prose):
            return unit, prose
    return None


def dimension_of(text: str) -> dict[str, Fraction] | None:
    """The dimensions of a unit or quantity text: ``"5 N"`` gives {"[mass]": 1, "[length]": 1, "[time]": -2}.

    Args:
        text: a unit ("kg m/s^2"), a quantity ("9.81 m/s^2") or a bare number ("3"), not necessarily cleaned.

    Returns:
        powers of base dimensions, {} for a pure number (angles too), None for text that is neither.
    """
    cleaned = clean(text)
    unit = read_unit(cleaned) if cleaned else None
    quantity = read_quantity(cleaned) if unit is None else Quantity(unit, None)
    return None if quantity is None else {base: Fraction(power) for base, power in _dimensions(quantity.unit)}


def same_quantity(answer: Quantity, truth: Quantity, rel_tol: float | None, tolerance_of: str = "measured") -> bool:
    """Whether an answer equals the true quantity, compared in the truth's unit.

    Args:
        answer, truth: quantities with numbers; the caller evaluates formulas.
        rel_tol: replaces the tolerance that the truth's significant figures give (``physics_tolerance``).
        tolerance_of: ``measured``, or ``exact``, which accepts float rounding only.

    Returns:
        False also where dimensions differ, a unit is missing, or the directions named are different ones.
    """
    if answer.number is None or truth.number is None:
        raise ValueError("a quantity without a number")
    directions, expected = set(_DIRECTION.findall(answer.prose.lower())), set(_DIRECTION.findall(truth.prose.lower()))
    if directions and expected and directions != expected:
        return False
    converted = convert(answer.number.value, answer.unit, truth.unit)
    if converted is None:
        return False
    is_exact = tolerance_of == "exact" and rel_tol is None
    tolerance = Fraction(0) if is_exact else physics_tolerance(truth.number, rel_tol)
    noise = NOISE * abs(truth.number.value)
    if answer.unit != truth.unit and any(name in _ZEROS for name, _ in (*answer.unit, *truth.unit)):
        noise += NOISE
    return abs(converted - truth.number.value) <= tolerance + noise


def from_base_units(value: Fraction, unit: Powers) -> Fraction:
    """Convert a value from SI base units to a unit of its dimension: 0.0293 (seconds) is 29.3 milliseconds."""
    slope, start = _scale(unit)
    return (value - start) / slope


def convert(value: Fraction, unit: Powers, target: Powers) -> Fraction | None:
    """A value in another unit; None where the dimensions differ, or what is measured."""
    unit, target = _in_one_currency(unit, target), _in_one_currency(target, unit)
    if unit == target:
        return value
    kinds, target_kinds = _measures(unit), _measures(target)
    if (kinds and target_kinds and len(kinds | target_kinds) > 1) or _dimensions(unit) != _dimensions(target):
        return None
    slope, start = _scale(unit)
    return from_base_units(value * slope + start, target)


def _in_one_currency(unit: Powers, other: Powers) -> Powers:
    """A unit in which the sign ¥ means what the other unit is: yuan, or yen."""
    others = [name for name, _ in other if name in ("yuan", "yen")]
    return tuple((others[0] if name == "yuan_or_yen" and others else name, power) for name, power in unit)


def _measures(unit: Powers) -> set[str]:
    """What the units measure, if their dimension does not say it."""
    endings = (next((end for end in _MEASURES if name.endswith(end)), "") for name, _ in unit)
    return {_MEASURES[end] for end in endings if end}


@lru_cache(maxsize=1024)
def _dimensions(unit: Powers) -> tuple[tuple[str, int], ...]:
    total: dict[str, int] = {}
    for name, power in unit:
        for base, exponent in UNIT_VALUES[name][0].items():
            total[base] = total.get(base, 0) + exponent * power
    return tuple(sorted((base, exponent) for base, exponent in total.items() if exponent))


@lru_cache(maxsize=1024)
def _scale(unit: Powers) -> tuple[Fraction, Fraction]:
    """a and b of ``a x + b``, which converts a value to base units; b is 0 except for an absolute temperature."""
    slope = Fraction(1)
    for name, power in unit:
        slope *= UNIT_VALUES[name][1] ** power
    alone = len(unit) == 1 and unit[0][1] == 1
    return slope, _ZEROS.get(unit[0][0], Fraction(0)) if alone else Fraction(0)
