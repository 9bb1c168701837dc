from fractions import Fraction

import pytest

from engine.mathematics.parsing.parser import parse_expression
from engine.mathematics.quantities.dimensions import DimensionMismatchError, dimension_checks, dimension_of_tree
from engine.records import CausalEdge, Scaffold
from tests.support.table import table

M, S, KG = {"[length]": 1}, {"[time]": 1}, {"[mass]": 1}
SPEED = {"[length]": 1, "[time]": -1}
KNOWN = {"d": M, "h": M, "t": S, "v": SPEED, "m": KG, "n": {}, "secret": None}


@table(
    ("text", "expected"),
    [
        ("d / t", SPEED),
        ("d + h", M),
        ("v * t + 2 * h", M),
        ("m * v^2 / 2", {"[mass]": 1, "[length]": 2, "[time]": -2}),
        ("sqrt(d * h)", M),
        ("sqrt(2 * d / t^2)", {"[length]": Fraction(1, 2), "[time]": -1}),
        ("sin(d / h)", {}),
        ("n * d", M),
        ("9.8 * t", None),  # the constant may have a unit
        ("secret * t", None),
        ("max(d, h)", M),
        ("pi * d^2", {"[length]": 2}),
        ("exp(n)", {}),
        ("t^(-2)", {"[time]": -2}),
        ("(d * h)^(1/2)", M),
        ("d^(1/0)", None),
        ("sqrt(n, d)", {}),  # an argument too many has no value, and raises no error here
    ],
)
def test_dimension_of_an_expression(text, expected):
    dimension = dimension_of_tree(parse_expression(text), KNOWN.get)
    assert (None if dimension is None else dict(dimension)) == expected


@pytest.mark.parametrize("text", ["d + t", "sin(d)", "max(v, t)", "n^d", "d - v * v"])
def test_terms_of_different_dimensions_raise_an_error(text):
    with pytest.raises(DimensionMismatchError):
        dimension_of_tree(parse_expression(text), KNOWN.get)


def fall(rule, **more):
    return Scaffold(
        target_variable="v",
        causal_graph=[
            CausalEdge(cause=["g", "h"], effect="v", rule=rule),
            *(CausalEdge(cause=["v"], effect=name, rule=text) for name, text in more.items()),
        ],
    )


def test_rules_and_target_are_checked_for_their_dimensions():
    known = {"g": {"[length]": 1, "[time]": -2}, "h": M}
    assert dimension_checks(fall("v = sqrt(2*g*h)"), known, SPEED) == {"v": True, "target": True}
    assert dimension_checks(fall("v = 2*g*h"), known, SPEED) == {"v": True, "target": False}
    assert dimension_checks(fall("v = g + h", p="p = 3 * v"), known, SPEED) == {"v": False}
    assert dimension_checks(fall("v = sqrt(19.6*h)"), known, SPEED) == {}


def test_a_cyclic_scaffold_has_no_checks():
    scaffold = Scaffold(
        target_variable="a",
        causal_graph=[
            CausalEdge(cause=["b"], effect="a", rule="b"),
            CausalEdge(cause=["a"], effect="b", rule="a"),
        ],
    )
    assert dimension_checks(scaffold, {}, None) == {}
