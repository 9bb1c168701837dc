import pytest

from engine.tasks.code.literals import from_literal
from engine.tasks.code.test_cases import as_statement, called_names, from_assert
from tests.support.table import table


@table(
    ("statement", "args", "expected"),
    [
        ("assert f(1, [2, 3]) == 4", (1, [2, 3]), 4),
        ("assert 4 == f(1)", (1,), 4),
        ("assert (f('a')) == ('b',)  ", ("a",), ("b",)),
        ("assert f() == None", (), None),
        ("assert f(-1, +2) == -3, 'message'", (-1, 2), -3),
        ("assert f({1: 'a'}) == {1, 2}", ({1: "a"},), {1, 2}),
        ("assert f((1, 2)) == (1,)\r\n", ((1, 2),), (1,)),
        ("assert f(b'x', 1e400) == set()", (b"x", float("inf")), set()),
    ],
)
def test_a_call_with_literals_becomes_a_call_test(statement, args, expected):
    row = from_assert(statement)
    assert (row["kind"], row["fn"], row["cmp"]) == ("call", "f", "exact")
    got = from_literal(row["args"]), from_literal(row["expected"])
    assert got == (args, expected)
    assert [type(argument) for argument in got[0]] == [type(argument) for argument in args]
    assert type(got[1]) is type(expected)


def test_keyword_arguments_are_kept():
    row = from_assert("assert f(1, k=[2]) == 3")
    assert from_literal(row["kwargs"]) == {"k": [2]}
    assert as_statement(row) == "assert f(1, k=[2]) == 3"


@table(
    "statement",
    [
        "assert f([Pair(1, 2)]) == 3",
        "assert int(f(1)) == 3",
        "assert f(1)",
        "assert not f(1)",
        "assert f(1) != 2",
        "assert f(1) == f(2)",
        "assert f(1) == g(2)",
        "assert 1 == 1",
        "assert set([1]) == set([1])",
        "assert math.isclose(f(1), 0.5)",
        "assert f(*[1]) == 2",
        "assert f(**{'a': 1}) == 2",
        "x = f(1)\nassert x == 2",
        "assert f(10**10**10) == 1",
        "assert f(1) == 2**10",
        "assert f(1) == set([1, 2])",
        "assert f(9**9**9**9) == 1",
        "assert f(1/0) == 1",
        "assert f('a' * 10**9) == 1",
        "assert f({[]: 1}) == 1",
        "assert f(...) == 1",
        "assert f(" + "[" * 190 + "]" * 190 + ") == [__import__('os').system('id')]",
    ],
)
def test_everything_else_stays_an_assert(statement):
    assert from_assert(statement) == {"kind": "assert", "code": statement}


def test_a_setup_keeps_the_assert():
    assert from_assert("assert f(1) == 2", "import math\r\n") == {
        "kind": "assert",
        "code": "assert f(1) == 2",
        "setup": "import math\n",
    }


def test_what_is_not_python_is_refused():
    for text in ("assert f(1 == 2", "assert " + "(" * 5000):
        with pytest.raises(ValueError, match="not Python"):
            from_assert(text)


def test_the_outermost_call_comes_first():
    assert called_names(from_assert("assert int(f(g(1))) == 3")) == ["int", "f", "g"]
    assert called_names(from_assert("assert f(1) == 3")) == ["f"]
