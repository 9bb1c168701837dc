"""Reading and comparing numerals; the expected values were calculated by hand."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from engine.mathematics.quantities.chinese_numerals import chinese_numbers
from engine.mathematics.quantities.numerals import (
    Numeral,
    find_numerals,
    numeral_prefix,
    physics_tolerance,
    read_numeral,
    same_number,
)
from tests.support.table import table


@table(
    ("text", "value"),
    [
        ("025", 25),
        ("-7", -7),
        ("- 7", -7),
        ("1,024", 1024),
        ("12,345,678.5", Fraction(24691357, 2)),
        ("3/4", Fraction(3, 4)),
        (r"-\frac{3}{4}", Fraction(-3, 4)),
        (r"\frac{-3}{4}", Fraction(-3, 4)),
        ("1 1/2", Fraction(3, 2)),
        (r"1\frac{1}{2}", Fraction(3, 2)),
        ("11/2", Fraction(11, 2)),
        (".5", Fraction(1, 2)),
        ("3e8", 300_000_000),
        ("1.6e-3", Fraction(1, 625)),
        (r"3.0\times 10^{8}", 300_000_000),
        ("3.0*10**8", 300_000_000),
        ("10^{-2}", Fraction(1, 100)),
        ("50%", Fraction(1, 2)),
    ],
)
def test_read_numeral(text, value):
    assert read_numeral(text).value == value


@table(
    "text",
    [
        "",
        ".",
        "-",
        "1,2",
        "1,0245",
        "1/0",
        "2 5/3",
        "5e",
        "1e99999",
        "1e401",
        "9" * 401,
        "x",
        "5 m",
        "٣",
        "1.2.3",
        "5%%",
    ],
)
def test_read_numeral_returns_none_for_other_text(text):
    assert read_numeral(text) is None


def test_significant_figures_and_last_place_of_a_numeral():
    assert (read_numeral("0.0250").figures, read_numeral("0.0250").place) == (3, Fraction(1, 10_000))
    assert (read_numeral("3.00e8").figures, read_numeral("3.00e8").place) == (3, 1_000_000)
    assert (read_numeral("300").figures, read_numeral("300").place) == (3, 1)


def test_numeral_prefix_splits_number_and_rest():
    number, rest = numeral_prefix("1.6e-19C")
    assert (number.value, rest) == (Fraction(16, 10**20), "C")
    assert numeral_prefix("5 eV")[1] == " eV"
    assert numeral_prefix("m") is None


def test_find_numerals_finds_all_numbers():
    text = r"Take 1,024 of x2, then 3/4 or \frac{1}{2}, 2.5e3, and (7,8)."
    assert [number.value for _, number in find_numerals(text)] == [
        1024, Fraction(3, 4), Fraction(1, 2), 2500, 7, 8,
    ]  # fmt: skip


@table(
    ("answer", "truth", "same"),
    [
        ("80.0", "80", True),
        ("79.99999999999999", "80", True),
        ("79.999", "80", False),
        ("246.67", "247", False),
        ("1000000000001", "1000000000000", False),  # float rounding is accepted for decimals only
        ("1000000000001.0", "1000000000000", False),
        ("0.6667", "2/3", True),
        ("0.6666", "2/3", True),  # truncated
        ("0.667", "2/3", False),  # only three figures
        ("0.6668", "2/3", False),
        ("-0.6667", "2/3", False),
        ("0.125", "1/8", True),
        ("0.13", "1/8", False),
        ("1/3", "0.333", True),  # the truth is rounded
        ("1/3", "0.33", False),
        ("3.1416", "3.14", True),
        ("3.14", "3.1416", False),
        ("9.8", "9.81", False),
        ("80.04", "80.0", False),  # 80.0 is an integer written as a float
        ("9.1e-31", "1.6e-19", False),
        ("0.0000001", "0.0000004", False),
        ("0.00000000000000011", "0", True),
        ("0.001", "0", False),
        ("10%", "10", False),
        ("50%", "0.5", True),
    ],
)
def test_same_number(answer, truth, same):
    assert same_number(read_numeral(answer), read_numeral(truth)) is same


def test_rel_tol_replaces_the_rules_for_figures():
    assert same_number(read_numeral("9.8"), read_numeral("9.81"), rel_tol=0.01)
    assert not same_number(read_numeral("9.6"), read_numeral("9.81"), rel_tol=0.01)


@table(
    ("truth", "tolerance"),
    [
        ("9.81", Fraction(981, 10_000)),  # 1 % of it is more than 0.005
        ("1.2", Fraction(1, 20)),  # half of 0.1 is more than 1 %
        ("5", Fraction(1, 20)),  # one figure: 1 %
        ("3e8", 3_000_000),
        ("12", Fraction(1, 2)),
        ("1/3", Fraction(1, 300)),
        ("0", 0),
        ("0.0", Fraction(1, 20)),
    ],
)
def test_physics_tolerance(truth, tolerance):
    assert physics_tolerance(read_numeral(truth)) == tolerance


@given(st.fractions(), st.fractions())
def test_exact_numbers_are_compared_as_fractions(left, right):
    for value in (left, right):
        assert read_numeral(f"{value.numerator}/{value.denominator}".removesuffix("/1")).value == value
    assert same_number(Numeral(left), Numeral(right)) is (left == right)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9))
def test_decimals_are_read_exactly(number):
    assert read_numeral(format(number, "f")).value == Fraction(number)


@given(st.text(max_size=60))
def test_read_numeral_never_raises(text):
    assert read_numeral(text) is None or isinstance(read_numeral(text), Numeral)
    numeral_prefix(text)


def test_chinese_numbers_in_a_text_are_read_as_they_are_said():
    assert [int(number) for number in chinese_numbers("一万二千人有三亿元，一万二，二三十个")] == [
        12_000,
        300_000_000,
        12_000,
    ]
