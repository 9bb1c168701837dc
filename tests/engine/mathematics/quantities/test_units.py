"""Units and quantities; the expected values come from scipy's constants and from plain conversion factors."""

import threading
from fractions import Fraction

import pint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import constants

from engine.mathematics.parsing.notation import clean
from engine.mathematics.quantities.unit_table import UNIT_VALUES, UNITS
from engine.mathematics.quantities.unit_text import read_unit
from engine.mathematics.quantities.units import convert, dimension_of, read_quantity, same_quantity
from tests.support.table import table

MPS = (("meter", 1), ("second", -1))
MPS2 = (("meter", 1), ("second", -2))


@table(
    ("text", "powers"),
    [
        ("m/s", MPS),
        ("m s^{-1}", MPS),
        ("m s-1", MPS),
        ("m*s**-1", MPS),
        (r"\text{ m/s}^2", MPS2),
        (r"\mathrm{m\cdot s^{-2}}", MPS2),
        ("m/s/s", MPS2),
        ("meters per second squared", MPS2),
        (r"\frac{\text{m}}{\text{s}^2}", MPS2),
        ("(m/s)^2", (("meter", 2), ("second", -2))),
        ("J/(kg K)", (("joule", 1), ("kelvin", -1), ("kilogram", -1))),
        (r"J/kg\cdot K", (("joule", 1), ("kelvin", -1), ("kilogram", -1))),
        ("kg*m/s**2", (("kilogram", 1), ("meter", 1), ("second", -2))),
        ("1/s", (("second", -1),)),
        (r"k\Omega", (("kiloohm", 1),)),
        (r"\mu\text{F}", (("microfarad", 1),)),
        (r"^\circ C", (("degree_Celsius", 1),)),
        (r"^\circ", (("degree", 1),)),
        ("Kilometers", (("kilometer", 1),)),
        ("square meters", (("meter", 2),)),
        ("min", (("minute", 1),)),
        ("", ()),
    ],
)
def test_read_unit(text, powers):
    assert read_unit(text) == powers


@table(
    "text",
    [
        "foo",
        "m^",
        "m^99",
        "m^0",
        "((m)",
        "m)",
        "7",
        "^2",
        "m" * 200,
        "m " * 20,
        "__import__('os')",
        "m^(1/2)",
        "(m^6)^3",
        "((((((km/m)^12)^12)^12)^12)^12)^12",
        "m;s",
    ],
)
def test_read_unit_returns_none_for_other_text(text):
    assert read_unit(text) is None


def test_every_listed_unit_has_the_dimension_and_the_value_that_it_has_in_pint():
    registry = pint.UnitRegistry(cache_folder=None)
    registry.define("si_gauss = 1e-4 tesla")  # pint's gauss has the dimensions of the CGS system
    for name in "us_dollar euro british_pound yuan yen yuan_or_yen rupee brazilian_real".split():
        registry.define(f"{name} = [{name}_currency]")
    registry.define("us_cent = 0.01 us_dollar")
    registry.define("british_penny = 0.01 british_pound")
    steps = {"degree_Celsius": "kelvin", "degree_Fahrenheit": "degree_Rankine"}
    for name in UNIT_VALUES:
        powers, value = UNIT_VALUES[name]
        theirs = registry.Quantity(1.0, steps.get(name, name)).to_base_units()
        assert powers == dict(theirs.dimensionality), name
        in_base = theirs.to("kg") if powers == {"[mass]": 1} else theirs
        assert float(value) == pytest.approx(in_base.magnitude, rel=1e-11), name  # its parsec is a tangent


@table(
    ("text", "dimensions"),
    [
        ("5 N", {"[mass]": 1, "[length]": 1, "[time]": -2}),
        ("kg m/s^2", {"[mass]": 1, "[length]": 1, "[time]": -2}),
        ("9.81 m/s²", {"[length]": 1, "[time]": -2}),
        ("V", {"[mass]": 1, "[length]": 2, "[time]": -3, "[current]": -1}),
        ("3", {}),
        ("30°", {}),
        ("rad/s", {"[time]": -1}),
        ("25 °C", {"[temperature]": 1}),
    ],
)
def test_dimension_of(text, dimensions):
    assert dimension_of(text) == dimensions


@table("text", ["", "foo", "5 foo", "x + 1", "'; DROP", "**"])
def test_text_without_a_quantity_has_no_dimension(text):
    assert dimension_of(text) is None


def factor(unit: str, target: str) -> float:
    return float(convert(Fraction(1), read_unit(unit), read_unit(target)))


@table(
    ("unit", "target", "expected"),
    [
        ("eV", "J", constants.eV),
        ("u", "kg", constants.atomic_mass),
        ("atm", "Pa", constants.atm),
        ("cal", "J", constants.calorie),
        ("ly", "m", constants.light_year),
        ("pc", "m", constants.parsec),
        ("au", "m", constants.au),
        ("mi", "m", constants.mile),
        ("lb", "kg", constants.pound),
        ("hp", "W", constants.horsepower),
        ("psi", "Pa", constants.psi),
        ("mmHg", "Pa", constants.mmHg),
        ("bar", "Pa", constants.bar),
        ("c", "m/s", constants.c),
        ("AA", "m", constants.angstrom),
        ("deg", "rad", constants.degree),
        ("mph", "m/s", constants.mph),
        ("km/h", "m/s", constants.kmh),
        ("G", "T", 1e-4),
        ("rpm", "rad/s", 2 * constants.pi / 60),
        ("kWh", "MJ", 3.6),
        ("L", "m^3", 1e-3),
        ("dyn", "N", 1e-5),
        ("MeV/c^2", "kg", 1e6 * constants.eV / constants.c**2),
    ],
)
def test_conversions_agree_with_scipy(unit, target, expected):
    assert factor(unit, target) == pytest.approx(expected, rel=2e-7)


@pytest.mark.parametrize(
    ("celsius", "kelvin", "fahrenheit"), [(25, "298.15", "77"), (-40, "233.15", "-40"), (100, "373.15", "212")]
)
def test_absolute_temperatures_are_converted_with_an_offset(celsius, kelvin, fahrenheit):
    degrees = Fraction(celsius)
    assert float(convert(degrees, read_unit("degC"), read_unit("K"))) == pytest.approx(float(kelvin), abs=1e-9)
    assert float(convert(degrees, read_unit("degC"), read_unit("degF"))) == pytest.approx(float(fahrenheit), abs=1e-9)
    assert factor("J/(kg degC)", "J/(kg K)") == 1  # a temperature difference


def test_different_dimensions_do_not_convert():
    assert convert(Fraction(5), read_unit("m"), read_unit("kg")) is None


@table(
    ("text", "value", "unit"),
    [
        ("3.0×10⁸ m/s", 300_000_000, "m/s"),
        ("1.6e-19C", Fraction(16, 10**20), "C"),
        ("(9.8 ± 0.1) m/s²", Fraction(98, 10), "m/s^2"),
        ("about 5 m", 5, "m"),
        ("10 N, downward", 10, "N"),
        ("10 m to the left", 10, "m"),
        ("50 %", Fraction(1, 2), ""),
        (r"\frac{3}{2} m", Fraction(3, 2), "m"),
        (r"5\ \mathrm{m\,s^{-1}}", 5, "m/s"),
        ("300K", 300, "K"),
    ],
)
def test_read_quantity(text, value, unit):
    quantity = read_quantity(clean(text))
    assert (quantity.number.value, quantity.unit) == (value, read_unit(unit))


def test_quantity_with_a_formula_instead_of_a_number():
    quantity = read_quantity(clean(r"2\pi \text{ s}"))
    assert (quantity.formula, quantity.number, quantity.unit) == (r"2\pi", None, (("second", 1),))


@table("text", ["5 apples", "", "m", "x", "5 m 3", "north"])
def test_read_quantity_returns_none_for_other_text(text):
    assert read_quantity(text) is None


def test_the_tolerance_is_in_the_unit_of_the_truth():
    """The tolerance of 25 degrees Celsius is 0.5 (half a unit of the last figure); 1 % in kelvin would be about 3."""
    truth = read_quantity(clean("25 °C"))
    assert same_quantity(read_quantity(clean("298.6 K")), truth, None)
    assert not same_quantity(read_quantity(clean("299.2 K")), truth, None)
    assert same_quantity(read_quantity(clean("27 °C")), truth, rel_tol=0.1)


def test_dimension_of_works_in_many_threads():
    results = []
    threads = [threading.Thread(target=lambda: results.append(dimension_of("5 N"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [{"[mass]": 1, "[length]": 1, "[time]": -2}] * 8


@settings(max_examples=200)
@given(st.text(alphabet="0123456789.eE+-*/^(){} mskgNJVCKμ°Ω\\textcdofrac%±", max_size=60))
def test_reading_units_and_quantities_never_raises(text):
    cleaned = clean(text)
    read_unit(cleaned)
    read_quantity(cleaned)
    dimension_of(text)


@given(st.sampled_from(sorted(UNITS)), st.sampled_from(sorted(UNITS)), st.integers(1, 10**6))
@settings(max_examples=150)
def test_conversion_is_reversible(first, second, number):
    there = convert(Fraction(number), read_unit(first), read_unit(second))
    if there is not None:
        back = convert(there, read_unit(second), read_unit(first))
        assert abs(back - number) <= Fraction(number, 10**9)
