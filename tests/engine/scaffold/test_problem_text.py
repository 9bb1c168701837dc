import pytest

from engine.records import Scaffold
from engine.scaffold.problem_text import knowns_in_text
from tests.support.table import table

SHOP = "A shop has 12 crates with 17 oranges each and gives 9 away."


def share(text, *values):
    knowns = {f"k{index}": value for index, value in enumerate(values)}
    return knowns_in_text(Scaffold(target_variable="t", knowns=knowns), text)


@table(
    ("text", "value"),
    [
        (SHOP, 12),
        (SHOP, "12 crates"),
        (SHOP, -9),
        (SHOP, 2),  # small and round numbers are in many formulas
        (SHOP, 100),
        (SHOP, "9.81 m/s^2"),
        (SHOP, "299792458 m/s"),
        (SHOP, 3.141592653589793),
        (SHOP, [12, 17]),
        ("6{,}000{,}000 bytes and 1,024 bits", 6_000_000),
        ("at $s+\\frac{1}{2}$ km/h", 0.5),
        (r"Then $\log_2\left({x \over yz}\right) = {1 \over 3}$.", "1/3"),  # as in AIME 2024
        (r"$AB = \sqrt{41}$", "sqrt(41)"),
        ("25% are lost", 0.25),
        ("25% are lost", "25%"),
        ("twenty-five birds, three fifths of them white", 25),
        ("twenty-five birds, three fifths of them white", 0.6),
        ("a third of it", "1/3"),
        ("3.0 x 10^8 m/s", 3e8),
        ("小明有一百二十个苹果", 120),
        ("The set is {red, green}.", "green"),
    ],
)
def test_a_value_that_the_text_writes(text, value):
    assert share(text, value) == 1


@table("value", [13, 29, 204, "195/2", "138 + 57", 1.2, True, None, "blue", [12, 13], [], {"a": 1}, float("inf")])
def test_a_value_that_the_text_does_not_write(value):
    assert share(SHOP, value) == 0


def test_the_share_is_of_all_knowns():
    assert share(SHOP, 12, 17, 13) == pytest.approx(2 / 3)
    assert share(SHOP) == 0


def test_a_number_in_another_unit_is_not_in_the_text():
    assert share("for 45 minutes", "45 minutes", "0.75 h") == 0.5


def test_any_text_is_read_in_bounded_time():
    for text in ("9" * 100_000, "1/" * 50_000, "\\frac{" * 30_000, "$1+" * 30_000, "one " * 50_000, "1e9999999 " * 1000,
                 "{1\\over " * 5000, "\ud800\x00" * 10_000):  # fmt: skip
        share(text, *[number + 0.37 for number in range(2000)])
