import ast
import gc
import threading

import pytest

from engine.reading.python_syntax import literal, parse
from tests.support.table import table


@pytest.mark.parametrize(
    ("text", "value"),
    [("[1, (2.5, 'a')]", [1, (2.5, "a")]), ("  {'a': None}", {"a": None}), ("-1", -1), ("{1, 2}", {1, 2})],
)
def test_the_value_of_a_literal(text, value):
    assert literal(text) == value


@table("text", ["f(1)", "x", "1 +", "", "'a\x00'", "[" * 500 + "]" * 500, "{[]: 1}", "1; 2"])
def test_a_text_that_is_not_a_literal_is_an_error(text):
    with pytest.raises(ValueError, match="."):
        literal(text)


@pytest.mark.parametrize("text", ["def", "a b", "x = \x00", "\ud800", "(" * 1000])
def test_a_text_that_is_not_python_is_an_error(text):
    with pytest.raises(ValueError, match="not Python"):
        parse(text)


def test_parsing_from_many_threads():
    """Without the lock CPython 3.11 raises SystemError here: a finaliser may switch threads while parsing."""
    source = "\n".join(f"x{n} = [({n}, 'a'), f(g(h({n})))]" for n in range(60))
    expected = ast.dump(ast.parse(source))
    right = []

    class Yields:
        def __del__(self):
            threading.Event().wait(1e-4)

    def work():
        for _ in range(8):
            cycle = [Yields()]
            cycle.append(cycle)
            del cycle
            right.append(ast.dump(parse(source)) == expected)

    gc.set_threshold(50)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(700, 10, 10)
    assert right == [True] * 32
