"""The values of units in SI base units: exact definitions (SI Brochure, NIST SP 811) and CODATA 2022.

The tests compare every value with pint's, which takes 0.6 s of processor time to load.
"""

from __future__ import annotations

from fractions import Fraction

PREFIXES = {
    "femto": ("f", -15), "pico": ("p", -12), "nano": ("n", -9), "micro": ("u", -6), "milli": ("m", -3),
    "centi": ("c", -2), "deci": ("d", -1), "hecto": ("h", 2), "kilo": ("k", 3), "mega": ("M", 6), "giga": ("G", 9),
    "tera": ("T", 12), "peta": ("P", 15),
}  # fmt: skip
"""Name -> symbol and power of ten."""
_VALUES = {
    "m": {
        "meter": "1", "angstrom": "1e-10", "inch": "0.0254", "foot": "0.3048", "yard": "0.9144", "mile": "1609.344",
        "astronomical_unit": "149597870700", "light_year": "9460730472580800", "parsec": "30856775814913673",
        "furlong": "792000/3937", "fathom": "7200/3937", "nautical_mile": "1852",
    },
    "m2": {"hectare": "10000", "acre": "62726400000/15499969"},
    "m3": {
        "liter": "0.001", "cubic_centimeter": "1e-6", "gallon": "0.003785411784", "quart": "0.000946352946",
        "pint": "0.000473176473", "cup": "0.0002365882365", "fluid_ounce": "0.0000295735295625",
        "tablespoon": "0.00001478676478125", "teaspoon": "0.00000492892159375",
    },
    "kg": {
        "gram": "0.001", "metric_ton": "1000", "pound": "0.45359237", "ounce": "0.028349523125",
        "stone": "6.35029318",
        "unified_atomic_mass_unit": "1.66053906892e-27",
    },
    "s": {
        "second": "1", "minute": "60", "hour": "3600", "day": "86400", "week": "604800", "month": "2629800",
        "year": "31557600", "fortnight": "1209600", "decayear": "315576000", "century": "3155760000",
        "millennium": "31557600000",
    },
    "s-1": {
        "hertz": "1", "becquerel": "1", "curie": "3.7e10", "revolutions_per_minute": "0.10471975511965977",
    },
    "": {
        "radian": "1", "steradian": "1", "turn": "6.2831853071795865", "degree": "0.017453292519943296",
        "arcminute": "0.00029088820866572160", "arcsecond": "0.0000048481368110953599", "count": "1",
    },
    "m s-1": {
        "speed_of_light": "299792458", "knot": "1852/3600", "kilometer_per_hour": "1000/3600",
        "mile_per_hour": "0.44704",
    },
    "kg m s-2": {
        "newton": "1", "dyne": "1e-5", "kilogram_force": "9.80665", "force_pound": "4.4482216152605",
    },
    "kg m-1 s-2": {
        "pascal": "1", "bar": "100000", "standard_atmosphere": "101325", "torr": "101325/760",
        "millimeter_Hg": "133.322387415", "pound_force_per_square_inch": "4.4482216152605/0.00064516",
    },
    "kg m2 s-2": {
        "joule": "1", "erg": "1e-7", "calorie": "4.184", "watt_hour": "3600", "electron_volt": "1.602176634e-19",
    },
    "kg m2 s-3": {"watt": "1", "horsepower": "745.69987158227022"},
    "m2 s-2": {"gray": "1", "sievert": "1"},
    "A": {"ampere": "1"},
    "A s": {"coulomb": "1"},
    "kg m2 s-3 A-1": {"volt": "1"},
    "kg m2 s-3 A-2": {"ohm": "1"},
    "kg-1 m-2 s3 A2": {"siemens": "1"},
    "kg-1 m-2 s4 A2": {"farad": "1"},
    "kg m2 s-2 A-2": {"henry": "1"},
    "kg m2 s-2 A-1": {"weber": "1"},
    "kg s-2 A-1": {"tesla": "1", "si_gauss": "0.0001"},
    "K": {"kelvin": "1", "degree_Celsius": "1", "degree_Fahrenheit": "5/9"},
    "mol": {"mole": "1"},
    "cd": {"candela": "1", "lumen": "1"},
    "m-2 cd": {"lux": "1"},
    "us_dollar": {"us_dollar": "1", "us_cent": "0.01"},
    "british_pound": {"british_pound": "1", "british_penny": "0.01"},
    **{name: {name: "1"} for name in "euro yuan yen yuan_or_yen rupee ruble peso franc brazilian_real".split()},
}  # fmt: skip
"""Dimension in SI base units (``m2 s-2``) or a currency -> unit -> value."""
_BASES = {
    "m": "[length]", "kg": "[mass]", "s": "[time]", "A": "[current]", "K": "[temperature]", "mol": "[substance]",
    "cd": "[luminosity]",
}  # fmt: skip


def _powers(dimension: str) -> dict[str, int]:
    powers = {}
    for factor in dimension.split():
        base = factor.rstrip("-0123456789")
        powers[_BASES.get(base, f"[{base}_currency]")] = int(factor[len(base) :] or 1)
    return powers


def _number(text: str) -> Fraction:
    above, _, below = text.partition("/")
    return Fraction(above) / Fraction(below or 1)


_KNOWN = {
    name: (_powers(dimension), _number(value)) for dimension, units in _VALUES.items() for name, value in units.items()
}


def unit_value(name: str) -> tuple[dict[str, int], Fraction]:
    """The dimension and the value of a unit: ``"newton"`` gives {"[mass]": 1, "[length]": 1, "[time]": -2} and 1.

    Args:
        name: a name of ``unit_text.UNITS``, with or without a prefix. Of a temperature scale, its step.
    """
    if name not in _KNOWN:
        prefix = next(prefix for prefix in PREFIXES if name.startswith(prefix))
        powers, value = _KNOWN[name.removeprefix(prefix)]
        _KNOWN[name] = powers, value * Fraction(10) ** PREFIXES[prefix][1]
    return _KNOWN[name]
