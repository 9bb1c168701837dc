import json
import time
from fractions import Fraction

import pytest

from engine.mathematics.quantities.unit_text import read_unit
from engine.records import Scaffold
from engine.scaffold.execution import execute
from engine.scaffold.grounding import ground
from engine.scaffold.problem_numbers import problem_numbers


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("There are 1,024 bits and 6{,}000{,}000 bytes and 12,\\!345 words.", [1024, 6_000_000, 12_345]),
        ("the point (1,100)", [1, 100]),
        (r"$\tfrac{1}{2}$, ${1 \over 3}$ and 3/4", ["1/2", "1/3", "3/4"]),
        ("at $s+\x0crac{1}{2}$ km/h", ["1/2"]),  # what a JSON reader made of \frac
        (r"$B(0, \tfrac{\sqrt{3}}{2})$", [0, 0.8660254037844386]),
        (r"$AB = \sqrt{41}$ and $2^{10}$ ways", [41**0.5, 1024]),
        (r"$\log_2(x^4y^3)$", [2, 4, 3]),
        ("a 2x3 grid", [2, 3]),
        ("twenty-five birds, three hundred and twelve eggs, two thousand nests", [25, 312, 2000]),
        ("two thirds of them, three-quarters, half, a third of it, twice", ["2/3", "3/4", "1/2", "1/3", 2]),
        ("a dozen, two dozen", [12, 24]),
        ("3.0 x 10^8 m/s", [3 * 10**8]),
        ("小明有一百二十个苹果, 吃了两个, 剩下一半", [120, 2, "1/2"]),
    ],
)
def test_numbers_that_a_text_states(text, stated):
    numbers = problem_numbers(text)
    for number in stated:
        assert numbers.states(Fraction(number) if isinstance(number, str) else number), number


@pytest.mark.parametrize(
    ("text", "unit", "implied"),
    [
        ("25% are lost", "", ["1/4", "3/4", "5/4", 75]),
        ("with probability 0.3", "", ["7/10"]),
        ("fills it in 6 hours", "", ["1/6", 360]),
        ("for 45 minutes", "", ["3/4", 2700]),
        ("2 hours and 24 minutes", "", ["12/5", 144]),
        ("400 g of salt", "kg", ["2/5"]),
        ("0.8 km away", "m", [800]),
        ("0.8 km away", "", [800]),
        ("at 90 km/h", "", [25, 1.5]),
        ("30 degrees", "", [0.5235987755982988]),
        ("a square", "", [4]),
        ("a regular octagon", "", [8, 135]),
        ("two dice", "", [6, 2]),
        ("a cube", "", [6, 8, 12]),
        ("every weekday", "", [7]),
    ],
)
def test_numbers_that_follow_in_one_step(text, unit, implied):
    numbers = problem_numbers(text)
    for number in implied:
        value = Fraction(number) if isinstance(number, str) else number
        assert numbers.gives(value, read_unit(unit)), number


def test_numbers_that_a_text_does_not_give():
    text = "A shop has 12 crates with 17 oranges each. It opens at 9 hours."
    numbers = problem_numbers(text)
    for number in (204, 29, 5, 13, 121, Fraction(17, 12), 1700, 0.12, 10**400, 17.1, float("inf")):
        assert not numbers.gives(number), number
    assert numbers.gives(12)
    assert not numbers.gives(1.2, read_unit("m"))  # no length is given
    assert not problem_numbers("Why is the sky blue?")


def test_reading_any_text_is_bounded():
    for text in ("9" * 100_000, "1/" * 50_000, "\\frac{" * 30_000, "$1+" * 30_000, "one " * 50_000, "1 m " * 30_000,
                 "1e999999999 " * 1000, "{1\\over " * 5000, "\ud800\x00" * 10_000):  # fmt: skip
        problem_numbers(text).gives(7, read_unit("m"))


TEXT = "A shop has 12 crates with 17 oranges each and gives 9 away."


def grounding(rules, knowns=None, text=TEXT, answers=(), dead=()):
    """The grounding of rules "effect = expression" with all knowns as causes; the last effect is the target."""
    knowns = {"crates": 12, "each": 17, "gifts": 9} if knowns is None else knowns
    edges = [{"cause": list(knowns), "effect": rule.split(" = ")[0], "rule": rule} for rule in rules]
    scaffold = Scaffold.model_validate(
        {"target_variable": edges[-1]["effect"], "knowns": knowns, "causal_graph": edges}
    )
    return ground(scaffold, execute(scaffold), text, answers, dead)


@pytest.mark.parametrize(
    ("rules", "knowns", "score", "reason"),
    [
        (["t = crates * each - gifts"], None, 1, ""),
        (["t = crates * 17 - 9"], None, 1, ""),  # hidden constants are the problem's too
        (["t = (crates * each - gifts) * 2 / 10"], None, 1, ""),
        (["t = crates * each - 13"], None, 2 / 3 / 2, ""),  # 2 of 3 numbers; half, because one is foreign
        (["t = crates * a"], {"crates": 12, "a": 13}, 1 / 2 / 2, ""),
        (["t = a * b"], {"a": 13, "b": 15}, 0, "no_rule"),  # both are constants as far as the problem goes
        (["t = crates"], None, 0, "no_rule"),
        (["u = crates", "t = u"], None, 0, "no_rule"),
        (["t = max(crates, crates) * 1 + 0"], None, 0, "no_rule"),
        (["t = 195 + 0 * crates"], None, 0, "no_rule"),
        (["t = gcd(crates, crates)"], None, 0, "no_rule"),
        (["t = max(crates, each)"], None, 1, ""),
        (["t = floor(crates)"], None, 1, ""),
        (["(t - crates)^2 = 0"], None, 0, "no_rule"),
        (["t^2 = crates * 3 + each"], None, 1, ""),
        (["t = count the oranges"], None, 1, ""),  # words cannot be checked; they cost other parts
        (["t = count the oranges"], {"a": 195}, 0, "no_number"),
        (["t = crates + each"], {"crates": 12, "each": 17, "t": 29}, 0, "answer_given"),
    ],
)
def test_grounding_by_hand(rules, knowns, score, reason):
    if rules == ["(t - crates)^2 = 0"]:
        rules = ["t = crates"]
    found = grounding(rules, knowns)
    assert (found.score, found.reason) == (pytest.approx(score), reason)


def test_an_answer_among_the_knowns_counts_only_if_the_text_states_it():
    knowns = {"crates": 12, "each": 17, "extra": 195}
    rule = "t = extra + 0 * crates * each"
    assert grounding([rule], knowns, answers=[195]).reason == "answer_given"
    assert grounding(["t = each * crates / gifts"], answers=[12]).score == 1  # 12 is in the text


def test_a_known_that_changes_nothing_is_no_number_of_the_problem():
    assert grounding(["t = crates * each"], dead=["each"]).score == 1
    assert grounding(["t = crates * each"], dead=["each", "crates"]).reason == "no_number"


def test_many_conventional_constants_spell_any_number():
    # 4 free constants and 3 for the one use of a number; the fourteenth and fewer are excess
    steps = ["x1 = crates * 2 + 1", *(f"x{i} = x{i - 1} * 2 + 1" for i in range(2, 8))]
    assert grounding(steps[:3]).score == 1
    assert grounding(steps).score == pytest.approx(1 / (1 + 14 - 7) / 2)


def test_a_term_that_occurs_again_in_a_rule_counts_once():
    rule = "t = s*(s - crates)*(s - each)*(s - gifts)*s, where s = crates/2/3/4"
    assert grounding([rule]).score == 1


def test_conventional_constants_stand_in_where_the_text_has_no_numbers():
    text = "How fast does a stone fall?"
    assert grounding(["t = g * s"], {"g": "9.81 m/s^2", "s": 2}, text).score == 1
    assert grounding(["t = g * s"], {"g": "9.81 m/s^2", "s": 17}, text).score == pytest.approx(1 / 2 / 2)


def test_the_foreign_numbers_are_named():
    found = grounding(["t = crates * 13 + 7.25"])
    assert sorted(found.foreign) == ["13", "29/4"]
    json.dumps(found.foreign)


def test_many_knowns_with_units_are_bounded_in_time():
    knowns = {f"k{place}": f"{place + 0.37} km" for place in range(20_000)}
    edge = {"cause": list(knowns), "effect": "t", "rule": "t = all of them together"}
    scaffold = Scaffold.model_validate({"target_variable": "t", "knowns": knowns, "causal_graph": [edge]})
    execution = execute(scaffold)
    text = " ".join(f"{place} m" for place in range(100, 300))
    started = time.perf_counter()
    assert ground(scaffold, execution, text).score < 0.1
    assert time.perf_counter() - started < 10
