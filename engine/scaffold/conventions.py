"""Constants that a formula may use though no problem mentions them, each group with its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from engine.mathematics.values import Value

_INTEGERS: Mapping[str, tuple[int, ...]] = {
    "signs, halves, squares, cubes, 4 pi r^2, b^2 - 4ac": (0, 1, 2, 3, 4),
    "sums of squares and the volume of a tetrahedron divide by 6; quadratic means by 12": (6, 12),
    "place value, per cent, per mille": (10, 100, 1000),
    "angles in degrees": (90, 180, 360),
}
CONVENTIONAL_INTEGERS = frozenset(value for values in _INTEGERS.values() for value in values)
"""Integers of formulas; a fraction of two of them (1/2, 4/3, 0.5) is conventional too."""

COMMON = frozenset((0, 1, 2))
"""Integers that are conventional in a rule also where the problem has them."""

PHYSICAL_CONSTANTS: Mapping[str, float] = {
    "free fall, rounded": 9.8,
    "free fall": 9.81,
    "free fall, standard": 9.80665,
    "free fall, ft/s^2": 32.2,
    "speed of light": 2.99792458e8,
    "speed of light, rounded": 3e8,
    "gravitational constant": 6.6743e-11,
    "Planck constant": 6.62607015e-34,
    "Planck constant, reduced": 1.054571817e-34,
    "Planck constant, eV s": 4.135667696e-15,
    "hc, eV nm": 1239.84198,
    "elementary charge": 1.602176634e-19,
    "Boltzmann constant": 1.380649e-23,
    "Boltzmann constant, eV/K": 8.617333262e-5,
    "Avogadro constant": 6.02214076e23,
    "gas constant": 8.314462618,
    "gas constant, L atm": 0.082057366,
    "Faraday constant": 96485.33212,
    "vacuum permittivity": 8.8541878128e-12,
    "Coulomb constant": 8.9875517923e9,
    "Coulomb constant, rounded": 9e9,
    "vacuum permeability": 4e-7 * math.pi,
    "magnetic constant over 2 pi": 2e-7,
    "Stefan-Boltzmann constant": 5.670374419e-8,
    "Wien's constant": 2.897771955e-3,
    "Rydberg constant": 1.0973731568e7,
    "Rydberg energy, eV": 13.605693,
    "Bohr radius": 5.29177210903e-11,
    "electron mass": 9.1093837015e-31,
    "electron mass, MeV": 0.51099895,
    "proton mass": 1.67262192369e-27,
    "proton mass, MeV": 938.272088,
    "neutron mass": 1.67492749804e-27,
    "atomic mass unit": 1.66053906660e-27,
    "atomic mass unit, MeV": 931.49410242,
    "standard atmosphere": 101325.0,
    "zero of the Celsius scale": 273.15,
    "density of water": 1000.0,
    "specific heat of water": 4186.0,
    "specific heat of water, rounded": 4180.0,
    "speed of sound": 343.0,
    "pi, three figures": 3.14,
    "pi": math.pi,
    "e": math.e,
}
"""Constants of nature, and usual roundings of them, in SI units unless named otherwise."""

_ROUNDED = 2e-3  # constants are often written in three figures


def is_conventional(value: Value) -> bool:
    """Whether a number may stand in a formula without being in the problem."""
    return is_conventional_fraction(value) or is_physical_constant(value)


def is_conventional_fraction(value: Value) -> bool:
    """Whether a number is a conventional integer, or a fraction of two of them."""
    if isinstance(value, float):
        return False
    exact = Fraction(value)
    return abs(exact.numerator) in CONVENTIONAL_INTEGERS and exact.denominator in CONVENTIONAL_INTEGERS


_WHOLE_CONSTANTS = frozenset(Fraction(value) for value in PHYSICAL_CONSTANTS.values() if value.is_integer())
_FREQUENT_INTEGERS = CONVENTIONAL_INTEGERS - {12}


def is_distinctive(value: Value) -> bool:
    """Whether a number in a problem's text tells this problem from others: it is in no formula and no constant."""
    exact = Fraction(value)
    if abs(exact.numerator) in _FREQUENT_INTEGERS and exact.denominator in _FREQUENT_INTEGERS:
        return False
    is_whole = exact.denominator == 1  # 999 is not the density of water
    return exact not in _WHOLE_CONSTANTS if is_whole else not is_physical_constant(value)


def is_physical_constant(value: Value) -> bool:
    """Whether a number is a constant of nature, to three figures."""
    try:
        number = abs(float(value))
    except OverflowError:
        return False
    return any(math.isclose(number, constant, rel_tol=_ROUNDED) for constant in PHYSICAL_CONSTANTS.values())
